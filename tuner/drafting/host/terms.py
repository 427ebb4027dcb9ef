"""Says a host's polynomials in the terms of a kernel: its scalars, its knobs, and new sizes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from tuner.drafting.host.sites import Site
from tuner.drafting.polynomials import Monomial, Polynomial, added, bare, times, written
from tuner.space.dtypes import DTYPES
from tuner.space.sources.prototype import Parameter

_NAME = re.compile(r"\w*:([\w.]+)#\d+")
_ONE: Polynomial = {(): 1}
MOST_NEW = 3  # sizes that no kernel takes


class Terms:
    """The terms of a kernel at one launch.

    sizes: the kernel's scalars that are sizes.
    own: names that mean the same in the kernel: macros and constants, with their numbers.
    block: the block size of the draft in x, y, z.
    taken: names that a new size must not have.
    new: the new sizes, with their numbers on the host; None if unknown.
    """

    def __init__(
        self, site: Site, sizes: Sequence[str], own: Collection[str], block: Sequence[str], taken: Collection[str]
    ) -> None:
        self._site, self._own, self._taken = site, own, taken
        self._quotients, self._ceilings = site.scope.notes.quotients, site.scope.notes.ceilings
        self.new = dict[str, int | None]()
        self._new_atoms = dict[str, str]()
        self._known, self._products = dict[str, Polynomial](), list[tuple[Monomial, str]]()
        self._shared = dict[str, list[str]]()  # names of the host that are passed as several sizes
        self._block = [*zip(site.block or (), block, strict=False)]
        self._axis = 0
        self._sums = dict[str, Polynomial]()  # scalars that are sums of names
        for name, value in site.scalars.items():
            if name in sizes:
                self._add(name, value)
        for extent, name in self._block:
            self._add_block(name, extent)

    def _add(self, name: str, value: Polynomial) -> None:
        terms, number = bare(value), value.get((), 0)
        (only, *more) = [*terms] or [()]
        if more and self._site.scope.is_clear(value):
            self._sums[name] = value
        if not only or more or terms[only] != 1:
            return
        if len(only) == 1:
            self._shared.setdefault(only[0], []).append(name)
            self._known.setdefault(only[0], {(name,): 1, **({(): -number} if number else {})})
        elif not number:
            self._products.append((only, name))

    def _add_block(self, name: str, extent: Polynomial) -> None:
        """Note the name of the host that is the block size along an axis."""
        (only, *more) = [*extent] or [()]
        if len(only) == 1 and not more and extent[only] == 1:
            self._known.setdefault(only[0], {(): int(name)} if name.isdecimal() else {(name,): 1})

    def said(self, value: Polynomial, axis: int = 0) -> Polynomial | None:
        """A polynomial of the host over the kernel's names; None if it cannot be said. `axis` is that of a grid."""
        same = [name for name, given in self._sums.items() if given == value]
        if same:
            return {(same[0],): 1}
        total: Polynomial = {}
        self._axis = axis
        for product, factor in value.items():
            part = self._product(product)
            if part is None:
                return None
            total = added(total, times(part, {(): factor}))
        return total

    def value(self, name: str) -> Polynomial | None:
        """The value of one of the kernel's scalars over the others; None if it cannot be said."""
        given = self._site.scalars[name]
        for table, is_up in ((self._ceilings, True), (self._quotients, False)):
            (only, *more) = [*given] or [()]
            if len(only) == 1 and not more and given[only] == 1 and only[0] in table:
                return self._quotient(*table[only[0]], is_up)
        return self.said(given)

    def _product(self, product: Monomial) -> Polynomial | None:
        left, found = Counter(product), _ONE
        for names, name in self._products:
            if not Counter(names) - left and any(each not in self._known for each in names):
                left, found = left - Counter(names), times(found, {(name,): 1})
        for name, count in left.items():
            part = self._power(name, count)
            if part is None:
                return None
            found = times(found, part)
        return found

    def _power(self, name: str, count: int) -> Polynomial | None:
        """A power of a name. A name that is passed as several sizes is ambiguous, except as their product."""
        if len(same := self._shared.get(name, [])) > 1:
            return {tuple(sorted(same)): 1} if len(same) == count else None
        part, found = self._atom(name), _ONE
        for _ in range(count):
            found = times(found, part) if part is not None else found
        return found if part is not None else None

    def _atom(self, name: str) -> Polynomial | None:
        if name in self._known:
            return self._known[name]
        for table, is_up in ((self._ceilings, True), (self._quotients, False)):
            if name in table:
                return self._quotient(*table[name], is_up)
        if name.startswith("sizeof ("):
            dtype = Parameter("", name.removeprefix("sizeof (").removesuffix(")").strip(), False, False).dtype
            return {(): DTYPES[dtype].itemsize} if dtype else None
        match = _NAME.fullmatch(name)
        if match is None or not self._site.scope.is_clear({(name,): 1}):
            return None
        if name.startswith(":") and match[1] in self._own:
            return {(match[1],): 1}
        return self._new(name, match[1].rpartition(".")[2])

    def _new(self, atom: str, name: str) -> Polynomial | None:
        """A new size for a name of the host; None if the name is taken, or if there are too many."""
        if self._new_atoms.get(name, atom) != atom or name in self._taken or len(self._new_atoms) >= MOST_NEW:
            return {(name,): 1} if self._new_atoms.get(name) == atom else None
        self._new_atoms[name] = atom
        self.new[name] = self._site.number(atom)
        return {(name,): 1}

    def _quotient(self, dividend: Polynomial, divisor: Polynomial, is_up: bool) -> Polynomial | None:
        above, below = self.said(dividend, self._axis), self._divisor(divisor)
        if above is None or below is None:
            return None
        one, other = written(above), written(below)
        if is_up:
            return {(f"ceil_div({one}, {other})",): 1}
        return {(f"({_bracketed(one)} // {_bracketed(other)})",): 1}

    def _divisor(self, divisor: Polynomial) -> Polynomial | None:
        """A divisor: the block size of the axis, of another axis, or another expression."""
        axes = [*self._block[self._axis : self._axis + 1], *self._block]
        found = next((name for extent, name in axes if self._is_same(extent, divisor)), "")
        if found:
            return {(): int(found)} if found.isdecimal() else {(found,): 1}
        return self.said(divisor, self._axis)

    def _is_same(self, one: Polynomial, other: Polynomial) -> bool:
        """Whether two expressions are equal, or numbers that are equal."""
        return one == other or (None is not self._site.number_of(one) == self._site.number_of(other) not in (0, 1))


def _bracketed(text: str) -> str:
    return text if re.fullmatch(r"\w+|\w+\([^()]*\)", text) else f"({text})"
