"""A search that knows others: it takes over what is right, and loses little by what is wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest

from tuner.search.budget import Budget
from tuner.search.experience import WARM, Experience, in_turn, kendall
from tuner.search.experienced_gp import PATIENCE
from tuner.search.pool import Pool
from tuner.search.search import Search
from tuner.search.strategies import Hints
from tuner.space.config import Config, Value

PARAMETERS: dict[str, Sequence[Value]] = {"x": list(range(1, 17)), "y": list(range(1, 17)), "way": ["a", "b", "c"]}
POOL = Pool(PARAMETERS, [(x, y, way) for x in PARAMETERS["x"] for y in PARAMETERS["y"] for way in PARAMETERS["way"]])


def time_of(config: Config, best: tuple[float, float] = (11, 5)) -> float | None:
    """A hill in x and y, lower in `a`; some configurations fail."""
    x, y = float(config["x"]), float(config["y"])
    if x * y > 200:
        return None
    return 1 + 0.05 * math.hypot(x - best[0], y - best[1]) + 0.1 * (config["way"] != "a")


def known(best: tuple[float, float], count: int = 190, turned: bool = False) -> Experience:
    """What a problem with another optimum has measured; `turned`: its slowest are its fastest."""
    configs = [POOL.config(row) for row in range(0, len(POOL), len(POOL) // count)]
    times = [time_of(config, best) for config in configs]
    return Experience([(c, 1 / t if turned and t else t) for c, t in zip(configs, times, strict=True)])


def asked(experiences: Sequence[Experience], budget: int = 60, seed: int = 3, workers: int = 1) -> list[Config]:
    """The configurations in the order in which the default strategy asks for them."""
    rows: list[Config] = []
    told = 0
    with Search("optuna", POOL, Budget(budget), seed, Hints(block=["x"], experiences=experiences)) as search:
        while (config := search.ask()) is not None:
            rows.append(config)
            if len(rows) - told >= workers:
                search.tell(rows[told], time_of(rows[told]))
                told += 1
    return rows


def test_a_search_that_knows_a_similar_problem_is_near_the_optimum_within_a_few_evaluations() -> None:
    near = [time_of(config) for config in asked([known((11, 6))], 6)]
    assert min(t for t in near if t is not None) < 1.1 < min(t for t in map(time_of, asked([], 6)) if t is not None)


def test_another_kind_that_was_nearly_as_fast_at_other_sizes_is_tried_early_and_followed_if_it_is_faster_here() -> None:
    pool = Pool({"x": list(range(40)), "fixed": [0, 1], "wide": [0, 1]}, itertools.product(range(40), (0, 1), (0, 1)))

    def log(best: int) -> Experience:  # `fixed` takes 7 % longer, `wide` 40 %
        configs = [*pool.configs()]
        times = [1 + abs(int(c["x"]) - best) / 100 + 0.07 * int(c["fixed"]) + 0.4 * int(c["wide"]) for c in configs]
        return Experience([*zip(configs, times, strict=True)], of_device=True)

    for logs, unknown in (([log(20)], 0), ([log(20), log(21)], 0), ([log(20)], 1)):
        asked: list[Config] = []
        with Search("optuna", pool, Budget(6), 3, Hints(experiences=logs)) as search:
            assert {"x": 20, "fixed": 1, "wide": 0} in search.likely(4)
            while (config := search.ask()) is not None:
                asked.append(config)
                known_here = (0.8 if config["fixed"] else 1) * (1 + abs(int(config["x"]) - 22) / 100)
                search.tell(config, math.inf if len(asked) <= unknown else known_here)  # as an energy that varies
        assert asked[len(logs) + unknown] == {"x": 20, "fixed": 1, "wide": 0}
        assert all((config["fixed"], config["wide"]) == (1, 0) for config in asked[len(logs) + unknown :])


@pytest.mark.parametrize(("fast", "slow"), [((1, 0, 0), (0, 1, 1)), ((1, 1, 0), (1, 0, 1))])
def test_each_kind_is_tried_and_a_slow_one_once_also_while_its_first_result_is_outstanding(
    fast: tuple[Value, ...], slow: tuple[Value, ...]
) -> None:
    kinds = [*itertools.product((0, 1), repeat=3)]
    switches: dict[str, Sequence[Value]] = {"fixed": [0, 1], "wide": [0, 1], "long": [0, 1]}
    pool = Pool({"x": list(range(40)), **switches}, [(x, *kind) for x in range(40) for kind in kinds])

    def time_of(row: Config, best: int, costs: Sequence[float]) -> float:
        return (
            1
            + abs(int(row["x"]) - best) / 100
            + sum(cost * int(row[name]) for cost, name in zip(costs, switches, strict=True))
        )

    configs = [*pool.configs()]
    log = Experience([(config, time_of(config, 20, (0.05, 0.02, 0.01))) for config in configs], of_device=True)
    asked: list[Config] = []
    with Search("optuna", pool, Budget(8), 3, Hints(experiences=[log])) as search:
        while (config := search.ask()) is not None:
            asked.append(config)
            if len(asked) > 1:
                told = asked[-2]
                factor = {fast: 1.0, slow: 2.0}.get(tuple(told[name] for name in switches), 1.3)
                search.tell(told, factor * time_of(told, 22, (0, 0, 0)))
    kinds = [tuple(config[name] for name in switches) for config in asked]
    assert (kinds.count(slow), fast in kinds) == (1, True)


def test_if_all_experiences_mislead_a_search_measures_what_it_would_without_them_a_few_evaluations_later() -> None:
    misleading = [known((11, 5), turned=True), known((1, 16), turned=True), known((16, 1), 15, turned=True)]
    cold, hedged = asked([], 40), asked(misleading, 40 + WARM)
    assert all(config in hedged[: number + WARM] for number, config in enumerate(cold, 1))


def test_with_several_workers_no_configuration_is_asked_for_twice_and_the_budget_is_used_up() -> None:
    experiences = [known((11, 6)), known((1, 16), turned=True)]
    several = asked(experiences, 45, workers=4)
    assert len({tuple(config.values()) for config in several}) == 45


def test_only_an_experience_that_predicts_the_first_results_and_is_hardly_beaten_by_them_is_asked_again() -> None:
    slow = sorted(POOL.configs(), key=lambda config: time_of(config) or math.inf)
    taken = []
    for turned, place in ((False, 20), (True, 20), (False, 300)):
        first = slow[place : place + 2 * PATIENCE]  # each slower than the one before it: none is an improvement
        experience = known((11, 5), 380, turned=turned)
        trials = [(config, time_ms) for config, time_ms in experience.trials if config not in first]
        fastest = min(time_ms for _, time_ms in trials if time_ms is not None)
        wrong = [(config, fastest * (0.99 + place / 1000)) for place, config in enumerate(first)]
        some = asked([Experience([*trials, *wrong])], 26)
        taken.append(len([config for config in some if config in first]))
    assert PATIENCE == taken[1] == taken[2] < taken[0] <= WARM


def test_what_failed_for_a_trusted_experience_comes_last() -> None:
    sides = range(1, 9)
    pool = Pool({"x": [*sides], "y": [*sides]}, [(x, y) for x in sides for y in sides])

    def measured(config: Config) -> float | None:
        x, y = float(config["x"]), float(config["y"])
        return None if x + y > 11 else 1 + math.hypot(x - 6, y - 4)

    log = [(config, measured(config)) for config in map(pool.config, range(0, len(pool), 2))]
    failed = [config for config, time_ms in log if time_ms is None]
    with Search("optuna", pool, Budget(), 3, Hints(experiences=[Experience(log)])) as search:
        rows = []
        while (config := search.ask()) is not None:
            rows.append(config)
            search.tell(config, measured(config))
    assert len(rows) == len(pool)
    early = [config for config in failed if config in rows[:14]]  # before the judgement
    last = rows[len(early) - len(failed) :]
    assert len(failed) - len(early) > 3
    assert all(config in failed for config in last)


def test_configurations_of_several_experiences_come_in_turn_and_each_once() -> None:
    a: Config = {"x": 1}
    b: Config = {"x": 2}
    c: Config = {"x": 3}
    failed: Config = {"x": 4}
    turns = in_turn([Experience([(b, 2.0), (a, 1.0), (failed, None)]), Experience([(c, 0.1), (a, 0.2)])])
    assert turns == [a, c, b]


def test_kendalls_tau_counts_pairs_in_the_same_order() -> None:
    import numpy as np

    a = np.array([1.0, 2.0, 3.0, 4.0])
    assert kendall(a, a * 2) == 1
    assert kendall(a, -a) == -1
    assert kendall(a, np.ones(4)) == 0
    assert kendall(a, np.array([1.0, 2.0, 4.0, 3.0])) == pytest.approx(4 / 6)
