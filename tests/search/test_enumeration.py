from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.spaces import scope, space
from tuner.errors import ExpressionError, NoConfiguration
from tuner.search.enumeration import enumerated
from tuner.space.config import Value
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope

ABC: dict[str, tuple[Value, ...]] = {"a": (1, 2, 3, 4), "b": (0, 1, 2, 4), "c": (2, 8)}


def found(made: Space, at: Scope) -> set[tuple[Value, ...]]:
    return {tuple(config.values()) for config in enumerated(made, at).configs()}


def by_definition(made: Space, at: Scope) -> set[tuple[Value, ...]]:
    return {tuple(config.values()) for config in made.walk() if Instance(made, config, at).broken is None}


@pytest.mark.parametrize(
    "restrictions",
    [
        [],
        ["a * b <= 4"],
        ["a * b <= 4", "c > a"],
        ["a <= b if c == 2 else a > b"],
        ["not (a > 2)"],
        ["b == 0 or a % b == 0"],
        ["ceil_div(a, c) == 1 or round_up(a, c) > 2"],
        ["max(a, b) <= 2"],
        ["a in (1, 4) and b not in (1,)"],
        ["(a, b) == (2, 2) or c == 8"],
        ["M % 2 == 0", "a > 1"],
        ["language == 'opencl' or a == 2"],
        ["total <= 6"],
        ["a == b == 2 or a < b < c"],
        ["-a + b > -2"],
    ],
)
def test_enumeration_gives_what_the_restrictions_define(restrictions: list[str]) -> None:
    made = space(ABC, restrictions, total="a + b * 2")
    assert found(made, scope()) == by_definition(made, scope())


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Comparisons and their combinations that never divide by zero."""
    side = st.sampled_from(["a", "b", "c", "a * b", "a + c", "b % a", "c // a", "2", "M", "min(a, c)", "a * 4"])
    compared = f"{draw(side)} {draw(st.sampled_from(['<', '<=', '==', '!=', '>', '>=']))} {draw(side)}"
    if draw(st.booleans()):
        return compared
    return f"{draw(st.sampled_from(['not ', '']))}({compared}) {draw(st.sampled_from(['and', 'or']))} {draw(side)} > 1"


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(conditions(), min_size=1, max_size=3))
def test_enumeration_agrees_with_the_evaluator_of_whole_configurations(restrictions: list[str]) -> None:
    made = space(ABC, restrictions)
    expected = by_definition(made, scope())
    if expected:
        assert found(made, scope()) == expected
    else:
        with pytest.raises(NoConfiguration):
            enumerated(made, scope())


def test_a_division_by_zero_is_an_error_that_names_the_restriction() -> None:
    with pytest.raises(ExpressionError, match=r"a % b == 0.*division by zero at a=\d b=0"):
        enumerated(space(ABC, ["a % b == 0"]), scope())


@pytest.mark.parametrize("order", [1, -1])
def test_a_division_by_zero_that_another_restriction_excludes_is_none(order: int) -> None:
    made = space(ABC, ["a % b == 0", "b > 0"][::order])
    assert found(made, scope()) == {c for c in itertools.product(*ABC.values()) if c[1] and c[0] % c[1] == 0}


def test_a_size_that_leaves_nothing_names_the_restriction() -> None:
    with pytest.raises(NoConfiguration, match=r"at M=100: `M % 64 == 0` \(a reason\)"):
        enumerated(space(ABC, ["M % 64 == 0", "a > 0"]), scope())


def test_words_and_truth_values_are_parameters_too() -> None:
    parameters: dict[str, tuple[Value, ...]] = {"order": ("row", "column"), "pad": (True, False), "n": (1, 2)}
    made = space(parameters, ["order == 'row' or not pad", "n == 2 or pad"])
    assert found(made, scope()) == by_definition(made, scope())


@pytest.mark.slow
@pytest.mark.parametrize(
    "restrictions",
    [
        ["a * b <= 50", "c % d == 0", "e + f > 8", "a >= c", "(d * e) % 2 == 0"],
        ["a * b <= 50 if c > 3 else a < 5", "ceil_div(c, d) == 1", "max(e, f) > 8", "not a < c", "(d * e) % 2 == 0"],
    ],
    ids=["plain", "conditional"],
)
def test_a_million_raw_combinations_are_listed(restrictions: list[str]) -> None:
    parameters: dict[str, tuple[Value, ...]] = dict.fromkeys("abcdef", tuple(range(1, 11)))
    began = time.process_time()
    assert 0 < enumerated(space(parameters, restrictions), scope()).valid < 10**6
    assert time.process_time() - began < 20, "it hangs; benchmarks/enumeration.py measures the speed"
