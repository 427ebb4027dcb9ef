"""Tells the extents of an array from a single index expression.

An index is a sum of products. In `row * cols + col`, `row` has the stride `cols`, so `cols` is the extent of the faster
dimension. The extent of the slowest dimension is the bound of its index: `rows` if the kernel tests `row < rows`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.drafting.arrays.bounds import Extent, IndexBounds, Open, by_length, in_order
from tuner.drafting.polynomials import Monomial, Polynomial, added, bare, text, times

if TYPE_CHECKING:
    from tuner.drafting.arrays.indices import Indices

_OF_THREADS = re.compile(r"(?:threadIdx|blockIdx|blockDim|globalIdx)\.[xyz]|.*\[.*\]")
_OF_ROWS = ("blockDim.x", "blockIdx.y", "gridDim.x")


class IndexExtents:
    """What each index alone tells; `sizes` are the names that may be extents."""

    def __init__(self, sizes: Sequence[str]) -> None:
        self.sizes = [*sizes]
        self._bounds: dict[tuple[Indices, tuple[str, ...]], IndexBounds] = {}

    def of(self, indices: Indices, polynomial: Polynomial) -> list[Extent] | None:
        """The extents that an index tells, slowest dimension first; None if it tells none, or is ambiguous."""
        if rows := self._by_rows(indices, polynomial):
            return rows
        groups = self.groups(polynomial)
        strides = by_length(groups)
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
        offsets = self.offsets(polynomial)
        last, beyond = groups.get(strides[-1], {}), offsets.get(strides[-1], 0)
        if any(apart and apart not in groups for apart in offsets):  # x[i + shift]: i + shift must be bounded
            last, strides, extents, beyond = bare(polynomial), [()], [], offsets.get((), 0)
        if len(strides) > 1 and self._is_negative(groups, offsets, strides[-2]):
            beyond -= 1  # x[(row + 1) * cols - 1 - i] is in the row before
        by_sum = strides[-1] and strides[-1][0] in indices.pitches
        bounds = self.bounds(indices)
        if not bounds.extents(last) and (by_sum or len(strides) == 1):  # loops that count on
            whole = bounds.with_lasts(last)
            last, beyond = bare(whole), beyond + whole.get((), 0)
        if bound := bounds.extents(last):
            excess = bounds.excess(last, beyond)
            if excess:
                is_open = len(bound) > 1 or not (by_sum or len(strides) == 1)
                return None if is_open else [f"{bound[0]} + {excess}", *extents]
            return None if excess is None else [*bound, *extents]
        if not _is_single_index(last) or beyond > 0 or bounds.is_compared(last):
            return None
        axis = next((a for a in "xyz" if last == {(f"blockIdx.{a}",): 1}), "")
        return [Open(text(last), axis if extents else ""), *extents]

    def _by_rows(self, indices: Indices, polynomial: Polynomial) -> list[Extent] | None:
        """The extents of an array of rows whose number the kernel compares as a sum, such as `first + i < n` where the
        index is `(first + i) * COLUMNS + k`; None for any other."""
        for left, extents in self.bounds(indices).less:
            if len(bare(left)) < 2 or left.get((), 0):
                continue
            for length in self._lengths(left, polynomial):
                rest = added(polynomial, times(left, {length: 1}), -1)
                within = self.of(indices, rest) if rest else None
                if within is not None and Counter(within) == Counter(length):
                    return [*extents, *within]
        return None

    def _lengths(self, rows: Polynomial, polynomial: Polynomial) -> Iterator[Monomial]:
        """The products of sizes, macros and constants by which an index has all terms of `rows`."""
        first = Counter(next(iter(rows)))
        for product in polynomial:
            length = Counter(product) - first
            if length and not first - Counter(product) and length.keys() <= {*self.sizes}:
                found = tuple(sorted(length.elements()))
                if times(rows, {found: 1}).items() <= polynomial.items():
                    yield found

    def told(self, indices: Indices, index: Polynomial) -> list[str]:
        """The extents of an array that one index alone tells; empty if it does not."""
        found = self.of(indices, index) or []
        known = [each for each in found if isinstance(each, str)]
        return known if len(known) == len(found) else []

    def in_next(self, indices: Indices, polynomial: Polynomial) -> list[Extent] | None:
        """The extents that an index tells within the second of several planes, as in `x[plane + i * n + j]`; None for
        any other."""
        groups = self.groups(polynomial)
        ahead = {product: factor for product, factor in self.offsets(polynomial).items() if product not in groups}
        ahead.pop((), None)
        rest = {product: factor for product, factor in polynomial.items() if product not in ahead}
        return self.of(indices, rest) if [*ahead.values()] == [1] else None

    @staticmethod
    def _is_negative(groups: Mapping[Monomial, Polynomial], offsets: Polynomial, apart: Monomial) -> bool:
        """Whether the terms with stride `apart` have only negative coefficients and a negative constant."""
        return offsets.get(apart, 0) < 0 and all(factor < 0 for factor in groups.get(apart, {}).values())

    def offsets(self, polynomial: Polynomial) -> dict[Monomial, int]:
        """The constants in an index, by their stride (a product of sizes)."""
        return {product: factor for product, factor in polynomial.items() if set(product) <= set(self.sizes)}

    def groups(self, polynomial: Polynomial) -> dict[Monomial, dict[Monomial, int]]:
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
