"""Infers shapes of arrays from all their indices in kernels and from the comparisons that bound these."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from tuner.classes import dataclass
from tuner.drafting.arrays import planes
from tuner.drafting.arrays.bounds import Extent, IndexBounds, Open, by_length, in_order
from tuner.drafting.arrays.index_extents import IndexExtents
from tuner.drafting.arrays.indices import AXES, Indices
from tuner.drafting.arrays.open_extents import OpenExtents
from tuner.drafting.knobs.proposals import is_large, is_size
from tuner.drafting.polynomials import Monomial, Polynomial, names_in, text

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

    fixed: macros and constants that are extents; another value would change the arrays
    """

    def __init__(self, bodies: Sequence[Sequence[str]], names: Names, has_grid: bool) -> None:
        own = names.own or [names.arrays] * len(bodies)
        rows = [*names.sizes, *(name for name, number in names.numbers.items() if is_size(name, number))]
        self.indices = [Indices(body, [*each], rows) for body, each in zip(bodies, own, strict=True)]
        self._names = names
        self._quotients = dict(_quotients(self.indices, names.sizes))
        pitches = {name: None for indices in self.indices for name in indices.pitches}
        sizes = [*names.sizes, *self._quotients, *pitches]
        self._single = IndexExtents(sizes)
        self._known_ends = dict[Indices, dict[str, int]]()
        self._same = dict[str, str]()  # the extents of indices without a bound, by these, as other accesses tell them
        found = {name: self._found(name) or self._of_planes_in_rows(name) for name in names.arrays}
        self._single.sizes += self._limits()
        for name, extents in found.items():
            apart = BLOCKS_APART if self._is_by_threads(name) else 1
            if found[name] is None and (of_planes := self._of_planes(name)):
                found[name] = [*of_planes]
            if (other := None if _is_known(extents) else self._found(name)) and _is_known(other, apart):
                found[name] = other
        read = {word for body in bodies for word in body}
        self._open = OpenExtents([*found.values()], self.indices, self._single, names.sizes, read, self._same, has_grid)
        known = (extent for extents in found.values() for extent in extents or () if isinstance(extent, str))
        every = {
            name for each in known for name in (names_in(each) if each in pitches else [each.removesuffix(" + 1")])
        }
        numbers = {name: number for name, number in names.numbers.items() if name in every}
        self.fixed = {
            name: number for name, number in numbers.items() if name in names.passed or not is_large(name, number)
        }
        self._single.sizes = [*sizes, *numbers]
        self._shapes = {name: self._closed(extents) for name, extents in found.items()}
        self._found_extents = found
        self._faster = {name: extents[1:] for name, extents in found.items() if extents and len(extents) > 1}

    @property
    def sizes(self) -> list[str]:
        """The kernels' size parameters and the names in `fixed`."""
        return self._single.sizes

    @property
    def new_sizes(self) -> list[str]:
        """Numbers of blocks that are no kernel argument; empty for a language without a grid."""
        return self._open.new_sizes

    @property
    def axes_of_new(self) -> dict[str, int]:
        """The axes of the blocks whose numbers are new sizes, by these sizes."""
        return self._open.axes_of_new

    def bounds(self, indices: Indices) -> IndexBounds:
        """The bounds of a kernel's indices."""
        return self._single.bounds(indices)

    def groups(self, index: Polynomial) -> dict[Monomial, dict[Monomial, int]]:
        """The terms of an index by their stride (a product of sizes), without constants."""
        return self._single.groups(index)

    def _of_planes(self, name: str) -> list[str] | None:
        """The shape of an array of a few planes or of records; None for any other."""
        if self.has_others(name):
            return None
        every, with_names = self._accesses(name, self._names.numbers), self._accesses(name, {})
        return planes.shape(every, self.sizes) or planes.records(every) or planes.records(with_names)

    def _of_planes_in_rows(self, name: str) -> list[Extent] | None:
        """The extents of an array whose rows are a few planes; None for any other."""
        every = [(each, index) for each in self.indices for index in each.accesses.get(name, ())]
        count, in_plane = planes.in_rows([index for _, index in every], self._names.sizes)
        found = [self._single.of(indices, index) for (indices, _), index in zip(every, in_plane, strict=False)]
        first, *others = found or [None]
        is_same = first is not None and len(first) > 1 and all(each == first for each in others)
        return [*first[:1], str(count), *first[1:]] if first and is_same and not self.has_others(name) else None

    def _accesses(self, name: str, numbers: Mapping[str, int]) -> list[planes.Access]:
        """The accesses of an array, with these numbers of constants."""
        every = list[planes.Access]()
        for indices in self.indices:
            ends, extents_of = self._ends(indices), functools.partial(self._single.told, indices)
            found = (planes.evaluated(polynomial, numbers) for polynomial in indices.accesses.get(name, ()))
            every += [planes.Access(index, ends, extents_of) for index in found]
        return every

    def length_of_records(self, name: str) -> int:
        """The numbers in each record of an array of records; 0 for any other array."""
        return planes.length_of_records(self._accesses(name, self._names.numbers))

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
        every = [(indices, words) for indices in self.indices for _, words in indices.bounds]
        every += [(indices, words) for indices in self.indices for sign, _, words in indices.compared if sign == "<="]
        bounds = [indices.polynomial(words) for indices, words in every]
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
        is_index = False
        for indices in self.indices:
            for array, polynomials in indices.accesses.items():
                every = map(self._single.groups, polynomials)
                for groups, (apart, rest) in ((each, item) for each in every for item in each.items()):
                    if any(atom.startswith(f"{name}[") for product in rest for atom in product):
                        shape, is_index = self._shapes[array] or [], True
                        bound = self._single.bounds(indices).extents(rest) or [self._open.by_index.get(text(rest), "")]
                        told = self.number(bound[0]) or (shape[-1 - len(apart)] if len(apart) < len(shape) else "")
                        if told := told or self._length_within(groups, apart):
                            return told
                    elif any(re.match(rf"\(+[^\[%]*\b{name}\[[^%]*$", atom) for product in rest for atom in product):
                        return ""  # the index is computed from elements
            moved = (atom for polynomial in indices.offsets for product in polynomial for atom in product)
            if any(atom.startswith(f"{name}[") for atom in moved):
                return ""
        return "" if is_index else None

    def _length_within(self, groups: Mapping[Monomial, Polynomial], apart: Monomial) -> str:
        """How many values a term of an index with this stride has within the next longer one; empty if unknown."""
        strides = by_length(groups)
        far = next(iter(strides[strides.index(apart) + 1 :]), ())
        extents = [] if Counter(apart) - Counter(far) else in_order(Counter(far) - Counter(apart), self.sizes)
        return self.number(extents[0]) if len(extents) == 1 else ""

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
        return {
            extent for indices, polynomial in found for extent in self._single.bounds(indices).extents(polynomial) or ()
        }

    def ranges(self, indices: Indices) -> Iterator[tuple[Polynomial, list[str]]]:
        """The terms of indices, each with the product of extents that bounds it."""
        for name, polynomials in indices.accesses.items():
            for polynomial in polynomials if self._shapes[name] else ():
                groups = self._single.groups(polynomial)
                strides = by_length(groups)
                for near, far in itertools.pairwise(strides):
                    if Counter(near) - Counter(far):
                        continue  # neither is a part of the other
                    yield groups.get(near, {}), in_order(Counter(far) - Counter(near), self.sizes)
                if (last := text(groups.get(strides[-1], {}))) in self._open.by_index:
                    yield groups[strides[-1]], [self._open.by_index[last]]

    def _found(self, name: str) -> list[Extent] | None:
        """The extents of an array from all its accesses; None if unknown or ambiguous."""
        if any(name in indices.others for indices in self.indices):
            return None
        found, constants, within = list[list[Extent]](), list[int](), list[list[Extent] | None]()
        for indices in self.indices:
            for polynomial in indices.accesses.get(name, ()):
                if set(polynomial) <= {()}:
                    constants.append(polynomial.get((), 0))
                elif (extents := self._single.of(indices, polynomial)) is None:
                    within.append(self._single.in_next(indices, polynomial))
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
        return longer[0] if longer else _farthest(found)

    def likely(self, name: str) -> list[str]:
        """The shape of an array that those of its indices tell that tell one; empty if none does, or two differ."""
        every = [(each, index) for each in self.indices for index in each.accesses.get(name, ()) if any(index)]
        products = [{*product} for _, index in every for product in index]
        if any(each <= {*self.sizes} and not each.isdisjoint(self._quotients) for each in products):
            return []  # x[i + half * w] is behind what x[i] tells
        found = {tuple(extents) for extents in (self._single.told(*each) for each in every) if extents}
        return [self.number(each) for each in found.pop()] if len(found) == 1 else []

    def _closed(self, extents: Sequence[Extent] | None) -> list[str] | None:
        closed = [each if isinstance(each, str) else self._open.by_index.get(each.index) for each in extents or ()]
        return [self.number(each) for each in closed if each] if closed and None not in closed else None

    def number(self, extent: str) -> str:
        """An extent, as a number if the source fixes it, and with quotients as a space file writes them."""
        if extent in self.fixed:
            return str(self.fixed[extent])
        for quotient, whole in self._quotients.items():
            extent = whole if extent == quotient else extent.replace(quotient, f"({whole})")
        return extent


