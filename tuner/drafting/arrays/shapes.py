"""Infers shapes of arrays from index expressions and the comparisons that bound them.

An index is a sum of products. In `row * cols + col`, `row` has the stride `cols`, so `cols` is the extent of the faster
dimension. The extent of the slowest dimension is the bound of its index: `rows` if the kernel tests `row < rows`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from tuner.classes import dataclass
from tuner.drafting.arrays import planes
from tuner.drafting.arrays.bounds import IndexBounds, in_order
from tuner.drafting.arrays.indices import AXES, Indices
from tuner.drafting.knobs.proposals import is_large
from tuner.drafting.polynomials import Monomial, Polynomial, bare, text

_OF_THREADS = re.compile(r"(?:threadIdx|blockIdx|blockDim|globalIdx)\.[xyz]|.*\[.*\]")
_OF_ROWS = ("blockDim.x", "blockIdx.y", "gridDim.x")
NEW_SIZES = ("rows", "batch", "blocks")  # names for a size that is a number of blocks and no kernel argument


@dataclass(frozen=True)
class Open:
    """An extent without a bound: its index, and `axis` if that is a block index and faster extents follow."""

    index: str
    axis: str = ""


Extent = str | Open
BLOCKS_APART = 2  # fewest constant extents below a block index; one may be a thread tile


@dataclass(frozen=True)
class Names:
    """Names in kernels: arrays, written arrays, sizes, and `numbers` (integer macros, constants and template
    parameters; those of `passed` cannot be sizes). `own` are the arrays that each of several kernels takes, which may
    have variables with the names of others."""

    arrays: Sequence[str]
    written: Sequence[str]
    sizes: Sequence[str]
    numbers: Mapping[str, int]
    own: Sequence[Collection[str]] = ()
    passed: Collection[str] = ()


class Shapes:
    """The shapes of the arrays of the kernels with these `bodies` (tokens).

    sizes: the kernels' size parameters and the names in `fixed`
    fixed: macros and constants that are extents; another value would change the arrays
    new_sizes: numbers of blocks that are no kernel argument; only if `has_grid`
    """

    def __init__(self, bodies: Sequence[Sequence[str]], names: Names, has_grid: bool) -> None:
        own = names.own or [names.arrays] * len(bodies)
        self.indices = [Indices(body, [*each], names.sizes) for body, each in zip(bodies, own, strict=True)]
        self._names, self._has_grid = names, has_grid
        self.sizes: list[str] = [*names.sizes]
        self._bounds = dict[tuple[Indices, tuple[str, ...]], IndexBounds]()
        self._known_ends = dict[Indices, dict[str, int]]()
        self._read = {word for body in bodies for word in body}
        self._same = dict[str, str]()  # the extents of indices without a bound, by these, as other accesses tell them
        found = {name: self._found(name) for name in names.arrays}
        self.sizes += self._limits()
        for name, extents in found.items():
            apart = BLOCKS_APART if self._is_by_threads(name) else 1
            if found[name] is None and (of_planes := self._of_planes(name)):
                found[name] = [*of_planes]
            if (other := None if _is_known(extents) else self._found(name)) and _is_known(other, apart):
                found[name] = other
        self.new_sizes: list[str] = []
        self._open = self._resolved([*found.values()])
        every = {extent for extents in found.values() for extent in extents or ()}
        numbers = {name: number for name, number in names.numbers.items() if name in every}
        self.fixed = {
            name: number for name, number in numbers.items() if name in names.passed or not is_large(name, number)
        }
        self.sizes = [*names.sizes, *numbers]
        self._shapes = {name: self._closed(extents) for name, extents in found.items()}
        self._found_extents = found
        self._faster = {name: extents[1:] for name, extents in found.items() if extents and len(extents) > 1}

    def _of_planes(self, name: str) -> list[str] | None:
        """The shape of an array of a few planes or of records; None for any other."""
        if any(name in indices.others for indices in self.indices):
            return None
        every = self._accesses(name)
        return planes.shape(every, self.sizes) or planes.records(every)

    def _accesses(self, name: str) -> list[planes.Access]:
        """The accesses of an array, with constants as numbers."""
        numbers, every = self._names.numbers, list[planes.Access]()
        for indices in self.indices:
            ends, extents_of = self._ends(indices), functools.partial(self._told_by, indices)
            found = (planes.evaluated(polynomial, numbers) for polynomial in indices.accesses.get(name, ()))
            every += [planes.Access(index, ends, extents_of) for index in found]
        return every

    def length_of_records(self, name: str) -> int:
        """The numbers in each record of an array of records; 0 for any other array."""
        return planes.length_of_records(self._accesses(name))

    def _ends(self, indices: Indices) -> dict[str, int]:
        """The last values of a kernel's loop variables that have constant bounds, cached."""
        if indices not in self._known_ends:
            bounds = ((left, indices.polynomial(words)) for left, words in indices.bounds)
            self._known_ends[indices] = planes.ends(indices.loops, bounds, self._names.numbers)
        return self._known_ends[indices]

    def _is_by_threads(self, name: str) -> bool:
        """Whether an array is indexed by thread indices; the stride between blocks may then be a tile."""
        for indices in self.indices:
            atoms = {
                atom for polynomial in indices.accesses.get(name, ()) for product in polynomial for atom in product
            }
            begun = [text(indices.loops[atom][0]) for atom in atoms if atom in indices.loops]
            if any("threadIdx" in each or "globalIdx" in each for each in (*atoms, *begun)):
                return True
        return False

    def _limits(self) -> list[str]:
        """The macros and constants that are bounds in comparisons."""
        bounds = [indices.polynomial(words) for indices in self.indices for _, words in indices.bounds]
        return [name for name in self._names.numbers if any((name,) in bound for bound in bounds)]

    def shape(self, name: str) -> list[str] | None:
        """The shape of an array, slowest dimension first; None if unknown."""
        return self._shapes.get(name)

    def faster(self, name: str) -> list[str]:
        """All known extents of an array except the slowest; empty if it has no others."""
        extents = [each for each in self._faster.get(name, ()) if isinstance(each, str)]
        return [self.number(each) for each in extents] if len(extents) == len(self._faster.get(name, ())) else []

    def strides(self, name: str) -> set[Monomial]:
        """The products of names in the indices of an array."""
        return {product for indices in self.indices for index in indices.accesses.get(name, ()) for product in index}

    def reads(self, name: str) -> set[str]:
        """The names in the indices of an array, and in what these are compared with."""
        found = set[str]()
        for indices in self.indices:
            atoms = {atom for index in indices.accesses.get(name, ()) for product in index for atom in product}
            limits = (words for left, words in indices.bounds if any({*product} & atoms for product in left))
            found |= atoms | {word for words in limits for word in words}
        return found

    def is_plain(self, name: str) -> bool:
        """Whether no index of an array has a size as a factor, as those of several axes have."""
        every = [product for indices in self.indices for index in indices.accesses.get(name, ()) for product in index]
        has_size = any(
            re.search(rf"\b{re.escape(size)}\b", word) for each in every for word in each for size in self.sizes
        )
        return bool(every) and not has_size and not self.has_others(name)

    def is_left_over(self, name: str) -> bool:
        """Whether the slowest extent of an array is only the size that no index has."""
        first = (self._found_extents.get(name) or [""])[0]
        return isinstance(first, Open)

    def indexed_by(self, name: str) -> str | None:
        """The extent that the elements of an integer array index; empty if unknown, None if they are no indices."""
        for indices in self.indices:
            for array, polynomials in indices.accesses.items():
                groups = [item for polynomial in polynomials for item in self._groups(polynomial).items()]
                for apart, rest in groups:
                    if any(atom.startswith(f"{name}[") for product in rest for atom in product):
                        shape = self._shapes[array] or []
                        bound = self.bounds(indices).extents(rest) or [self._open.get(text(rest), "")]
                        return self.number(bound[0]) or (shape[-1 - len(apart)] if len(apart) < len(shape) else "")
                    if any(re.match(rf"\(+[^\[%]*\b{name}\[[^%]*$", atom) for product in rest for atom in product):
                        return ""  # the index is computed from elements
            moved = (atom for polynomial in indices.offsets for product in polynomial for atom in product)
            if any(atom.startswith(f"{name}[") for atom in moved):
                return ""
        return None

    def has_others(self, name: str) -> bool:
        """Whether an array is also used other than by an index."""
        return any(name in indices.others for indices in self.indices)

    def axis_of(self, name: str, step: int) -> int | None:
        """The axis if a step writes an array with one element per block along it; None otherwise."""
        every, others = self.indices[step].accesses.get(name, ()), name in self.indices[step].others
        if name not in self._names.written or others or not every:
            return None
        axes = [axis for axis in range(3) if self._is_by_blocks(self.indices[step], AXES[axis], every)]
        return axes[0] if axes else None

    @staticmethod
    def _is_by_blocks(indices: Indices, axis: str, every: Sequence[Polynomial]) -> bool:
        """Whether these are block indices along an axis, of which some may run over all blocks in a loop."""
        block = {(f"blockIdx.{axis}",): 1}
        over = [left for left, words in indices.bounds if indices.polynomial(words) == {(f"gridDim.{axis}",): 1}]
        return block in every and all(each == block or each in over for each in every)

    def written(self, step: int) -> list[str]:
        """The arrays that a step may write."""
        return [name for name in self._names.written if name in self.indices[step].accesses]

    def limits_of(self, name: str) -> set[str]:
        """The sizes that bound the indices of an array."""
        found = [(indices, p) for indices in self.indices for p in indices.accesses.get(name, ())]
        return {extent for indices, polynomial in found for extent in self.bounds(indices).extents(polynomial) or ()}

    def ranges(self, indices: Indices) -> Iterator[tuple[Polynomial, list[str]]]:
        """The terms of indices, each with the product of extents that bounds it."""
        for name, polynomials in indices.accesses.items():
            for polynomial in polynomials if self._shapes[name] else ():
                groups = self._groups(polynomial)
                strides = _by_length(groups)
                for near, far in itertools.pairwise(strides):
                    if Counter(near) - Counter(far):
                        continue  # neither is a part of the other
                    yield groups.get(near, {}), in_order(Counter(far) - Counter(near), self.sizes)
                if (last := text(groups.get(strides[-1], {}))) in self._open:
                    yield groups[strides[-1]], [self._open[last]]

    def _found(self, name: str) -> list[Extent] | None:
        """The extents of an array from all its accesses; None if unknown or ambiguous."""
        if any(name in indices.others for indices in self.indices):
            return None
        found, constants, within = list[list[Extent]](), list[int](), list[list[Extent] | None]()
        for indices in self.indices:
            for polynomial in indices.accesses.get(name, ()):
                if set(polynomial) <= {()}:
                    constants.append(polynomial.get((), 0))
                elif (extents := self._by_index(indices, polynomial)) is None:
                    within.append(self._in_next(indices, polynomial))
                elif extents not in found:
                    found.append(extents)
        longest = max(found, key=len, default=[])
        others = [*within, *(each for each in found if each is not longest)]
        if (
            len(others) > 0
            and isinstance(next(iter(longest), None), str)
            and all(map(functools.partial(_is_part, longest), others))
        ):
            return longest
        if within:
            return None
        last = max(constants, default=0)
        is_whole = last > 0 and {*constants} == {*range(last + 1)}  # x[0] alone may be the first of many
        if not found and constants and (is_whole or name in self._names.written):
            return [str(last + 1)]
        longer = [e for e in found if len(found) == 2 and isinstance(e[0], str) and " + " in e[0]]  # row_ptr[row + 1]
        # x[j] with j < n beside x[i] for each thread i: there is a thread for each element.
        open_ = [each for (each, *more) in found if isinstance(each, Open) and not more and "threadIdx" in each.index]
        told = [each for each in found if isinstance(each[0], str)]
        if open_ and len(told) == 1 == len(told[0]) and len(open_) + 1 == len(found):
            self._same |= {each.index: told[0][0] for each in open_ if isinstance(told[0][0], str)}
            return told[0]
        return longer[0] if longer else found[0] if len(found) == 1 else None

    def _in_next(self, indices: Indices, polynomial: Polynomial) -> list[Extent] | None:
        """The extents that an index tells within the second of several planes, as in `x[plane + i * n + j]`; None for
        any other."""
        groups = self._groups(polynomial)
        ahead = {product: factor for product, factor in self._offsets(polynomial).items() if product not in groups}
        ahead.pop((), None)
        rest = {product: factor for product, factor in polynomial.items() if product not in ahead}
        return self._by_index(indices, rest) if [*ahead.values()] == [1] else None

    def likely(self, name: str) -> list[str]:
        """The shape of an array that those of its indices tell that tell one; empty if none does, or two differ."""
        every = ((each, index) for each in self.indices for index in each.accesses.get(name, ()) if any(index))
        found = {tuple(extents) for extents in (self._told_by(*each) for each in every) if extents}
        return [self.number(each) for each in found.pop()] if len(found) == 1 else []

    def _told_by(self, indices: Indices, index: Polynomial) -> list[str]:
        """The extents of an array that one index alone tells; empty if it does not."""
        found = self._by_index(indices, index) or []
        known = [each for each in found if isinstance(each, str)]
        return known if len(known) == len(found) else []

    def _by_index(self, indices: Indices, polynomial: Polynomial) -> list[Extent] | None:
        groups = self._groups(polynomial)
        strides = _by_length(groups)
        extents: list[Extent] = []
        every = [rest for rests in groups.values() for rest in rests]
        if any(factor < 0 and every.count(rest) > 1 for rests in groups.values() for rest, factor in rests.items()):
            return None  # i * n - i, as in a triangle
        if any(len(rests) > 1 and any(every.count(rest) > 1 for rest in rests) for rests in groups.values()):
            return None  # i * (n + 1) + j, whose rows are longer than n; i * n + i alone is a diagonal
        for near, far in itertools.pairwise(strides):
            if Counter(near) - Counter(far):
                return None
            extents[:0] = in_order(Counter(far) - Counter(near), self.sizes)
        offsets = self._offsets(polynomial)
        last, beyond = groups.get(strides[-1], {}), offsets.get(strides[-1], 0)
        if any(apart and apart not in groups for apart in offsets):  # x[i + shift]: i + shift must be bounded
            last, strides, extents, beyond = bare(polynomial), [()], [], offsets.get((), 0)
        if len(strides) > 1 and self._is_negative(groups, offsets, strides[-2]):
            beyond -= 1  # x[(row + 1) * cols - 1 - i] is in the row before
        if bound := self.bounds(indices).extents(last):
            excess = self.bounds(indices).excess(last, beyond)
            if excess:
                return [f"{bound[0]} + {excess}"] if len(bound) == len(strides) == 1 else None
            return None if excess is None else [*bound, *extents]
        if not _is_single_index(last) or beyond > 0 or self.bounds(indices).is_compared(last):
            return None
        axis = next((a for a in AXES if last == {(f"blockIdx.{a}",): 1}), "")
        return [Open(text(last), axis if extents else ""), *extents]

    @staticmethod
    def _is_negative(groups: Mapping[Monomial, Polynomial], offsets: Polynomial, apart: Monomial) -> bool:
        """Whether the terms with stride `apart` have only negative coefficients and a negative constant."""
        return offsets.get(apart, 0) < 0 and all(factor < 0 for factor in groups.get(apart, {}).values())

    def _offsets(self, polynomial: Polynomial) -> dict[Monomial, int]:
        """The constants in an index, by their stride (a product of sizes)."""
        return {product: factor for product, factor in polynomial.items() if set(product) <= set(self.sizes)}

    def _groups(self, polynomial: Polynomial) -> dict[Monomial, dict[Monomial, int]]:
        """The terms of an index by their stride (a product of sizes), without constants."""
        groups = dict[Monomial, dict[Monomial, int]]()
        for product, factor in polynomial.items():
            apart = tuple(name for name in product if name in self.sizes)
            if rest := tuple(name for name in product if name not in self.sizes):
                groups.setdefault(apart, {})[rest] = factor
        return groups

    def bounds(self, indices: Indices) -> IndexBounds:
        """The bounds of a kernel's indices, cached."""
        key = indices, tuple(self.sizes)
        if key not in self._bounds:
            self._bounds[key] = IndexBounds(*key)
        return self._bounds[key]

    def _resolved(self, found: Sequence[Sequence[Extent] | None]) -> dict[str, str]:
        """Sizes for open extents, by index: the only unused size that no kernel reads, or a new one for blocks."""
        every = [extent for extents in found for extent in extents or ()]
        used = {word for extent in every if isinstance(extent, str) for word in extent.split()}
        left = [size for size in self._names.sizes if size not in used]
        open_ = [extent for extent in every if isinstance(extent, Open)]
        told = {each.index: bound for each in open_ if each.axis and (bound := self._of_layout(each.axis))}
        told |= {each.index: self._same[each.index] for each in open_ if each.index in self._same}
        open_ = [each for each in open_ if each.index not in told]
        return told | self._of_left(found, open_, used | {*told.values()}, left) if open_ else told

    def _of_left(
        self, found: Sequence[Sequence[Extent] | None], open_: Sequence[Open], used: set[str], left: list[str]
    ) -> dict[str, str]:
        """Sizes for open extents that no array tells: the only one that is left, or a new one for blocks."""
        left = [size for size in left if size not in used]
        texts, axes = dict.fromkeys(each.index for each in open_), {each.index for each in open_ if each.axis}
        if None in found and not axes.issuperset(texts):
            return {}  # an array of unknown shape may have the size that is left
        has_planes = any(len(each) > 2 and isinstance(each[0], Open) for each in found if each)
        if self._read.intersection(left):  # which may be something else, such as a trip count
            left = [] if self._read.issuperset(left) and has_planes else left
            if left:
                return {}
        if len(texts) == len(left) == 1:
            return dict.fromkeys(texts, left[0])
        if len(axes) == len(left) == 1 and not any("[" in each for each in texts):
            return dict.fromkeys(axes, left[0])
        if not left and self._has_grid and axes.issuperset(texts) and not any(map(self._is_bounded, axes)):
            self.new_sizes = [name for name in NEW_SIZES if name not in used][: len(texts)]
            return dict(zip(texts, self.new_sizes, strict=False))
        return {}

    def _is_bounded(self, block: str) -> bool:
        """Whether a comparison already tells the number of blocks along an axis, by its block index."""
        atoms = {block, block.replace("blockIdx", "globalIdx")}
        every = (index for indices in self.indices for index, _ in self.bounds(indices).less)
        return any(not atoms.isdisjoint(product) for index in every for product in index)

    def _of_layout(self, axis: str) -> str:
        """The number of values that a block index along an axis has, as strides tell it: `batch` for b in
        `c * batch * n + b * n`. Empty if there is none, or several."""
        found, block = set[tuple[str, ...]](), {(f"blockIdx.{axis}",): 1}
        for indices in self.indices:
            for polynomial in (each for every in indices.accesses.values() for each in every):
                groups = self._groups(polynomial)
                for near, far in itertools.pairwise(_by_length(groups)):
                    if groups.get(near) == block and not Counter(near) - Counter(far):
                        found.add(tuple((Counter(far) - Counter(near)).elements()))
        (only, *more) = found or [()]
        return only[0] if len(only) == 1 and not more else ""

    @property
    def axes_of_new(self) -> dict[str, int]:
        """The axes of the blocks whose numbers are new sizes, by these sizes."""
        every = {f"blockIdx.{axis}": at for at, axis in enumerate(AXES)}
        return {size: every[index] for index, size in self._open.items() if size in self.new_sizes and index in every}

    def _closed(self, extents: Sequence[Extent] | None) -> list[str] | None:
        closed = [each if isinstance(each, str) else self._open.get(each.index) for each in extents or ()]
        return [self.number(each) for each in closed if each] if closed and None not in closed else None

    def number(self, extent: str) -> str:
        """An extent, as a number if the source fixes it."""
        return str(self.fixed.get(extent, extent))


