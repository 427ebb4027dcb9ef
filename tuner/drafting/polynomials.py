"""Polynomials with integer coefficients over names, which represent index expressions."""

import re
from collections import Counter
from collections.abc import Mapping

Monomial = tuple[str, ...]  # a product of atoms, sorted
Polynomial = Mapping[Monomial, int]  # the coefficient of each product; () is the constant term

# Limits: products of a polynomial, atoms of a product, characters of an atom, and coefficients.
MOST_TERMS, MOST_FACTORS, MOST_LETTERS, MOST_NUMBER = 64, 16, 400, 1 << 62


def is_short(polynomial: Polynomial) -> bool:
    """Whether a polynomial is within the limits, so that computing with it stays cheap."""
    return len(polynomial) <= MOST_TERMS and all(
        len(product) <= MOST_FACTORS
        and abs(factor) <= MOST_NUMBER
        and max(map(len, product), default=0) <= MOST_LETTERS
        for product, factor in polynomial.items()
    )


def text(polynomial: Polynomial) -> str:
    """A polynomial as text, the same for equal polynomials."""
    terms = (" * ".join([*([str(f)] if f != 1 or not p else []), *p]) for p, f in sorted(polynomial.items()))
    return " + ".join(terms) or "0"


def written(value: Polynomial) -> str:
    """A polynomial as an expression of a space file; products come before numbers."""
    parts = list[str]()
    for product, factor in sorted(value.items(), key=lambda each: (-len(each[0]), each[1] < 0, each[0])):
        text = " * ".join([*([str(abs(factor))] if abs(factor) != 1 or not product else []), *product])
        parts.append(f"- {text}" if factor < 0 else f"+ {text}")
    return " ".join(parts).removeprefix("+ ") or "0"


def atom(name: str) -> Polynomial:
    """The polynomial of one name, or of an expression that is no sum or product."""
    return {(name,): 1}


def added(one: Polynomial, other: Polynomial, sign: int = 1) -> Polynomial:
    """The sum of two polynomials; their difference if `sign` is -1."""
    total = dict(one)
    for product, factor in other.items():
        total[product] = total.get(product, 0) + sign * factor
    return {product: factor for product, factor in total.items() if factor}


def times(one: Polynomial, other: Polynomial) -> Polynomial:
    """The product of two polynomials."""
    total = dict[Monomial, int]()
    for left, factor in one.items():
        for right, more in other.items():
            product = tuple(sorted(left + right))
            total[product] = total.get(product, 0) + factor * more
    return {product: factor for product, factor in total.items() if factor}


def bare(polynomial: Polynomial) -> dict[Monomial, int]:
    """A polynomial without its constant term."""
    return {product: factor for product, factor in polynomial.items() if product}


def names_in(text: str) -> list[str]:
    """The names in an expression."""
    return re.findall(r"[A-Za-z_]\w*", text)


def numbers_in(text: str) -> set[str]:
    """The numbers in an expression."""
    return set(re.findall(r"\b\d+\b", text))


def product_of(extents: list[str]) -> Polynomial:
    """The number of elements of an array with these extents."""
    total: Polynomial = {(): 1}
    for extent in extents:
        total = times(total, _sum(extent))
    return total


def _sum(extent: str) -> Polynomial:
    """An extent as a polynomial: a number, a name, or a sum or difference of both."""
    match = re.fullmatch(r"(\w+) ([+-]) (\d+)", extent)
    if match:
        return {(match[1],): 1, (): int(match[2] + match[3])}
    return {(): int(extent)} if extent.isdecimal() else {(extent,): 1}


def quotient_of(one: Polynomial, other: Polynomial) -> Polynomial | None:
    """A polynomial divided by another one; None if it is not a multiple."""
    first, rest, found = max(other, key=_order, default=()), one, dict[Monomial, int]()
    while rest and len(rest) <= MOST_TERMS and other:
        top = max(rest, key=_order)
        if Counter(first) - Counter(top) or rest[top] % other[first]:
            return None
        part = tuple(sorted((Counter(top) - Counter(first)).elements()))
        found[part] = rest[top] // other[first]
        rest = added(rest, times({part: found[part]}, other), -1)
    return None if rest else found


def _order(product: Monomial) -> tuple[int, Monomial]:
    return len(product), product
