"""Shapes of arrays, as they follow from how a kernel indexes and what it compares its indices with.

An index is a sum of products. Those that share the sizes `cols` are `cols` apart: so these sizes are the extents of the
faster dimensions, and what the others are compared with is the extent of the slowest.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tuner.drafting.bounds import IndexBounds, in_order
from tuner.drafting.indices import AXES, Indices
from tuner.drafting.polynomials import Monomial, Polynomial, bare, text

_OF_THREADS = re.compile(r"(?:threadIdx|blockIdx|blockDim|globalIdx)\.[xyz]|.*\[.*\]")
NEW_SIZES = ("rows", "batch", "blocks")  # names of a size that is the number of blocks, and no argument


@dataclass(frozen=True)
class Open:
    """An extent that no comparison tells: its index, which is one thread or block, and the axis if that is the number
    of a block alone, between whose blocks there are others."""

    index: str
    axis: str = ""


Extent = str | Open
BLOCKS_APART = 2  # extents that are numbers of the source, between those of blocks: one may be a tile of threads


@dataclass(frozen=True)
class Names:
    """What a kernel takes, as far as shapes are about it: `arrays`, those that are `written`, and `sizes`. `numbers`
    are macros and constants of the source: they may be extents."""

    arrays: Sequence[str]
    written: Sequence[str]
    sizes: Sequence[str]
    numbers: Mapping[str, int]


class Shapes:
    """What is known of the shapes of arrays, whose kernels have these `bodies`.

    `sizes` are those that a kernel takes, and the numbers of the source that are extents: these are `fixed`, because
    with another one the kernel takes other arrays. `new_sizes` are sizes that no kernel takes: numbers of blocks, where
    it `has_grid`.
    """

    def __init__(self, bodies: Sequence[Sequence[str]], names: Names, has_grid: bool) -> None:
        self.indices = [Indices(body, names.arrays) for body in bodies]
        self._names, self._has_grid = names, has_grid
        self.sizes: list[str] = [*names.sizes]
        self._bounds = dict[tuple[Indices, tuple[str, ...]], IndexBounds]()
        self._read = {word for body in bodies for word in body}
        found = {name: self._found(name) for name in names.arrays}
        self.sizes += self._limits()
        for name, extents in found.items():
            apart = BLOCKS_APART if self._is_by_threads(name) else 1
            if (other := None if _is_told(extents) else self._found(name)) and _is_told(other, apart):
                found[name] = other
        self.new_sizes: list[str] = []
        self._open = self._resolved([*found.values()])
        every = {extent for extents in found.values() for extent in extents or ()}
        self.fixed = {name: number for name, number in names.numbers.items() if name in every}
        self.sizes = [*names.sizes, *self.fixed]
        self._shapes = {name: self._closed(extents) for name, extents in found.items()}

    def _is_by_threads(self, name: str) -> bool:
        """Whether the indices of an array have the numbers of threads: then what blocks are apart may be a tile."""
        for indices in self.indices:
            atoms = {
                atom for polynomial in indices.accesses.get(name, ()) for product in polynomial for atom in product
            }
            begun = [text(indices.loops[atom][0]) for atom in atoms if atom in indices.loops]
            if any("threadIdx" in each or "globalIdx" in each for each in (*atoms, *begun)):
                return True
        return False

    def _limits(self) -> list[str]:
        """The numbers that something is compared with."""
        bounds = [indices.polynomial(words) for indices in self.indices for _, words in indices.bounds]
        return [name for name in self._names.numbers if any((name,) in bound for bound in bounds)]

    def shape(self, name: str) -> list[str] | None:
        """The shape of an array; None where the text does not tell."""
        return self._shapes.get(name)

    def indexed_by(self, name: str) -> str | None:
        """The extent that the elements of an array of whole numbers choose from, as indices; empty where it is open,
        None where they are no indices."""
        for indices in self.indices:
            for array, polynomials in indices.accesses.items():
                groups = [item for polynomial in polynomials for item in self._groups(polynomial).items()]
                for apart, rest in groups:
                    if any(atom.startswith(f"{name}[") for product in rest for atom in product):
                        shape = self._shapes[array] or []
                        bound = self.bounds(indices).extents(rest) or [self._open.get(text(rest), "")]
                        return self.number(bound[0]) or (shape[-1 - len(apart)] if len(apart) < len(shape) else "")
                    if any(re.match(rf"\(+[^\[%]*\b{name}\[[^%]*$", atom) for product in rest for atom in product):
                        return ""  # of what is computed of them
            moved = (atom for polynomial in indices.offsets for product in polynomial for atom in product)
            if any(atom.startswith(f"{name}[") for atom in moved):
                return ""
        return None

    def axis_of(self, name: str, step: int) -> int | None:
        """The axis by the numbers of whose blocks a step indexes an array that is written, and by nothing else; None
        where it does not."""
        every, others = self.indices[step].accesses.get(name, ()), name in self.indices[step].others
        if name not in self._names.written or others or not every:
            return None
        axes = [axis for axis in range(3) if all(p == {(f"blockIdx.{AXES[axis]}",): 1} for p in every)]
        return axes[0] if axes else None

    def limits_of(self, name: str) -> set[str]:
        """The sizes that the indices of an array are less than."""
        found = [(indices, p) for indices in self.indices for p in indices.accesses.get(name, ())]
        return {extent for indices, polynomial in found for extent in self.bounds(indices).extents(polynomial) or ()}

    def ranges(self, indices: Indices) -> Iterator[tuple[Polynomial, list[str]]]:
        """The parts of indices, each with the extent that it runs over."""
        for name, polynomials in indices.accesses.items():
            for polynomial in polynomials if self._shapes[name] else ():
                groups = self._groups(polynomial)
                strides = sorted({(), *groups}, key=len)
                for near, far in itertools.pairwise(strides):
                    yield groups.get(near, {}), in_order(Counter(far) - Counter(near), self.sizes)
                if (last := text(groups.get(strides[-1], {}))) in self._open:
                    yield groups[strides[-1]], [self._open[last]]

    def _found(self, name: str) -> list[Extent] | None:
        """The extents of an array by all its accesses; None where these do not tell, or do not agree."""
        if any(name in indices.others for indices in self.indices):
            return None
        found, constants = list[list[Extent]](), list[int]()
        for indices in self.indices:
            for polynomial in indices.accesses.get(name, ()):
                if set(polynomial) <= {()}:
                    constants.append(polynomial.get((), 0))
                elif (extents := self._by_index(indices, polynomial)) is None:
                    return None
                elif extents not in found:
                    found.append(extents)
        if not found and constants and name in self._names.written:
            return [str(max(constants) + 1)]
        longer = [e for e in found if len(found) == 2 and isinstance(e[0], str) and " + " in e[0]]  # row_ptr[row + 1]
        return longer[0] if longer else found[0] if len(found) == 1 else None

    def _by_index(self, indices: Indices, polynomial: Polynomial) -> list[Extent] | None:
        groups = self._groups(polynomial)
        strides = sorted({(), *groups}, key=len)
        extents: list[Extent] = []
        for near, far in itertools.pairwise(strides):
            if Counter(near) - Counter(far):
                return None
            extents[:0] = in_order(Counter(far) - Counter(near), self.sizes)
        offsets = self._offsets(polynomial)
        last, beyond = groups.get(strides[-1], {}), offsets.get(strides[-1], 0)
        if any(apart and apart not in groups for apart in offsets):  # of x[i + shift], only i + shift < n tells
            last, strides, extents, beyond = bare(polynomial), [()], [], offsets.get((), 0)
        if len(strides) > 1 and self._is_negative(groups, offsets, strides[-2]):
            beyond -= 1  # of x[(row + 1) * cols - 1 - i], the row is the one before
        if bound := self.bounds(indices).extents(last):
            excess = self.bounds(indices).excess(last, beyond)
            if excess:
                return [f"{bound[0]} + {excess}"] if len(bound) == len(strides) == 1 else None
            return None if excess is None else [*bound, *extents]
        if not _is_one(last) or beyond > 0 or self.bounds(indices).is_compared(last):
            return None
        axis = next((a for a in AXES if last == {(f"blockIdx.{a}",): 1}), "")
        return [Open(text(last), axis if extents else ""), *extents]

    @staticmethod
    def _is_negative(groups: Mapping[Monomial, Polynomial], offsets: Polynomial, apart: Monomial) -> bool:
        """Whether a part of an index is less than 0."""
        return offsets.get(apart, 0) < 0 and all(factor < 0 for factor in groups.get(apart, {}).values())

    def _offsets(self, polynomial: Polynomial) -> dict[Monomial, int]:
        """The numbers that are added to an index, by the sizes that they are multiplied by."""
        return {product: factor for product, factor in polynomial.items() if set(product) <= set(self.sizes)}

    def _groups(self, polynomial: Polynomial) -> dict[Monomial, dict[Monomial, int]]:
        """The parts of an index by the sizes that they are multiplied by, without numbers that are added."""
        groups = dict[Monomial, dict[Monomial, int]]()
        for product, factor in polynomial.items():
            apart = tuple(name for name in product if name in self.sizes)
            if rest := tuple(name for name in product if name not in self.sizes):
                groups.setdefault(apart, {})[rest] = factor
        return groups

    def bounds(self, indices: Indices) -> IndexBounds:
        """What a kernel compares its indices with."""
        key = indices, tuple(self.sizes)
        if key not in self._bounds:
            self._bounds[key] = IndexBounds(*key)
        return self._bounds[key]

    def _resolved(self, found: Sequence[Sequence[Extent] | None]) -> dict[str, str]:
        """Sizes for open extents: the only one that no shape has, and that no kernel reads, or a new one for the blocks
        of an axis."""
        every = [extent for extents in found for extent in extents or ()]
        used = {word for extent in every if isinstance(extent, str) for word in extent.split()}
        left = [size for size in self._names.sizes if size not in used]
        open_ = [extent for extent in every if isinstance(extent, Open)]
        texts, axes = dict.fromkeys(each.index for each in open_), {each.index for each in open_ if each.axis}
        if None in found and not axes.issuperset(texts):
            return {}  # an array of which nothing is known may have any size
        if self._read.intersection(left):
            return {}  # it may be something else, such as how often a loop runs
        if len(texts) == len(left) == 1:
            return dict.fromkeys(texts, left[0])
        if len(axes) == len(left) == 1 and not any("[" in each for each in texts):
            return dict.fromkeys(axes, left[0])
        if not left and self._has_grid and axes.issuperset(texts):
            self.new_sizes = [name for name in NEW_SIZES if name not in used][: len(texts)]
            return dict(zip(texts, self.new_sizes, strict=False))
        return {}

    def _closed(self, extents: Sequence[Extent] | None) -> list[str] | None:
        closed = [each if isinstance(each, str) else self._open.get(each.index) for each in extents or ()]
        return [self.number(each) for each in closed if each] if closed and None not in closed else None

    def number(self, extent: str) -> str:
        """An extent, as a number where the source fixes it."""
        return str(self.fixed.get(extent, extent))


def _is_told(extents: Sequence[Extent] | None, apart: int = 0) -> bool:
    """Whether all extents are told, but that of blocks, where these are more than `apart` extents apart."""
    if not extents:
        return False
    first, *others = extents
    return isinstance(first, str) or (first.axis != "" and len(others) >= apart)


def _is_one(index: Polynomial) -> bool:
    """Whether an index is the number of a thread or of a block, or an element that says which."""
    if len(index) == 1:
        ((product, factor),) = index.items()
        return factor == len(product) == 1 and _OF_THREADS.fullmatch(product[0]) is not None
    threads = [each for each in index if len(each) == index[each] == 1 and each[0].startswith("threadIdx.")]
    blocks = [each for each in index if len(each) == 1 + (index[each] == 1) and "blockIdx." in str(each)]
    others = [name for each in blocks for name in each if not name.startswith("blockIdx.")]
    apart = all(name.startswith("blockDim.") or name.isidentifier() for name in others)
    return len(index) == 2 and len(threads) == len(blocks) == 1 and apart
