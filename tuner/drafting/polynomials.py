"""Sums of products of names, as indices are."""

from collections.abc import Mapping

Monomial = tuple[str, ...]  # a product of atoms, in their order
Polynomial = Mapping[Monomial, int]  # the factor of each product; that of () is a number alone

# An index is within these limits: its products, their atoms, the letters of an atom, and the numbers.
MOST_TERMS, MOST_FACTORS, MOST_LETTERS, MOST_NUMBER = 64, 16, 400, 1 << 62


def is_short(polynomial: Polynomial) -> bool:
    """Whether it is within the limits: what is computed of it then stays small."""
    return len(polynomial) <= MOST_TERMS and all(
        len(product) <= MOST_FACTORS
        and abs(factor) <= MOST_NUMBER
        and max(map(len, product), default=0) <= MOST_LETTERS
        for product, factor in polynomial.items()
    )


def text(polynomial: Polynomial) -> str:
    """A polynomial in words, the same for equal ones."""
    terms = (" * ".join([*([str(f)] if f != 1 or not p else []), *p]) for p, f in sorted(polynomial.items()))
    return " + ".join(terms) or "0"


def atom(name: str) -> Polynomial:
    """A name, or what is no sum or product, by itself."""
    return {(name,): 1}


def added(one: Polynomial, other: Polynomial, sign: int = 1) -> Polynomial:
    """The sum of two, or with the sign -1 their difference."""
    total = dict(one)
    for product, factor in other.items():
        total[product] = total.get(product, 0) + sign * factor
    return {product: factor for product, factor in total.items() if factor}


def times(one: Polynomial, other: Polynomial) -> Polynomial:
    """Their product."""
    total = dict[Monomial, int]()
    for left, factor in one.items():
        for right, more in other.items():
            product = tuple(sorted(left + right))
            total[product] = total.get(product, 0) + factor * more
    return {product: factor for product, factor in total.items() if factor}


def bare(polynomial: Polynomial) -> dict[Monomial, int]:
    """Without the number that is added."""
    return {product: factor for product, factor in polynomial.items() if product}
