"""Strategies through their door."""

from __future__ import annotations

import itertools
import os
import random
import resource
import signal
import time
from collections.abc import Callable

import numpy as np
import pytest

from helpers.pools import PARAMETERS, VALID, time_of
from helpers.processes import strategies_of, wait_until
from tuner.errors import RequestError
from tuner.search import foreign, optuna_strategies, strategies
from tuner.search.budget import Budget
from tuner.search.pool import Pool
from tuner.search.search import Search
from tuner.search.strategies import STRATEGIES, Hints
from tuner.space.config import Config, Value


def needs(name: str) -> str:
    """Skips what lacks a package here; Optuna's own Gaussian process needs torch."""
    if name == "optuna:gp":
        pytest.importorskip("torch")
    strategies.check(name)
    return name


def trace(
    name: str,
    budget: Budget,
    seed: int = 0,
    valid: list[tuple[Value, ...]] = VALID,
    answer: Callable[[Config], float | None] = time_of,
    say: Callable[[str], None] = lambda _: None,
    most: int | None = None,
) -> list[tuple[Value, ...]]:
    """The configurations asked for, one at a time; the first `most` of them."""
    asked: list[tuple[Value, ...]] = []
    with Search(needs(name), Pool(PARAMETERS, valid), budget, seed, say=say) as search:
        while len(asked) != most and (config := search.ask()) is not None:
            asked.append(tuple(config.values()))
            search.tell(config, answer(config))
    return asked


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_spends_its_budget_on_valid_configurations_each_once_and_the_same_for_a_seed(name: str) -> None:
    first = trace(name, Budget(evaluations=16), seed=5)
    assert len(set(first)) == len(first) == 16
    assert set(first) <= set(VALID)
    random.random()  # whatever else draws numbers changes nothing
    np.random.random()  # noqa: NPY002
    assert trace(name, Budget(evaluations=16), seed=5) == first
    assert (trace(name, Budget(evaluations=16), seed=6, most=5) == first[:5]) == ("brute_force" in name)


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_exhausts_a_small_space_and_stops(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernel Tuner's genetic algorithm never comes to an end on some of these."""
    monkeypatch.setattr(foreign, "PATIENCE_SECONDS", 0.25)
    for size in (1, 2, 20):
        valid = random.Random(size).sample(VALID, size)
        assert sorted(map(str, trace(name, Budget(), valid=valid))) == sorted(map(str, valid))
    assert len(set(trace(name, Budget(evaluations=9), valid=valid))) == 9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["optuna", "optuna:tpe", "random", "kt:genetic_algorithm", "kt:simulated_annealing"])
def test_a_strategy_goes_on_where_everything_fails(name: str) -> None:
    assert len(set(trace(name, Budget(evaluations=50), answer=lambda _: None))) == 50


def test_tpe_avoids_a_value_that_fails() -> None:
    """Optuna's TPE is drawn to failed trials: findings/optuna-tpe-is-drawn-to-failures.sh."""
    parameters = {"tile": [16, 32, 64, 128], "unroll": range(1, 65)}
    failures = 0
    with Search(
        "optuna:tpe", Pool(parameters, itertools.product(*parameters.values())), Budget(evaluations=60)
    ) as search:
        while (config := search.ask()) is not None:
            failures += config["tile"] == 128
            search.tell(config, None if config["tile"] == 128 else 1 / config["tile"] + 1 / config["unroll"])
    assert failures < 15, "a quarter, as chance has it"


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_several_configurations_are_outstanding_and_told_in_any_order(name: str) -> None:
    told, outstanding, most = [], [], 0
    order = random.Random(1)
    with Search(needs(name), Pool(PARAMETERS, VALID), Budget(evaluations=40), 3) as search:
        while True:
            while len(outstanding) < 8 and (config := search.ask()) is not None:
                outstanding.append(config)
            if not outstanding:
                break
            most = max(most, len(outstanding))
            config = outstanding.pop(order.randrange(len(outstanding)))
            told.append(tuple(config.values()))
            search.tell(config, time_of(config))
    assert len(set(told)) == len(told) == 40
    assert most == 8 or name.startswith("kt:")


def test_a_strategy_that_stops_early_is_said_and_random_configurations_take_its_place() -> None:
    notes: list[str] = []
    assert set(trace("kt:minimize", Budget(), valid=VALID[:20], say=notes.append)) == set(VALID[:20])
    assert len(notes) == 1
    assert "kt:minimize has nothing more to ask for after" in notes[0]
    assert notes[0].endswith("; random configurations use up the rest of the budget")


