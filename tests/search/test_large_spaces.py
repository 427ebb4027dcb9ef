"""Spaces with too many combinations to try each: listed where few are valid, else drawn."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune
from helpers.spaces import scope, space
from tuner.errors import NoConfiguration
from tuner.search import enumeration
from tuner.search.budget import Budget
from tuner.search.listing import counted, listed
from tuner.search.pool import Pool
from tuner.search.search import Search
from tuner.space.config import Config, Value

TEN: dict[str, tuple[Value, ...]] = dict.fromkeys("abcdefghij", tuple(range(10)))  # 10^10 combinations
EQUAL = [f"{one} == {other}" for one, other in itertools.pairwise("abcdefghij")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))


def test_ten_thousand_million_combinations_of_which_few_are_valid_are_listed() -> None:
    few = space(TEN, [*EQUAL[:-2], "h + i + j == 5 or i == j"])
    pool = listed(few, scope())
    expected = {(a,) * 8 + (i, j) for a, i, j in itertools.product(range(10), repeat=3) if a + i + j == 5 or i == j}
    assert {tuple(config.values()) for config in pool.configs()} == expected
    assert (pool.is_sample, pool.valid, counted(few, scope())) == (False, len(expected), len(expected))


def test_a_restriction_that_reads_every_parameter_is_decided_when_the_others_left_few() -> None:
    few = space(TEN, ["a + b + c + d + e + f + g + h + i + j == 9", *(f"{name} < 2" for name in "abcdefghij")])
    assert listed(few, scope()).valid == 10


def test_a_bound_on_a_sum_or_a_product_of_all_parameters_is_used_before_they_all_have_values() -> None:
    nine = dict.fromkeys("abcdefghi", tuple(range(1, 11)))
    few = listed(space(nine, [f"{' + '.join(nine)} <= 14"]), scope())
    assert (few.is_sample, few.valid) == (False, math.comb(14, 9))
    powers = dict.fromkeys("abcdefghijkl", (1, 2, 4, 8, 16))
    few = listed(space(powers, [f"32 <= {' * '.join(powers)} <= 64"]), scope())
    # of exponents of 0 to 4 whose sum is 5 or 6: those of any size, without those with one of 5 or 6
    assert few.valid == math.comb(16, 11) - 12 + math.comb(17, 11) - 12 * 11 - 12
    assert not few.is_sample


def test_a_remainder_that_reads_every_parameter_is_decided_before_too_many_combinations_remain() -> None:
    few = listed(space(dict.fromkeys("abc", tuple(range(170))), ["(a * b + c) % 1009 == 1"]), scope())
    a, b, c = np.indices((170,) * 3)
    assert (few.is_sample, few.valid) == (False, np.count_nonzero((a * b + c) % 1009 == 1))


RESTRICTIONS = {
    "arithmetic": ["a * b - c <= d + 3", "a + b * c >= d"],
    "quotients": ["a / (b + 1) <= c", "(a * c + d) // (b + 1) == 2"],
    "remainders": ["(a + b) % (c + 1) <= d - 2", "(a - 3) % (d + 1) == b % 2"],
    "beyond floats": [f"(a + {2**53 - 1}) % 4 == b", f"a + {2**53} == {2**53} + b - 1", f"(a + {2**53}) // 2 != d"],
    "functions": ["ceil_div(a * b + 1, c + 1) >= d", "round_up(a + b, d + 1) <= 7", "min(a, c) < max(b, d)"],
    "conditions": [
        "(a if b > c else d) < 3",
        "a > b or not (c < d and a != c)",
        "a < b <= c < d or b == 2",
        "(a if b > c else d) % 3 == 2",
    ],
    "what has no bounds": ["a ** 2 + b ** 2 < c ** 2 + d", "abs(a - b) <= c", "a in (b, c, 3)", "log2(a + 1) <= b"],
    "derived values": ["t > d", "t * u < 30"],
    "signs": ["a - 4 <= (b - 3) * (c - 2)", "(a - 2) * (b - 5) >= d", "-a * b >= c - 20"],
}


@pytest.mark.parametrize("kind", RESTRICTIONS)
def test_what_is_excluded_early_is_what_the_restrictions_exclude(kind: str) -> None:
    values: dict[str, tuple[Value, ...]] = {"a": (5, 0, 2), "b": (1, 7, 3), "c": (4, 0, 2, 6), "d": (0, 3, 1, 8)}
    for restriction in RESTRICTIONS[kind]:
        one = space(values, [restriction], t="a * b + c", u="1 if t > 5 else b")
        expected = {
            combination
            for combination in itertools.product(*values.values())
            if one.valid(dict(zip(values, combination, strict=True)), scope())
        }
        drawn = enumeration.enumerated(one, scope())
        assert {tuple(config.values()) for config in drawn.configs()} == expected, restriction


@pytest.mark.slow
def test_what_is_too_much_to_list_is_drawn_evenly_and_again_the_same() -> None:
    many = space(TEN, ["a <= b", "(c + d) % 2 == 0", "e != f"])
    pool = listed(many, scope())
    assert pool.is_sample
    assert pool.valid == pytest.approx(55 * 50 * 90 * 10**4, rel=0.02)
    assert 0.99 * enumeration.MOST_DRAWN < len(pool) <= enumeration.MOST_DRAWN
    configs = [pool.config(row) for row in range(0, len(pool), 10)]
    assert all(many.valid(config, scope()) for config in configs)
    for name in "cgj":
        counts = Counter(config[name] for config in configs)
        assert all(0.08 < counts[value] / len(configs) < 0.12 for value in range(10))
    again = listed(many, scope())  # from the cache
    assert (again.valid, again.is_sample) == (pool.valid, True)
    assert (again.rows == pool.rows).all()
    assert counted(many, scope()) is None


@pytest.mark.slow
def test_a_hundred_parameters_are_told_apart() -> None:
    """More combinations than a 64-bit integer has values."""
    values = {f"p{i}": tuple(range(8)) for i in range(100)}
    pool = listed(space(values, ["p0 < p99"]), scope())
    assert pool.is_sample
    assert pool.valid == pytest.approx(28 * 8**98, rel=0.02)
    assert all(pool.find(pool.config(row)) == row for row in range(0, len(pool), 5000))
    assert pool.find({**pool.config(0), "p50": (int(str(pool.config(0)["p50"])) + 1) % 8}) is None


def test_a_pool_takes_configurations_that_it_lacks() -> None:
    pool = Pool({"a": (1, 2), "b": ("x", "y")}, [(1, "x")])
    both = pool.including([{"a": 2, "b": "y"}, {"a": 1, "b": "x"}])
    assert [both.config(row) for row in range(len(both))] == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert pool.including([]) is pool
    assert len(pool.including([{"a": 2, "b": "y"}] * 2)) == 2


def test_where_few_configurations_are_considered_the_neighbours_of_the_best_are_among_them() -> None:
    parameters: dict[str, list[Value]] = {f"p{i}": [1, 2, 4, 8] for i in range(8)}
    pool = Pool.of_rows(parameters, np.indices((4,) * 8).reshape(8, -1).T.astype(np.uint16))

    def measured(config: Config) -> float:
        return 1 + sum((math.log2(float(value)) - (1 + i % 3)) ** 2 for i, value in enumerate(config.values()))

    with Search("optuna", pool, Budget(45), seed=1) as search:  # one of 65,536, not one of the 3,000 drawn at random
        while (config := search.ask()) is not None and measured(config) > 1:
            search.tell(config, measured(config))
    assert config is not None


def test_a_large_space_without_a_valid_configuration_names_the_restriction() -> None:
    with pytest.raises(NoConfiguration, match="a > 100"):
        listed(space(TEN, ["a > 100"]), scope())
    with pytest.raises(NoConfiguration, match="a < b"):
        listed(space(TEN, ["a < b", "b < a"]), scope())


@pytest.mark.slow
def test_a_space_that_is_drawn_is_tuned_with_a_budget_and_its_default_is_measured(tune: Tune, stage: Stage) -> None:
    names = [f"knob{i}" for i in range(9)]
    parameters = "{" + ", ".join(f"{name}: {[*range(10)]}" for name in names) + ", other: [1, 2]}"
    more = f"default: {{{', '.join(f'{name}: 9' for name in names)}, other: 2}}\n"
    file = stage(c_kernel("many", MULTIPLY), "many", parameters, "c", more)
    done = tune(file, "8", "--device", "host")
    assert done.status == 2
    assert "about 2,000,000,000 configurations are valid, too many to try; add a budget" in done.err
    assert (
        tune("show", file, "8", "--device", "host").out.splitlines()[1].startswith("about 2,000,000,000 configurations")
    )
    done = tune(file, "8", "--device", "host", "--budget", "4", "--json")
    assert re.search(r"chooses among (199,9\d\d|200,000) of them, drawn at random", done.err)
    assert done.json["configurations"] == pytest.approx(2e9, rel=0.01)
    history = tune("history", file, "8", "--device", "host", "--json").json
    assert {**dict.fromkeys(names, 9), "other": 2} in [step["config"] for step in history["trials"]]
