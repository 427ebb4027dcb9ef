"""Reads the global and local sizes of an OpenCL launch, and divides them into a grid of blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tuner.drafting.host.scope import AXES, HostScope
from tuner.drafting.polynomials import Polynomial, atom
from tuner.space.sources.tokens import matching

_NONE = ("NULL", "nullptr", "0", "NullRange")


def in_blocks(
    scope: HostScope, items: Sequence[str], local: Sequence[str], axes: int
) -> tuple[list[Polynomial] | None, list[Polynomial] | None]:
    """The grid and the block of a launch of work-items. A block that the driver chooses is an atom."""
    sizes, threads = work_sizes(scope, items, axes), work_sizes(scope, local, axes)
    if threads is None:
        threads = [atom(f"any block in {axis}") for axis in AXES[: len(sizes or ())]]
    if sizes is None:
        return None, threads
    return [_divided(scope, *each) for each in zip(sizes, threads, strict=False)], threads


def whole_axes(scope: HostScope, items: Sequence[str], grid: Sequence[Polynomial] | None) -> list[int]:
    """The axes on which a grid has a block for each started one of the work-items: their number is a multiple of the
    block, which the host does not round up."""
    sizes = work_sizes(scope, items, len(grid or ())) or []
    return [
        axis
        for axis, (each, blocks) in enumerate(zip(sizes, grid or (), strict=False))
        for (only, *more) in [[*blocks] or [()]]
        if not more and scope.notes.ceilings.get("".join(only), ({}, {}))[0] == each
    ]


def work_sizes(scope: HostScope, words: Sequence[str], axes: int) -> list[Polynomial] | None:
    """The sizes along each axis; None if they are unclear, or if there are none."""
    words = _without_cast(words)
    if not words or words[-1] in _NONE:
        return None
    if words[0] == "&" and words[-1] != "]":
        return [scope.polynomial(words[1:])]
    name = "".join(words[1:-3] if words[0] == "&" else words)  # &size[0]
    if scope.caller is not None and name in scope.given and not scope.function.declares(name):
        return work_sizes(scope.caller, scope.given[name], axes)
    if scope.function.is_dim3(name) or words[0] == "NDRange":
        return scope.extents(words)
    return _elements(scope, name, axes)


def _elements(scope: HostScope, name: str, axes: int) -> list[Polynomial] | None:
    """The elements of an array that is initialised or assigned one by one."""
    function, found = scope.function, list[Polynomial]()
    whole, _ = function.last(name, scope.position)
    if whole is not None and function.is_certain(whole, scope.position):
        found = scope.at(whole.position).extents(whole.words) or []
    for axis in range(axes):
        each, _ = function.last(f"{name}[{axis}]", scope.position)
        if each is not None:
            if not each.words or not function.is_certain(each, scope.position):
                return None
            found += [{(): 1}] * (axis + 1 - len(found))
            found[axis] = scope.at(each.position).polynomial(each.words)
    return found[:axes] or None


def _without_cast(words: Sequence[str]) -> Sequence[str]:
    while words and words[0] == "(" and matching(words, 0) < len(words) - 1:
        words = words[matching(words, 0) + 1 :]
    return words


def _divided(scope: HostScope, items: Polynomial, threads: Polynomial) -> Polynomial:
    """The number of blocks for a number of work-items, which is a multiple of the threads of a block."""
    (product, *more) = [*threads] or [()]
    if not more and threads.get(product):
        left = [Counter(each) for each in items]
        if all(not Counter(product) - each for each in left) and not any(f % threads[product] for f in items.values()):
            return {
                tuple(sorted((Counter(each) - Counter(product)).elements())): f // threads[product]
                for each, f in items.items()
            }
    return scope.notes.ceiling(items, threads) if threads != {(): 1} else items
