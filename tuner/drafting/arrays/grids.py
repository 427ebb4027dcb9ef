"""Infers the grid of a launch from how a kernel uses blockIdx in its indices and comparisons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.drafting.arrays.indices import AXES, Indices
from tuner.drafting.polynomials import Monomial, Polynomial, added, bare, times, written

if TYPE_CHECKING:
    from tuner.drafting.arrays.shapes import Shapes


class Grids:
    """The grids of the steps, inferred from `shapes` and their indices."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes

    def of(self, step: int, block: Sequence[str]) -> list[str | None]:
        """The grid of a step in x, y, z for the block size `block`; None for each unknown axis."""
        indices, used = self._shapes.indices[step], self._shapes.indices[step].atoms()
        axes = [axis for axis in AXES if {f"blockIdx.{axis}", f"globalIdx.{axis}"} & used]
        count = 1 + max((AXES.index(axis) for axis in axes), default=-1)
        found = [self._blocks(indices, axis, block) if axis in axes else "1" for axis in AXES[:count]]
        return [found[0], "1"] if self.is_flat(step) and found[0] else found

    def is_flat(self, step: int) -> bool:
        """Whether a second axis of the grid only holds blocks for which the first has no place."""
        indices = self._shapes.indices[step]
        return indices.is_flat("y") and indices.atoms().isdisjoint(("blockIdx.z", "globalIdx.y", "globalIdx.z"))

    def is_row(self, step: int, axis: int) -> bool:
        """Whether the block index along an axis is itself an element index, such as a row."""
        block, indices = f"blockIdx.{AXES[axis]}", self._shapes.indices[step]
        every = [p for polynomials in indices.accesses.values() for p in polynomials]
        products = [each for p in (*every, *indices.locals(), *(p for p, _ in indices.bounds)) for each in p]
        found = [set(each) for each in products if block in each and "threadIdx" not in str(each)]
        return bool(found) and all(each <= {block, *self._shapes.sizes} for each in found)

    def is_limited(self, step: int, axis: int) -> bool:
        """Whether a step compares indices along an axis, so that threads beyond may do nothing."""
        atoms = {f"{name}.{AXES[axis]}" for name in ("globalIdx", "blockIdx")}
        indices = self._shapes.indices[step]
        limited = [
            indices.loops.get("".join(*each), (each, []))[0] if len(each) == 1 else each for each in indices.limited
        ]
        return any(atoms & {*product} for each in limited for product in each)

    def steps_over(self, step: int, axes: Sequence[int] = range(3)) -> bool:
        """Whether a step has a grid-stride loop along one of these axes."""
        steps = {
            name for _, steps in self._shapes.indices[step].loops.values() for p in steps for each in p for name in each
        }
        return any(f"gridDim.{AXES[axis]}" in steps for axis in axes)

    def of_blocks(self, step: int, axis: int) -> list[str]:
        """The arrays that depend on the number of blocks beside a grid-stride loop along an axis.

        They have an element for each block or each thread, or every block writes the same elements.
        """
        if not self.steps_over(step, [axis]):
            return []
        indices, written = self._shapes.indices[step], self._shapes.written(step)
        same = [name for name in written if (each := indices.accesses[name]) and all({*p} <= {()} for p in each)]
        same = [name for name in same if not indices.is_atomic(name)]
        return [*same, *self._indexed(step, {f"blockIdx.{AXES[axis]}", f"globalIdx.{AXES[axis]}"})]

    def of_all_blocks(self, step: int, axis: int) -> list[str]:
        """The arrays that a step may write whose indices are the same in all blocks along an axis, without atomics."""
        indices, atoms = self._shapes.indices[step], {f"blockIdx.{AXES[axis]}", f"globalIdx.{AXES[axis]}"}
        begun = {n for n, (start, _) in indices.loops.items() if any(atoms & {*product} for product in start)}
        own = {*self._indexed(step, atoms | begun), *indices.others}
        every = (name for name in self._shapes.written(step) if indices.accesses[name] and name not in own)
        return [name for name in every if not indices.is_atomic(name)]

    def of_blocks_of_threads(self, step: int, axis: int) -> list[str]:
        """The arrays that a step only reads and whose indices have block and thread along an axis."""
        block, thread = f"blockIdx.{AXES[axis]}", f"threadIdx.{AXES[axis]}"
        both = {*self._indexed(step, {block})} & {*self._indexed(step, {thread})}
        return sorted(both | {*self._indexed(step, {f"globalIdx.{AXES[axis]}"})} - {*self._shapes.written(step)})

    def of_threads(self, step: int, axis: int) -> list[str]:
        """The written arrays with an element for each thread along an axis, or with unknown ones."""
        indices, axis_of = self._shapes.indices[step], AXES[axis]
        others = indices.others if f"threadIdx.{axis_of}" in indices.atoms() else set[str]()
        found = {*self._indexed(step, {f"threadIdx.{axis_of}", f"globalIdx.{axis_of}"}), *others}
        return [name for name in self._shapes.written(step) if name in found]

    def tile(self, step: int, axis: int, block: Sequence[str]) -> str:
        """The elements of a block along an axis, as a local such as `blockIdx.x * BX * ITEMS + threadIdx.x` tells for
        the block size `block`; empty if none does, or two differ."""
        indices, own, found = self._shapes.indices[step], f"blockIdx.{AXES[axis]}", set[str]()
        for polynomial in indices.locals():
            steps = [(product, factor) for product, factor in polynomial.items() if own in product]
            if len(steps) != 1 or {*polynomial} - {steps[0][0], (f"threadIdx.{AXES[axis]}",)}:
                continue
            names = [name for name in steps[0][0] if name != own]
            threads = {f"blockDim.{name}": extent for name, extent in zip(AXES, block, strict=False)}
            if names and all(name in threads or self._is_tile(name) for name in names):
                factors = [threads.get(name, name) for name in names]
                found.add(" * ".join([*factors, *([str(steps[0][1])] if steps[0][1] != 1 else [])]))
        return found.pop() if len(found) == 1 else ""

    def _indexed(self, step: int, atoms: set[str]) -> list[str]:
        """The arrays whose indices have one of these atoms, and not only in the start of a loop."""
        every = ((name, p) for name, each in self._shapes.indices[step].accesses.items() for p in each)
        return [*dict.fromkeys(name for name, p in every if any(atoms & {*product} for product in p))]

    def _blocks(self, indices: Indices, axis: str, block: Sequence[str]) -> str | None:
        """The number of blocks along an axis; None if unknown or ambiguous. The limit at which threads return counts
        more than others, which may be of a part of the work. The length of rows, which may be padded, counts less than
        what the kernel compares the index with."""
        threads = {f"blockDim.{name}": extent for name, extent in zip(AXES, block, strict=False)}
        found, guarded, halves = set[str](), set[str](), " ".join(indices.halves)
        less = self._shapes.bounds(indices).less
        compared = {name for _, extents in less for name in extents}
        for polynomial, extents in (*less, *self._shapes.ranges(indices)):
            if found and compared.isdisjoint(extents):
                continue
            if f"< {' * '.join(extents)} " in halves:
                continue
            names = {name for product in polynomial for name in product}
            if names & {f"globalIdx.{axis}", f"blockIdx.{axis}"} and self._shapes.bounds(indices).is_in_sum(polynomial):
                return None
            more = max(0, -polynomial.get((), 0))  # i - 1 < n means i < n + 1
            extent = _product([*map(self._shapes.number, extents)]) + f" + {more}" * (more > 0)
            if all(factor < 0 for factor in polynomial.values()):
                polynomial = times(polynomial, {(): -1})  # from behind, as in x[n - 1 - i]
            polynomial, passes = _without_passes(indices, self._loop_start(indices, polynomial), axis)
            if bare(polynomial) == {(f"globalIdx.{axis}",): 1} and f"blockDim.{axis}" in threads:
                found.add(blocks := f"ceil_div({extent}, {_product([threads[f'blockDim.{axis}'], *passes])})")
                guarded.update([blocks] if tuple(extents) in indices.guards else [])
            steps = [(p, factor) for p, factor in polynomial.items() if f"blockIdx.{axis}" in p]
            others = [name for p, _ in steps for name in p if name != f"blockIdx.{axis}"]
            if not steps and (items := self._items(polynomial, f"globalIdx.{axis}")):
                steps, others = [items], [f"blockDim.{axis}", *items[0]]
            if len(steps) != 1 or not all(n in threads or self._is_tile(n) for n in others):
                continue
            factors = [threads.get(name, self._shapes.number(name.replace(" / ", " // "))) for name in others]
            factors += [str(steps[0][1])] if steps[0][1] != 1 else []
            if not factors and (f"threadIdx.{axis}",) in polynomial:
                return None  # blocks of many threads overlap
            tiles = _product([*factors, *passes])
            found.add(f"ceil_div({extent}, {tiles})" if tiles else extent)
        if len(found) > 1 and len(guarded) == 1:
            return guarded.pop()
        return found.pop() if len(found) == 1 else None

    @staticmethod
    def _items(polynomial: Polynomial, thread: str) -> tuple[Monomial, int] | None:
        """The names and the number by which an index multiplies that of a global thread with several elements in a row,
        as in `i * ITEMS + k`; None if there are none."""
        found = [(product, factor) for product, factor in polynomial.items() if thread in product]
        names = tuple(name for product, _ in found for name in product if name != thread)
        return (names, found[0][1]) if len(found) == 1 and (names or found[0][1] > 1) else None

    def _is_tile(self, name: str) -> bool:
        """Whether a factor is a macro or constant, or a quotient of them."""
        words = re.findall(r"\w+", name) if re.fullmatch(r"\([\w *]+\) / \([\w *]+\)", name) else [name]
        sizes = {*self._shapes.sizes} - self._shapes.fixed.keys()
        return not any(word in sizes for word in words) and all(
            word.isidentifier() or (word.isdecimal() and len(words) > 1) for word in words
        )

    def _loop_start(self, indices: Indices, polynomial: Polynomial) -> Polynomial:
        """The start of a loop variable whose steps are block, grid or tile sizes; any other expression is unchanged."""
        (only, *more) = [*bare(polynomial)] or [()]
        start, steps = indices.loops.get(only[0], ({}, [])) if len(only) == 1 and not more else ({}, [])
        within = (
            name.startswith(("blockDim.", "gridDim.")) or (name.isidentifier() and name not in self._shapes.sizes)
            for step in steps
            for product in step
            for name in product
        )
        if not start or not all(within):
            return polynomial
        return {} if any(_is_of_blocks(start, step) for step in steps) else start


