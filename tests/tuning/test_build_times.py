"""Long builds begin early: one that begins last leaves all other compile workers idle."""

from __future__ import annotations

import heapq
import itertools
import random

from tuner.measure.process.build_times import BuildTimes
from tuner.search.budget import Budget
from tuner.search.pool import Pool
from tuner.search.search import Search
from tuner.space.config import Config

PARAMETERS = {"layout": ["row", "column"], "x": [1, 2, 4], "y": [1, 2, 4], "vector": [1, 2, 4, 8]}
VALID = list(itertools.product(*PARAMETERS.values()))
WORKERS = 12


def seconds_of(config: Config) -> float:
    """Seconds of a build whose loops are unrolled by x and y, with a deviation that no parameter explains."""
    unrolled = float(config["x"]) * float(config["y"])
    return (
        0.1
        * unrolled**1.3
        * (1.5 if config["layout"] == "row" else 1.0)
        * random.Random(str(config)).uniform(0.8, 1.25)
    )


def end_of(search: Search, times: BuildTimes, order: list[Config]) -> float:
    """The second in which all builds of a search are done; `order` receives what was asked for."""
    now, under_way = 0.0, list[tuple[float, int]]()
    while True:
        rest = search.rest(256)
        place = times.late(rest, WORKERS)
        if place is not None:
            search.advance(rest[place])
        config = search.ask()
        if config is None:
            return max(end for end, _ in under_way)
        order.append(config)
        if len(under_way) == WORKERS:
            now, done = heapq.heappop(under_way)
            times.add(order[done], seconds_of(order[done]))
        heapq.heappush(under_way, (now + seconds_of(config), len(order) - 1))


class Unknown(BuildTimes):
    """What is known of no build."""

    def add(self, config: Config, seconds: float) -> None:
        pass


def test_builds_that_would_end_last_begin_early_and_the_search_measures_the_same_configurations() -> None:
    pool = Pool(PARAMETERS, VALID)
    for budget in (Budget(), Budget(evaluations=60)):
        ends, orders = [], []
        for times in (Unknown(), BuildTimes()):
            orders.append(list[Config]())
            with Search("random", pool, budget, seed=3) as search:
                ends.append(end_of(search, times, orders[-1]))
        first, second = orders
        assert first != second
        assert sorted(map(str, first)) == sorted(map(str, second))
        shortest = sum(map(seconds_of, first)) / WORKERS
        assert ends[1] < 1.2 * shortest < ends[0]


def test_a_search_with_a_time_keeps_its_order() -> None:
    with Search("random", Pool(PARAMETERS, VALID), Budget(seconds=60.0)) as search:
        assert search.rest(256) == []
        assert search.likely(1) == [search.ask()]
