"""Joins quotients and remainders: `i / n * n + i % n` is i."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tuner.drafting.polynomials import Polynomial, added, times

Parts = Mapping[str, tuple[Polynomial, Polynomial]]


def joined(value: Polynomial, remainders: Parts, quotients: Parts) -> Polynomial:
    """A polynomial with the dividend in the place of each remainder that stands beside its quotient."""
    while (shorter := _joined_once(value, remainders, quotients)) is not None:
        value = shorter
    return value


def _joined_once(value: Polynomial, remainders: Parts, quotients: Parts) -> Polynomial | None:
    """The polynomial with one such pair joined; None if there is none."""
    for product, factor in value.items():
        for name in product:
            dividend, divisor = remainders.get(name, ({}, {}))
            quotient = next((q for q, parts in quotients.items() if parts == (dividend, divisor)), None)
            if quotient is None:
                continue
            rest = tuple((Counter(product) - Counter([name])).elements())
            other = times(times({(quotient,): 1}, divisor), {rest: factor})
            if all(value.get(each) == number for each, number in other.items()):
                less = added(added(value, {product: factor}, -1), other, -1)
                return added(less, times(dividend, {rest: factor}))
    return None