def _quotients(every: Sequence[Indices], sizes: Collection[str]) -> Iterator[tuple[str, str]]:
    """The quotients of a size and a number, as `n / 4` of vectors, each with the expression of a space file."""
    for name, (dividend, divisor) in (item for indices in every for item in indices.quotients.items()):
        (only, *more) = [*dividend] or [()]
        if not more and len(only) == 1 and dividend[only] == 1 and only[0] in sizes and set(divisor) == {()}:
            yield name, f"{only[0]} // {divisor[()]}"


def _is_known(extents: Sequence[Extent] | None, apart: int = 0) -> bool:
    """Whether all extents are known. The slowest may be a block index if `apart` faster extents follow it."""
    if not extents:
        return False
    first, *others = extents
    return isinstance(first, str) or (first.axis != "" and len(others) >= apart)


def _farthest(found: Sequence[list[Extent]]) -> list[Extent] | None:
    """Those of several extents that go farthest where they only differ in how far they go beyond a size."""
    parts = [re.fullmatch(r"(.+?)(?: \+ (\d+))?", each[0]) if isinstance(each[0], str) else None for each in found]
    ends = [(int(part[2] or 0), each) for part, each in zip(parts, found, strict=True) if part is not None]
    same = {(part[1], *each[1:]) for part, each in zip(parts, found, strict=True) if part is not None}
    is_single = len(same) == 1 and len(ends) == len(found)
    return max(ends, key=lambda end: end[0])[1] if is_single else found[0] if len(found) == 1 else None


def _is_part(whole: Sequence[Extent], part: Sequence[Extent] | None) -> bool:
    """Whether extents are all but the slowest ones of others: an index may stay within a plane."""
    return part is not None and 0 < len(part) < len(whole) and [*whole[-len(part) :]] == [*part]
