"""Says how many threads a kernel needs whose launches have a single block along an axis."""

from __future__ import annotations

from collections.abc import Collection

from tuner.drafting.arrays.shapes import Shapes


def needed(shapes: Shapes, step: int, axis: str) -> list[list[str]] | None:
    """The products of sizes that a single block of a step must have as many threads as, since each thread takes one
    element; empty if any block is right, or that is unclear. None if only the host's number of threads is known to be.
    """
    indices, thread = shapes.indices[step], f"threadIdx.{axis}"
    if indices.others and thread in indices.atoms():
        return None  # arrays are used in other ways
    found = list[list[str]]()
    for polynomials in indices.accesses.values():
        for polynomial in polynomials:
            read = [product for product in polynomial if _reads(product, thread)]
            if not read:
                continue
            extents = shapes.bounds(indices).extents({(thread,): 1})
            if len(read) > 1 or not {*read[0]} <= {thread, *shapes.sizes} or extents is None:
                is_bounded = any(_reads(product, thread) for left, _ in shapes.bounds(indices).less for product in left)
                return [] if is_bounded else None
            found.append(extents)
    return [each for at, each in enumerate(found) if each not in found[:at]]


def _reads(product: Collection[str], thread: str) -> bool:
    """Whether a product has a thread index, also in an expression such as a quotient."""
    return any(thread in name.replace(" ", "") for name in product)
