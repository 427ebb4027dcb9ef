"""Shapes of arrays of a few planes or of records of a few numbers: as many as the kernel's constants reach, and loops
with constant bounds. `x[i]`, `x[i + n]` and `x[i + 2 * n]` are planes, `x[3 * i]` to `x[3 * i + 2]` records."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tuner.classes import dataclass
from tuner.drafting.polynomials import Monomial, Polynomial

MOST_PLANES = 64  # two halves may be something else
Loops = Mapping[str, tuple[Polynomial, Sequence[Polynomial]]]


@dataclass(frozen=True)
class Access:
    """An index, with constants as numbers; the last values of loop variables that have constant bounds; and a function
    for the extents of an array that another index alone would tell."""

    index: Polynomial
    ends: Mapping[str, int]
    extents_of: Callable[[Polynomial], list[str]]


def shape(accesses: Iterable[Access], sizes: Collection[str]) -> list[str] | None:
    """The shape of an array with these accesses by planes of one size, or by constants and such loops alone; None for
    any other."""
    most, extents, has_loop = 0, list[str](), False
    for access in accesses:
        index = access.index
        if _is_element(index):
            continue  # which is within a plane
        stride = max((_of_sizes(product, sizes) for product in index), key=len, default=())
        known = list[str]()
        if stride:
            within = {product: factor for product, factor in index.items() if _of_sizes(product, sizes) != stride}
            known = [] if _is_element(within) else access.extents_of(within)
            last = _last(access, stride, sizes)
        elif first := access.extents_of(index):
            known, stride, last = first, tuple(first), 0
        else:
            last = _last(access, stride, sizes)
        if last is None or (known and Counter(known) != Counter(stride)):
            return None
        if extents and stride and Counter(extents) != Counter(stride):
            return None
        has_loop |= not stride and any(index)
        most, extents = max(most, last), extents or known
    if not extents:
        return [str(most + 1)] if has_loop else None
    return [str(most + 1), *extents] if 1 < most < MOST_PLANES and not has_loop else None


def in_rows(every: Sequence[Polynomial], sizes: Collection[str]) -> tuple[int, list[Polynomial]]:
    """How many planes each row of an array with these indices has, as `x[2 * n * row + i]` and `x[2 * n * row + n + i]`
    have, and the indices in the first plane, with rows one plane apart; 0 if rows are no planes."""
    strides = {max((_of_sizes(product, sizes) for product in index), key=len, default=()) for index in every}
    stride = strides.pop() if len(strides) == 1 else ()
    rows = [{p for p in index if _of_sizes(p, sizes) == stride != p} for index in every]
    count = math.gcd(*(index[p] for index, row in zip(every, rows, strict=True) for p in row)) if stride else 0
    if count < 2 or {index.get(stride, 0) for index in every} != {*range(count)}:
        return 0, []
    pairs = zip(every, rows, strict=True)
    return count, [{p: f // count if p in row else f for p, f in index.items() if p != stride} for index, row in pairs]


def records(accesses: Iterable[Access]) -> list[str] | None:
    """The shape of an array with these accesses by records of one length, all of which are read; None for any other."""
    found = [*accesses]
    if not (length := length_of_records(found)):
        return None
    extents = {tuple(access.extents_of(base)) for access in found if (base := _record(access)[0])}
    longest = max(extents, key=lambda each: len(each) > 0 and "+" in each[0])
    bases = {tuple(each.partition(" + ")[0] for each in found) for found in extents}
    return [*longest, str(length)] if len(bases) == 1 and longest else None


def length_of_records(accesses: Iterable[Access]) -> int:
    """The numbers in a record of an array with these accesses, all of which are read; 0 if they are no records."""
    every = [_record(access) for access in accesses]
    lengths = {length for _, length, _ in every if length}
    last = max((last for _, _, last in every), default=0)
    return last + 1 if len(lengths) == 1 and last == max(lengths) - 1 > 0 else 0


def _record(access: Access) -> tuple[Polynomial, int, int]:
    """The index of a record, the length of the records, and the last number that is read; no length if the index is a
    number alone. A loop within the record, as by c in `x[3 * i + c]`, reads up to its end."""
    terms, number = {p: f for p, f in access.index.items() if p}, access.index.get((), 0)
    within = {p: f for p, f in terms.items() if len(p) == 1 and p[0] in access.ends and f > 0}
    length = math.gcd(*(f for p, f in terms.items() if p not in within))
    if sum(f * access.ends[p[0]] for p, f in within.items()) >= length:
        within, length = {}, math.gcd(*terms.values())
    if not length:
        return {}, 0, number
    base = {p: f // length for p, f in terms.items() if p not in within}
    ahead = {(): number // length} if number // length else {}
    return base | ahead, length, number % length + sum(f * access.ends[p[0]] for p, f in within.items())


def evaluated(polynomial: Polynomial, numbers: Mapping[str, int]) -> Polynomial:
    """A polynomial with the numbers of constants in place of their names."""
    total = dict[Monomial, int]()
    for product, factor in polynomial.items():
        for name in product:
            factor *= numbers.get(name, 1)
        left = tuple(name for name in product if name not in numbers)
        total[left] = total.get(left, 0) + factor
    return {product: factor for product, factor in total.items() if factor}


def ends(loops: Loops, bounds: Iterable[tuple[Polynomial, Polynomial]], numbers: Mapping[str, int]) -> dict[str, int]:
    """The last values of loop variables that count from 0 by 1 up to a constant, which is their only bound."""
    found = dict[str, set[int | None]]()
    for left, right in bounds:
        (only, *more) = [*left] or [()]
        if len(only) == 1 and not more and left == {only: 1} and only[0] in loops:
            limit = evaluated(right, numbers)
            found.setdefault(only[0], set()).add(limit.get((), 0) - 1 if set(limit) <= {()} else None)
    whole = {name for name, (start, steps) in loops.items() if not evaluated(start, numbers) and steps == [{(): 1}]}
    single = ((name, next(iter(each))) for name, each in found.items() if name in whole and len(each) == 1)
    return {name: end for name, end in single if end is not None}


def _of_sizes(product: Monomial, sizes: Collection[str]) -> Monomial:
    return tuple(name for name in product if name in sizes)


def _is_element(index: Polynomial) -> bool:
    """Whether an index is an element of an array."""
    return len(index) == 1 and all(len(product) == 1 and "[" in product[0] for product in index)


def _last(access: Access, stride: Monomial, sizes: Collection[str]) -> int | None:
    """The last plane that an index reaches; None if it is no constant."""
    total = 0
    for product, factor in access.index.items():
        variables = [name for name in product if name not in stride]
        if _of_sizes(product, sizes) != stride:
            continue
        if factor < 0 or len(variables) > 1 or not {*variables} <= access.ends.keys():
            return None
        total += factor * (access.ends[variables[0]] if variables else 1)
    return total