def _by_length(groups: Mapping[Monomial, Polynomial]) -> list[Monomial]:
    """The strides of groups of terms, the shortest product first; equally long ones in the order of their names."""
    return sorted({(), *groups}, key=lambda stride: (len(stride), stride))


def _is_known(extents: Sequence[Extent] | None, apart: int = 0) -> bool:
    """Whether all extents are known. The slowest may be a block index if `apart` faster extents follow it."""
    if not extents:
        return False
    first, *others = extents
    return isinstance(first, str) or (first.axis != "" and len(others) >= apart)


def _is_single_index(index: Polynomial) -> bool:
    """Whether an index is one thread or block index, a global thread index, or an array element."""
    if len(index) > 2 and index.get(_OF_ROWS) == 1:  # all blocks of a grid of two axes, one after the other
        index = {product: factor for product, factor in index.items() if product != _OF_ROWS}
    if len(index) == 1:
        ((product, factor),) = index.items()
        return factor == len(product) == 1 and _OF_THREADS.fullmatch(product[0]) is not None
    threads = [each for each in index if len(each) == index[each] == 1 and each[0].startswith("threadIdx.")]
    blocks = [each for each in index if len(each) == 1 + (index[each] == 1) and "blockIdx." in str(each)]
    others = [name for each in blocks for name in each if not name.startswith("blockIdx.")]
    apart = all(name.startswith("blockDim.") or name.isidentifier() for name in others)
    return len(index) == 2 and len(threads) == len(blocks) == 1 and apart


def _is_part(whole: Sequence[Extent], part: Sequence[Extent] | None) -> bool:
    """Whether extents are all but the slowest ones of others: an index may stay within a plane."""
    return part is not None and 0 < len(part) < len(whole) and [*whole[-len(part) :]] == [*part]
