"""What is known of the names and quotients in expressions of host code, and which quotients round up."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tuner.drafting.polynomials import Monomial, Polynomial, added, atom, text, times

_FIXED = re.compile(r"[\w.]*:[\w.]+#\d+")
_OF_DEVICES = re.compile(r"(?i).*(?:multi_?processor|maxthreads|warpsize|sharedmem|num_?sms?\b).*")


@dataclass
class Notes:
    """What is known of atoms, shared by all scopes: dividends and divisors, and the numbers that names have."""

    quotients: dict[str, tuple[Polynomial, Polynomial]] = field(default_factory=dict)
    ceilings: dict[str, tuple[Polynomial, Polynomial]] = field(default_factory=dict)
    rests: dict[str, tuple[Polynomial, Polynomial]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def quotient(self, value: Polynomial) -> tuple[Polynomial, Polynomial] | None:
        """Dividend and divisor of a value; None if that is no quotient."""
        (only, *more) = [*value] or [()]
        return self.quotients.get(only[0]) if not more and len(only) == value[only] == 1 else None

    def number(self, found: Polynomial) -> int | None:
        """The number that a name has; None if it has none, or if this is no name."""
        ((product, factor),) = found.items()
        return self.numbers.get(product[0]) if factor == len(product) == 1 else None

    def is_clear(self, polynomial: Polynomial) -> bool:
        """Whether a value consists of names, numbers and quotients."""
        return all(self._is_clear(name) for product in polynomial for name in product)

    def _is_clear(self, name: str) -> bool:
        for parts in (self.ceilings.get(name), self.quotients.get(name)):
            if parts is not None:
                return all(map(self.is_clear, parts))
        is_name = _FIXED.fullmatch(name) is not None and not _OF_DEVICES.fullmatch(name)
        return is_name or name.startswith("sizeof (")

    def rounded(self, polynomial: Polynomial) -> Polynomial:
        """A sum whose quotients that round up, as in (n + 255) / 256 and (n - 1) / 256 + 1, are named so."""
        found = polynomial
        for product, factor in polynomial.items():
            for name in product:
                if name in self.quotients:
                    found = self._rounded_at(found, product, factor, name)
        return found

    def _rounded_at(self, found: Polynomial, product: Monomial, factor: int, name: str) -> Polynomial:
        """A sum with a quotient that rounds up in place of `name`, if that is one."""
        dividend, divisor = self.quotients[name]
        rests = [rest for rest, parts in self.rests.items() if parts == (dividend, divisor) and (rest,) in found]
        if rests and product == (name,) and factor == found[(rests[0],)] == 1:
            return added(added(found, {product: 1, (rests[0],): 1}, -1), self.ceiling(dividend, divisor))
        count = added(added(dividend, divisor, -1), {(): 1})
        if not any(each in divisor for each in count):
            rest = list(product)
            rest.remove(name)
            return added(
                added(found, {product: factor}, -1), times({tuple(rest): factor}, self.ceiling(count, divisor))
            )
        if product == (name,) and factor == 1 and dividend.get((), 0) == -1 and found.get((), 0) >= 1:
            up = self.ceiling(added(dividend, {(): 1}), divisor)
            return added(added(found, {product: 1, (): 1}, -1), up)
        return found

    def ceiling(self, dividend: Polynomial, divisor: Polynomial) -> Polynomial:
        """A quotient that rounds up."""
        name = f"ceil_div({text(dividend)}, {text(divisor)})"
        self.ceilings[name] = dividend, divisor
        return atom(name)

    def rounded_by_choice(
        self, dividend: Polynomial, divisor: Polynomial, one: Polynomial, other: Polynomial
    ) -> Polynomial | None:
        """The value of `dividend % divisor ? one : other`; None if that does not round up."""
        up = times(added(atom(f"({text(dividend)}) / ({text(divisor)})"), {(): 1}), divisor)
        if (one, other) in ((dividend, up), (up, dividend)):  # n % b ? (n / b + 1) * b : n
            return times(self.ceiling(dividend, divisor), divisor)
        if added(one, other, -1) not in ({(): 1}, {(): -1}):
            return None
        less = one if added(one, other, -1) == {(): -1} else other
        name = f"rest({text(dividend)}, {text(divisor)})"
        self.rests[name] = dividend, divisor
        return self.rounded(added(less, atom(name)))
