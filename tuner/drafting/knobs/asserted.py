"""Reads the conditions of `static_assert` as restrictions of a space file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from tuner.drafting.expansion import expanded, split_arguments
from tuner.errors import ExpressionError
from tuner.space import expressions
from tuner.space.sources.tokens import matching, words

_ASSERTS = ("static_assert", "_Static_assert")
_OPERATORS = {"= =": "==", "! =": "!=", "< =": "<=", "> =": ">=", "& &": "and", "| |": "or", "/": "//"}
_OF_NUMBERS = re.compile(r"(\d+)[uUlL]+")


def conditions(
    code: str, numbers: Mapping[str, int], others: Collection[Sequence[str]]
) -> Iterator[tuple[str, list[str]]]:
    """The asserted conditions with the names in them, with numbers in the place of the names that have some; without
    those that a space file cannot have, and those in the bodies of `others`, whose parameters may have the same names.
    """
    whole = "\0".join(words(code))
    for body in others:
        whole = whole.replace("\0".join(("{", *body, "}")), "{\0}", 1)
    tokens = whole.split("\0")
    for at, word in enumerate(tokens):
        if word not in _ASSERTS or tokens[at + 1 : at + 2] != ["("]:
            continue
        first, *_ = split_arguments(tokens[at + 2 : matching(tokens, at + 1)])
        text = " ".join(str(numbers.get(each, _OF_NUMBERS.sub(r"\1", each))) for each in expanded(first, code))
        for sign, other in _OPERATORS.items():
            text = text.replace(f" {sign} ", f" {other} ")
        text = re.sub(r"! (?=[(\w])", "not ", re.sub(r"\( (\w+) \)", r"\1", text)).replace("( ", "(").replace(" )", ")")
        try:
            names = sorted(expressions.parse(text).names)
        except ExpressionError:
            continue
        if names:
            yield text, names


def holds(condition: str, values: Mapping[str, int | bool | str]) -> bool:
    """Whether a condition is true for values, or has none."""
    try:
        return bool(expressions.parse(condition).evaluate(values))
    except ExpressionError:
        return True
