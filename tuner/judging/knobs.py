"""The search of a candidate's knobs: random configurations, of which the fastest that is right is judged."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tuner.judging import rounds
from tuner.judging.verdict import Refusal
from tuner.measure import turns

if TYPE_CHECKING:
    from tuner.judging.builder import Builder
    from tuner.judging.entrant import Entrant
    from tuner.judging.problem import DrawnSet, JudgedProblem
    from tuner.space.config import Config
    from tuner.space.scope import Scope

TRIED_RUNS = 3  # of each configuration, of which the first does not count
DRAWS = 100  # of a configuration, for each that a search wants: most spaces have few that are valid


class KnobSearch:
    """Tries configurations of candidates at one problem."""

    def __init__(
        self,
        problem: JudgedProblem,
        drawing: Callable[[], Iterator[DrawnSet]],
        builder: Builder,
        place: str,
        chance: random.Random,
    ) -> None:
        """`drawing` draws sets of inputs that nobody has had, `place` is that of the device, for turns on it."""
        self._problem, self._drawing, self._builder = problem, drawing, builder
        self._place, self._chance = place, chance

    def best(self, entrant: Entrant, count: int, default: Config, scopes: Sequence[Scope]) -> Config:
        """The fastest of `count` configurations that are valid in all `scopes`, the default among them. Raises Refusal
        if none is right."""
        best, fastest, failure = default, math.inf, None
        for config in self._configs(count, default, scopes):
            try:
                time_ms = self._tried(entrant, config)
            except Refusal as refusal:
                failure = failure or refusal
                if entrant.contender is None or not entrant.contender.is_alive():
                    entrant.start()
                continue
            if time_ms < fastest:
                best, fastest = config, time_ms
        entrant.compared.clear()
        if failure is not None and fastest == math.inf:
            raise failure
        return best

    def _tried(self, entrant: Entrant, config: Config) -> float:
        """The shortest time in ms of a configuration that is right."""
        entrant.builds[0] = self._builder.built(entrant.space, config, self._problem.scope)
        entrant.load(0)
        sets, times = self._drawing(), list[float]()
        for _ in range(TRIED_RUNS):
            with turns.taken(self._place):
                times.append(rounds.run(entrant, 0, self._problem, next(sets), "wrong", is_timed=True)[0])
        return min(times[1:])

    def _configs(self, count: int, default: Config, scopes: Sequence[Scope]) -> list[Config]:
        """The default and other configurations, drawn at random."""
        space = self._problem.space
        found, values = [default], space.parameters
        for _ in range(DRAWS * count):
            if len(found) == count:
                break
            config = {name: self._chance.choice(allowed) for name, allowed in values.items()}
            if config not in found and all(space.valid(config, scope) for scope in scopes):
                found.append(config)
        return found
