"""Find relations between parameters that every right configuration has, and no failed one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tuner.space.config import Config

RARELY = 20  # what chance finds more often than once in so many times is not told
Relation = Callable[[Any, Any], bool]  # of two numbers
EQUAL: dict[str, Relation] = {"{} == {}": lambda a, b: a == b}
ORDERED: dict[str, Relation] = {
    "{} % {} == 0": lambda a, b: b != 0 and a % b == 0,
    "{1} % {0} == 0": lambda a, b: a != 0 and b % a == 0,
    "{} <= {}": lambda a, b: a <= b,
    "{} >= {}": lambda a, b: a >= b,
}


def missing(right: Sequence[Config], failed: Sequence[Config]) -> tuple[str, ...]:
    """One or two relations that all of `right` have, and of which each of `failed` lacks one; empty if none are known.

    Of n configurations of which r are right, a relation that has nothing to do with it tells them apart with a
    probability of 1 / comb(n, r).
    """
    if not right or not failed:
        return ()
    names = [name for name in right[0] if all(_is_number(config[name]) for config in (*right, *failed))]
    pairs = [*itertools.combinations(names, 2)]
    most = math.comb(len(right) + len(failed), len(right)) // RARELY
    for relations in (EQUAL, EQUAL | ORDERED):
        lacking = dict[str, frozenset[int]]()  # the failed configurations that lack a relation
        for (a, b), (text, holds) in itertools.product(pairs, relations.items()):
            if all(holds(config[a], config[b]) for config in right):
                lacks = (number for number, config in enumerate(failed) if not holds(config[a], config[b]))
                lacking[text.format(a, b)] = frozenset(lacks)
        for size in (1, 2):
            if math.comb(len(pairs) * len(relations), size) > most:
                break
            for chosen in itertools.combinations(lacking, size):
                if len(frozenset[int]().union(*(lacking[text] for text in chosen))) == len(failed):
                    return chosen
    return ()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