def _without_passes(indices: Indices, polynomial: Polynomial, axis: str) -> tuple[Polynomial, list[str]]:
    """An index without `k * gridDim.x * blockDim.x`, by which a loop steps over the grid a fixed number of times, and
    this number, if there is such a term."""
    grid = f"gridDim.{axis}"
    for product, factor in polynomial.items():
        counters = [name for name in product if name in indices.lasts]
        if product.count(grid) == 1 == len(counters):
            rest = Counter(product) - Counter((grid, *counters))
            strides = [
                (*rest.elements(), f"blockIdx.{axis}"),
                (*(rest - Counter([f"blockDim.{axis}"])).elements(), f"globalIdx.{axis}"),
            ]
            if any(polynomial.get(tuple(sorted(each))) == factor for each in strides):
                left = {other: number for other, number in polynomial.items() if other != product}
                return left, [written(added(indices.lasts[counters[0]], {(): 1}))]
    return polynomial, []


def _product(factors: Sequence[str]) -> str:
    """The product of these expressions."""
    if len(factors) == 1:
        return factors[0]
    return " * ".join(f"({each})" if re.search(r"[-+/%]", each) else each for each in factors)


def _is_of_blocks(start: Polynomial, step: Polynomial) -> bool:
    """Whether a loop that starts at a block index steps over several blocks, whose number is a constant."""
    for product, factor in start.items():
        rest = [name for name in product if not name.startswith("blockIdx.")]
        if len(rest) == len(product) - 1 and len(step) == 1:
            ((names, number),) = step.items()
            is_multiple = not Counter(rest) - Counter(names) and number % factor == 0
            others = [*(Counter(names) - Counter(rest)).elements()]
            is_grid = any(name.startswith("gridDim.") for name in names)
            return is_multiple and not is_grid and (bool(others) or number > factor)
    return False
