"""Tells which scalars of a kernel are leading dimensions: distances between rows that may have padding behind them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.drafting.polynomials import Polynomial, names_in

if TYPE_CHECKING:
    from tuner.drafting.arrays.indices import Indices
    from tuner.drafting.arrays.shapes import Shapes


@dataclass(frozen=True)
class Rows:
    """An array of rows: the scalar that is their distance in elements, their number, and the elements of each."""

    apart: str
    count: str
    length: str


class Distances:
    """The distances of rows that scalars hold. `of`: the rows of arrays, by name; `pitches`: the scalars that are
    distances in bytes, with the bytes of an element."""

    def __init__(self, of: Mapping[str, Rows], pitches: Mapping[str, int]) -> None:
        self.of, self._pitches = of, pitches

    @property
    def leading(self) -> set[str]:
        """The scalars that are leading dimensions, which a launch reads from the arrays of a call."""
        return {rows.apart for rows in self.of.values()} - self._pitches.keys()

    def strides(self, name: str) -> list[str]:
        """The strides of an array whose rows may have padding behind them; empty for any other."""
        apart = self.of[name].apart if name in self.of else ""
        return [apart, "1"] if apart in self.leading else []

    def values(self, shapes: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """The distances in bytes of arrays with these shapes, with their values: those of rows without padding."""
        found = dict[str, str]()
        for name, rows in self.of.items():
            if rows.apart in self._pitches and name in shapes:
                length = shapes[name][1]
                length = length if re.fullmatch(r"\w+", length) else f"({length})"
                found[rows.apart] = f"{self._pitches[rows.apart]} * {length}"
        return found

    def are_known(self, moved: Collection[str]) -> bool:
        """Whether all arrays that move by bytes have rows, and each distance is that of rows of one length."""
        lengths = {(rows.apart, rows.length) for rows in self.of.values() if rows.apart in self._pitches}
        return sorted(apart for apart, _ in lengths) == sorted(self._pitches) and all(name in self.of for name in moved)


def of_arrays(shapes: Shapes, arrays: Collection[str], scalars: Collection[str]) -> dict[str, Rows]:
    """The arrays all of whose indices are `row * apart + column`, where the kernels bound row and column by other
    extents, by name. `apart` is one of these `scalars` that the kernels use for nothing else."""
    compared = {name for indices in shapes.indices for name in _compared(indices)}
    found = {name: rows for name in arrays if (rows := _rows(shapes, name, {*scalars} - compared)) is not None}
    others = {name for array in arrays if array not in found for name in shapes.reads(array)}
    lengths = {extent for rows in found.values() for extent in (rows.count, rows.length)}
    return {name: rows for name, rows in found.items() if rows.apart not in others | lengths}


def _compared(indices: Indices) -> set[str]:
    """The names in the comparisons of a kernel."""
    every = [*indices.bounds, *((left, words) for _, left, words in indices.compared)]
    names = {name for left, _ in every for product in left for name in product}
    return names | {word for _, words in every for word in names_in(" ".join(words))}


def _rows(shapes: Shapes, array: str, scalars: Collection[str]) -> Rows | None:
    """The rows of an array; None if it has none, or its indices differ."""
    every = [
        _rows_of(shapes, indices, p, scalars) for indices in shapes.indices for p in indices.accesses.get(array, ())
    ]
    first = next(iter(every), None)
    is_same = first is not None and all(each == first for each in every)
    return first if is_same and not shapes.has_others(array) else None


def _rows_of(shapes: Shapes, indices: Indices, index: Polynomial, scalars: Collection[str]) -> Rows | None:
    """The rows that one index tells; None if it tells none."""
    groups, bounds = shapes.groups(index), shapes.bounds(indices)
    (apart,) = [*groups.keys() - {()}] if len(groups) == 2 and () in groups else [()]
    constants = {stride: factor for stride, factor in index.items() if stride in (apart, ())}
    if len(apart) != 1 or apart[0] not in scalars or sum(map(len, groups.values())) + len(constants) < len(index):
        return None
    found = list[str]()
    for stride in (apart, ()):
        extents, excess = bounds.extents(groups[stride]) or [], bounds.excess(groups[stride], constants.get(stride, 0))
        if len(extents) != 1 or excess is None or (excess and stride in constants):
            return None  # unknown, or an element behind those that are compared
        found.append(f"{extents[0]} + {excess}" if excess else extents[0])
    return Rows(apart[0], *found)
