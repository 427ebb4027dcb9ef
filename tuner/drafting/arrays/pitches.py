"""Finds the sums by which the rows of arrays are apart, as in `y * (width + 2 * HALO) + x`, and the rows in indices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tuner.drafting.polynomials import Monomial, Polynomial, added, bare, times
from tuner.space.sources.tokens import matching


def sums(
    body: Sequence[str],
    local: Mapping[str, Sequence[str]],
    sizes: Collection[str],
    polynomial: Callable[[Sequence[str]], Polynomial],
) -> Iterator[Polynomial]:
    """The sums of a size and a number that the body has in brackets, or that a `local` name stands for."""
    groups = [body[at + 1 : matching(body, at)] for at, word in enumerate(body) if word == "("]
    for words in [*(each for each in groups if {"+", "-"} & {*each}), *local.values()]:
        names = {word for word in words if word.isidentifier()}
        if len(names) <= 3 and "?" not in words and names.isdisjoint(("for", "threadIdx", "blockIdx")):
            found = polynomial(words)
            if len(found) > 1 and len(bare(found)) == 1 and _length(found, sizes):
                yield found


def _length(sum_: Polynomial, sizes: Collection[str]) -> Monomial:
    """The only product in a sum, a size; empty if it is anything else."""
    ((product, factor),) = bare(sum_).items()
    return product if factor == len(product) == 1 and product[0] in sizes else ()


def factored(index: Polynomial, pitches: Mapping[str, Polynomial]) -> Polynomial:
    """An index with an atom for each of these sums by which it has rows: `y * (w + 2) + x` for `y * w + 2 * y + x`."""
    lengths = {word for sum_ in pitches.values() for product in bare(sum_) for word in product}
    for name, sum_ in pitches.items():
        ((length,),) = bare(sum_)
        rows = {_without(product, length): factor for product, factor in index.items() if product.count(length) == 1}
        rest = added(index, times(rows, sum_), -1)
        is_same = all(index.get(product) == factor or not product for product, factor in rest.items())
        within = {word for product in rest for word in product}
        if bare(rows) and bare(rest) and is_same and within.isdisjoint(lengths):
            others = {other: each for other, each in pitches.items() if other != name}
            return added(rest, times(factored(rows, others), {(name,): 1}))
    return index


def _without(product: Monomial, name: str) -> Monomial:
    at = product.index(name)
    return product[:at] + product[at + 1 :]
