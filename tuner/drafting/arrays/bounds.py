"""Infers extents of arrays from the comparisons of indices in a kernel, such as `i < n`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.drafting.polynomials import Monomial, Polynomial, added, bare, times
from tuner.drafting.reader import POWER

if TYPE_CHECKING:
    from tuner.drafting.arrays.indices import Indices

Key = frozenset[tuple[Monomial, int]]  # an index without its constant term


@dataclass(frozen=True)
class Open:
    """An extent without a bound: its index, and `axis` if that is a block index and faster extents follow."""

    index: str
    axis: str = ""


Extent = str | Open


class IndexBounds:
    """The upper bounds of indices in a kernel; `sizes` are the names of its sizes.

    `less` lists pairs of an expression and the product of sizes that bounds it: (i + 1, n) for `i < n - 1`.
    """

    def __init__(self, indices: Indices, sizes: Sequence[str]) -> None:
        self._remainders, self._sizes, self._unsteady = indices.remainders, sizes, indices.unsteady
        self._clamped, self._lasts, self._alternatives = indices.clamped, indices.lasts, indices.alternatives
        self.less = list[tuple[Polynomial, list[str]]]()
        self._extents, self._added = defaultdict[Key, set[tuple[str, ...]]](set), defaultdict[Key, set[int]](set)
        self._compared, self._in_sums = set[Key](), set[Key]()
        self._ambiguous = {_key(each) for each in indices.ambiguous}
        for index, words in indices.bounds:
            limit = indices.polynomial(words)
            self._compare(index, limit)
            self._bound(index, limit)
            self._bound_by_last(limit, index)  # n - 1 < i, before a return
        for sign, index, words in indices.compared:
            limit = indices.polynomial(words)
            if sign in ("==", "!="):
                self._bound_by_last(index, limit)
                continue
            self._compare(index, limit)
            if sign == "<=":
                self._bound(index, added(limit, {(): 1}))
            else:
                self._bound(limit, index)  # n > i
                self._bound_by_last(index, limit)  # i > n - 1, before a return

    def _compare(self, one: Polynomial, other: Polynomial) -> None:
        self._compared |= {_key(a) for a, b in ((one, other), (other, one)) if bare(b) or b.get((), 0) > 1}

    def _bound(self, index: Polynomial, limit: Polynomial) -> None:
        """Record `index < limit`."""
        terms = bare(limit)
        if len(terms) > 1 and all(factor > 0 and {*names} <= {*self._sizes} for names, factor in terms.items()):
            self._in_sums.add(_key(index))
        if (extents := self._product(limit)) is not None:
            number = index.get((), 0) - limit.get((), 0)
            self.less.append((added(bare(index), {(): number}), extents))
            self._extents[_key(index)].add(tuple(extents))
            self._added[_key(index)].add(number)

    def _bound_by_last(self, index: Polynomial, last: Polynomial) -> None:
        """Record i < n for an index i compared with n - 1; all except the last may then also access i + 1."""
        if self._product(last, number=-1) is not None:
            self._bound(index, added(last, {(): 1}))
            self._added[_key(index)].add(index.get((), 0) + 1)

    def extents(self, index: Polynomial) -> list[str] | None:
        """The extents whose product bounds an index; None if there is no bound, or several."""
        (only, *more) = [*index] or [()]
        if not self._unsteady.isdisjoint(name for product in index for name in product):
            return None
        if not more and len(only) == 1 and index[only] == 1 and only[0] in self._remainders:
            return self._product(self._remainders[only[0]][1], number=0)
        if not more and len(only) == 1 and index[only] == 1 and only[0] in self._alternatives:
            one, other = map(self.extents, self._alternatives[only[0]])
            if one is not None and one == other:
                return one
        if not more and len(only) == 1 and index[only] == 1 and only[0] in self._clamped:
            limits = self._clamped[only[0]]
            products = (self._product(limit, number=0) or self._of_largest(limit) for limit in limits)
            of_limits = {tuple(product) for product in products if product is not None}
            if of_limits:
                return list(of_limits.pop()) if len(of_limits) == 1 else None
        found = self._extents.get(_key(index), set()) if _key(index) not in self._ambiguous else set()
        if not found and (last := self.with_lasts(index)) != index and _key(last) not in self._ambiguous:
            within = last.get((), 0) <= min(self._added.get(_key(last), {-1}))
            found = self._extents.get(_key(last), set()) if within else set()
        return list(next(iter(found))) if len(found) == 1 else None

    def _of_largest(self, limit: Polynomial) -> list[str] | None:
        """The extents that bound one less than a limit, as those of `i` bound `max(i - 1, 0)`."""
        last = added(limit, {(): -1})
        found = self.extents(bare(last))
        return found if found and self.excess(bare(last), last.get((), 0)) == 0 else None

    def with_lasts(self, index: Polynomial) -> Polynomial:
        """The largest value of an index that loop variables have counted up: `i + 3 * n` for `i + k * n` and k < 4."""
        total: Polynomial = {}
        for product, factor in index.items():
            names = [name for name in product if name in self._lasts]
            part: Polynomial = {product: factor}
            if len(names) == 1 and factor > 0 and product.count(names[0]) == 1:
                rest = tuple(name for name in product if name != names[0])
                part = times({rest: factor}, self._lasts[names[0]])
            total = added(total, part)
        return total

    def excess(self, index: Polynomial, beyond: int) -> int | None:
        """How far an index, plus the constant `beyond`, may exceed its compared bound; None if ambiguous."""
        known = self._added.get(_key(index)) or {0}
        if beyond in known or beyond <= min(known):
            return 0
        return beyond - min(known) if len(known) == 1 else None

    def is_compared(self, index: Polynomial) -> bool:
        """Whether an index is compared with anything except 0 and 1, which could be its extent."""
        return _key(index) in self._compared

    def is_in_sum(self, index: Polynomial) -> bool:
        """Whether an index reaches over several arrays, such as `i < n + m`: then a bound is that of a part."""
        return _key(index) in self._in_sums

    def _product(self, limit: Polynomial, number: int | None = None) -> list[str] | None:
        """The factors of a product of sizes plus a constant (`number`, if given); None for anything else."""
        products = bare(limit)
        names = next(iter(products)) if len(products) == 1 and set(products.values()) == {1} else ()
        sizes = {*self._sizes, *(f"{POWER}{size}" for size in self._sizes)}
        is_other = not names or not set(names) <= sizes or number not in (None, limit.get((), 0))
        return None if is_other else in_order(Counter(names), self._sizes)


def in_order(names: Counter[str], sizes: Sequence[str]) -> list[str]:
    """The factors of a product, in the order of `sizes`."""
    return sorted(names.elements(), key=lambda name: sizes.index(name.removeprefix(POWER)))


def by_length(groups: Mapping[Monomial, Polynomial]) -> list[Monomial]:
    """The strides of groups of terms, the shortest product first; equally long ones in the order of their names."""
    return sorted({(), *groups}, key=lambda stride: (len(stride), stride))


def _key(index: Polynomial) -> Key:
    return frozenset(bare(index).items())