def test_a_strategy_whose_process_is_killed_is_said_and_random_configurations_take_its_place() -> None:
    notes: list[str] = []
    asked = set()
    with Search("kt:mls", Pool(PARAMETERS, VALID), Budget(evaluations=40), say=notes.append) as search:
        while (config := search.ask()) is not None:
            asked.add(tuple(config.values()))
            if len(asked) == 10:
                for child in strategies_of(os.getpid()):
                    os.kill(child, signal.SIGKILL)
            search.tell(config, time_of(config))
    assert len(asked) == 40
    assert notes == ["kt:mls has lost its process, exit status -9; random configurations use up the rest of the budget"]
    assert strategies_of(os.getpid()) == []


def test_where_there_is_no_room_for_a_process_random_configurations_take_its_place() -> None:
    strategies.check("kt:mls")  # the import system opens the folder of strategies once
    notes: list[str] = []
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        with Search("kt:mls", Pool(PARAMETERS, VALID), Budget(evaluations=2), say=notes.append) as search:
            assert search.ask() is not None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert notes == [
        "kt:mls: cannot start a process: Too many open files; random configurations use up the rest of the budget"
    ]


def test_a_budget_in_time_ends_the_search() -> None:
    assert trace("optuna", Budget(seconds=1e-9)) == []


@pytest.mark.slow
def test_the_time_of_a_budget_starts_with_the_first_question() -> None:
    with Search("random", Pool(PARAMETERS, VALID), Budget(seconds=1.0)) as search:
        time.sleep(1.1)  # as long as a device and a reference may take
        assert search.ask() is not None


@pytest.mark.parametrize(("earlier", "left"), [(3, 7), (8, 10 / 4)])
def test_what_precedes_the_first_question_counts_up_to_three_quarters_of_the_time(
    earlier: float, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    with Search("random", Pool(PARAMETERS, VALID), Budget(seconds=10), began=now - earlier) as search:
        monkeypatch.setattr(time, "monotonic", lambda: now)
        assert search.left == pytest.approx(left)
        assert search.ask() is not None
        monkeypatch.setattr(time, "monotonic", lambda: now + left - 0.1)
        assert (search.is_late(), search.seconds_left()) == (False, pytest.approx(0.1))
        monkeypatch.setattr(time, "monotonic", lambda: now + left + 0.1)
        assert (search.is_late(), search.seconds_left()) == (True, 0)
        assert search.deadline == pytest.approx(now + left)


def test_without_a_name_all_are_tried_unless_the_budget_forbids_it() -> None:
    assert strategies.choose(None, Budget(), 100) == "brute_force"
    assert strategies.choose(None, Budget(evaluations=100), 100) == "brute_force"
    assert strategies.choose(None, Budget(evaluations=99), 100) == "optuna"
    assert strategies.choose(None, Budget(seconds=5), 100) == "optuna"
    assert strategies.choose("random", Budget(), 100) == "random"


def test_an_unknown_strategy_is_an_error_that_lists_them() -> None:
    with pytest.raises(RequestError, match=r"'kt:skopt'.*optuna:tpe.*kt:genetic_algorithm"):
        strategies.check("kt:skopt")


def test_a_strategy_for_one_objective_refuses_two() -> None:
    with pytest.raises(RequestError, match=r"one objective.*optuna:nsga2"):
        Search("kt:pso", Pool(PARAMETERS, VALID), objectives=2)


@pytest.mark.slow
def test_the_default_finds_the_best_in_a_fraction_of_the_space_and_beats_chance() -> None:
    def best(name: str, seed: int) -> float:
        found = [time_of(dict(zip(PARAMETERS, c, strict=True))) for c in trace(name, Budget(evaluations=40), seed)]
        return min(t for t in found if t is not None)

    assert [best("optuna", seed) for seed in range(4)] == [1.0] * 4
    assert sum(best("random", seed) for seed in range(4)) > 4.5


@pytest.mark.slow
def test_what_is_likely_next_comes_next() -> None:
    for name in ("brute_force", "random"):
        with Search(name, Pool(PARAMETERS, VALID), seed=2) as search:
            ahead = search.likely(5)
            assert ahead == [search.ask() for _ in range(5)]
    hits = 0
    with Search("optuna", Pool(PARAMETERS, VALID), Budget(evaluations=60), seed=2) as search:
        ahead = search.likely(8)
        while (config := search.ask()) is not None:
            hits += config in ahead
            ahead = search.likely(8)
            assert config not in ahead
            search.tell(config, time_of(config))
    assert hits > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", ["optuna", "random", "kt:pso", "optuna:tpe"])
def test_warm_configurations_come_first_and_do_not_take_the_place_of_the_start(name: str) -> None:
    pool = Pool(PARAMETERS, VALID)
    warm = [pool.config(row) for row in (5, 100, 5)]
    with Search(name, pool, Budget(evaluations=30), hints=Hints(warm=[{"tile": 99}, *warm])) as search:
        asked = []
        while (config := search.ask()) is not None:
            asked.append(config)
            search.tell(config, time_of(config))
    assert asked[:2] == warm[:2]
    assert len({tuple(c.values()) for c in asked}) == 30
    assert len({c["order"] for c in asked[2:14]}) == 3


@pytest.mark.parametrize("name", ["optuna", "random", "brute_force", "kt:pso", "optuna:tpe"])
def test_what_is_to_be_first_comes_after_the_best_that_is_known_and_before_all_others(name: str) -> None:
    pool = Pool(PARAMETERS, VALID)
    hints = Hints(warm=[{"tile": 99}, pool.config(5), pool.config(100)], first=[{"tile": 99}, pool.config(70)])
    with Search(name, pool, Budget(evaluations=4), hints=hints) as search:
        asked = []
        while (config := search.ask()) is not None:
            asked.append(config)
            search.tell(config, time_of(config))
    assert asked[:3] == [pool.config(5), pool.config(70), pool.config(100)]


def test_what_is_to_be_first_is_likely_and_where_it_spends_the_budget_no_strategy_is_started() -> None:
    pool = Pool(PARAMETERS, VALID)
    hints = Hints(warm=[pool.config(5)], first=[pool.config(5), pool.config(70)])
    with Search("kt:pso", pool, Budget(evaluations=2), hints=hints) as search:
        assert search.likely(8) == [pool.config(5), pool.config(70)]
        assert [search.ask(), search.ask(), search.ask()] == [pool.config(5), pool.config(70), None]
        assert not strategies_of(os.getpid())
    with Search("kt:pso", pool, Budget(evaluations=3), hints=hints):
        wait_until(lambda: strategies_of(os.getpid()))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["optuna", "random", "brute_force", "kt:mls", "optuna:qmc"])
