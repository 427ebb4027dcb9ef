"""How many blocks a launch has, as it follows from what a kernel computes of the numbers of its blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.drafting.indices import AXES, Indices
from tuner.drafting.polynomials import Polynomial, bare

if TYPE_CHECKING:
    from tuner.drafting.shapes import Shapes


class Grids:
    """The grids of the steps whose arrays have these `shapes`."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes

    def of(self, step: int, block: Sequence[str]) -> list[str | None]:
        """The blocks of a step in x, y, z, as far as the text tells, by the threads of a block."""
        indices, used = self._shapes.indices[step], self._shapes.indices[step].atoms()
        axes = [axis for axis in AXES if {f"blockIdx.{axis}", f"globalIdx.{axis}"} & used]
        count = 1 + max((AXES.index(axis) for axis in axes), default=-1)
        return [self._blocks(indices, axis, block) if axis in axes else "1" for axis in AXES[:count]]

    def is_row(self, step: int, axis: int) -> bool:
        """Whether the number of a block along an axis is a number of elements by itself, as of rows."""
        block, indices = f"blockIdx.{AXES[axis]}", self._shapes.indices[step]
        every = [p for polynomials in indices.accesses.values() for p in polynomials]
        products = [each for p in (*every, *indices.locals(), *(p for p, _ in indices.bounds)) for each in p]
        found = [set(each) for each in products if block in each and "threadIdx" not in str(each)]
        return bool(found) and all(each <= {block, *self._shapes.sizes} for each in found)

    def steps_over(self, step: int) -> bool:
        """Whether a loop of a step goes on behind all that the blocks of the grid have done."""
        steps = (
            name for _, steps in self._shapes.indices[step].loops.values() for p in steps for each in p for name in each
        )
        return any(name.startswith(("gridDim.", "get_global_size")) for name in steps)

    def _blocks(self, indices: Indices, axis: str, block: Sequence[str]) -> str | None:
        """The blocks along an axis; None where nothing tells, or what tells does not agree."""
        threads = {f"blockDim.{name}": extent for name, extent in zip(AXES, block, strict=False)}
        found = set[str]()
        for polynomial, extents in (*self._shapes.bounds(indices).less, *self._shapes.ranges(indices)):
            more = max(0, -polynomial.get((), 0))  # of i - 1 < n, i is one more than n
            extent = " * ".join(map(self._shapes.number, extents)) + f" + {more}" * (more > 0)
            polynomial = self._begun(indices, polynomial)
            if bare(polynomial) == {(f"globalIdx.{axis}",): 1} and f"blockDim.{axis}" in threads:
                found.add(f"ceil_div({extent}, {threads[f'blockDim.{axis}']})")
            steps = [(p, factor) for p, factor in polynomial.items() if f"blockIdx.{axis}" in p]
            others = [name for p, _ in steps for name in p if name != f"blockIdx.{axis}"]
            if len(steps) != 1 or not all(n in threads or self._is_tile(n) for n in others):
                continue
            factors = [threads.get(name, name.replace(" / ", " // ")) for name in others]
            factors += [str(steps[0][1])] if steps[0][1] != 1 else []
            tiles = " * ".join(f"({f})" if re.search(r"[-+/%]", f) else f for f in factors)
            found.add(f"ceil_div({extent}, {tiles})" if tiles else extent)
        return found.pop() if len(found) == 1 else None

    def _is_tile(self, name: str) -> bool:
        """Whether a factor is a macro or constant, or a quotient of such."""
        words = re.findall(r"\w+", name) if re.fullmatch(r"\([\w *]+\) / \([\w *]+\)", name) else [name]
        return not any(word in self._shapes.sizes for word in words) and all(
            word.isidentifier() or (word.isdecimal() and len(words) > 1) for word in words
        )

    def _begun(self, indices: Indices, polynomial: Polynomial) -> Polynomial:
        """Of the variable of a loop alone, what it begins with, where its steps are those of threads or of the grid."""
        (only, *more) = [*bare(polynomial)] or [()]
        start, steps = indices.loops.get(only[0], ({}, [])) if len(only) == 1 and not more else ({}, [])
        within = (
            name.startswith(("blockDim.", "gridDim.", "get_global_size"))
            or (name.isidentifier() and name not in self._shapes.sizes)
            for step in steps
            for product in step
            for name in product
        )
        return start if start and all(within) else polynomial