def test_what_others_have_measured_is_not_asked_for(name: str) -> None:
    pool = Pool(PARAMETERS, VALID)
    with Search(name, pool) as search:
        for row in range(0, len(pool), 2):
            search.tell(pool.config(row), time_of(pool.config(row)))
        rows = set()
        while (config := search.ask()) is not None:
            rows.add(pool.find(config))
            search.tell(config, time_of(config))
    assert rows == set(range(1, len(pool), 2))


def test_a_configuration_that_is_not_in_the_pool_cannot_be_told() -> None:
    with Search("optuna", Pool(PARAMETERS, VALID)) as search, pytest.raises(ValueError, match="not in the pool"):
        search.tell({"tile": 3}, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["optuna", "optuna:nsga2"])
def test_two_objectives_are_traded_off(name: str) -> None:
    """Time falls with x, registers rise with it; configurations in the front differ in nothing else."""
    pool = Pool({"x": tuple(range(1, 31)), "waste": tuple(range(30))}, itertools.product(range(1, 31), range(30)))
    front = set()
    with Search(name, pool, Budget(evaluations=80), seed=1, objectives=2) as search:
        while (config := search.ask()) is not None:
            x, waste = int(config["x"]), int(config["waste"])
            search.tell(config, (10.0 / x + waste, 10.0 + x + waste))
            if waste == 0:
                front.add(x)
    assert len(front) >= (12 if name == "optuna" else 1)
    assert len(front & set(range(1, 11))) >= (3 if name == "optuna" else 0)


def test_a_pool_refuses_what_is_no_list_of_configurations() -> None:
    for wrong, message in [
        ([], "without configurations"),
        ([VALID[0], VALID[0]], "occurs twice"),
        ([(16, 3, 1, False, "row", 7)], r"block_size_y = 3; allowed: \[1, 2, 4, 8\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            Pool(PARAMETERS, wrong)


def test_the_table_names_what_the_packages_have() -> None:
    from kernel_tuner.interface import strategy_map

    # The first does not run with Kernel Tuner 1.5.0; the second takes a second per evaluation.
    assert set(strategies.KERNEL_TUNER_STRATEGIES) == set(strategy_map) - {"pyatf_strategies", "skopt"}
    assert set(strategies.OPTUNA_SAMPLERS) == set(optuna_strategies.SAMPLERS)
