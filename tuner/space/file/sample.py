"""Chooses the configurations that an evaluation tries: all of a small space, else a random sample."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.errors import ExpressionError
from tuner.space.config import Config, Value
from tuner.space.default import checks_by_depth
from tuner.space.instance import Instance
from tuner.space.model import Restriction, Space
from tuner.space.scope import Scope

MOST_CONFIGURATIONS = 1000  # a larger space is sampled
SIZE = 300  # configurations of a sample, over all languages
MOST_EVALUATIONS = 100_000  # of restrictions, at a few microseconds each


def instances(space: Space, scope: Scope, size: int) -> Iterator[Instance]:
    """Configurations that violate no restriction: all of a small space, else the default and a random sample of at most
    `size`."""
    if takes_all(space):
        yield from _unbroken(space, space.walk(), scope)
        return
    if space.default:
        yield from _unbroken(space, [dict(space.default)], scope)
    checks = [[_Check(space, scope, restriction) for restriction in each] for each in checks_by_depth(space)]
    draw = random.Random(0)  # noqa: S311
    for number in range(size):
        descent = _Descent(space, checks, draw, MOST_EVALUATIONS // SIZE, odd_first=bool(number % 2))
        if (found := descent.extend({})) is not None:
            yield Instance(space, found, scope)


def takes_all(space: Space) -> bool:
    """Whether the space is small enough to try all of its configurations."""
    combinations = math.prod(len(values) for values in space.parameters.values())
    return combinations <= min(MOST_CONFIGURATIONS, MOST_EVALUATIONS // (1 + len(space.restrictions)))


def _unbroken(space: Space, configs: Iterable[Config], scope: Scope) -> Iterator[Instance]:
    """The instances of those `configs` that violate no restriction."""
    for config in configs:
        instance = Instance(space, config, scope)
        if not _any_broken(space.restrictions, instance.names):
            yield instance


def _any_broken(restrictions: Sequence[Restriction], names: Mapping[str, Any]) -> bool:
    """Whether one of `restrictions` is false. A restriction without a value counts as true."""
    for restriction in restrictions:
        try:
            if not restriction.that.evaluate(names):
                return True
        except ExpressionError:
            continue
    return False


class _Check:
    """A restriction with a cache of its results, since descents evaluate it for the same few values repeatedly."""

    def __init__(self, space: Space, scope: Scope, restriction: Restriction) -> None:
        self._space, self._scope, self._restrictions = space, scope, [restriction]
        self._parameters = space.parameters_behind(restriction.that.names)
        self._broken: dict[tuple[Value, ...], bool] = {}

    def is_broken_by(self, config: Config) -> bool:
        """Whether the restriction is false. A restriction without a value counts as true."""
        values = tuple([config[name] for name in self._parameters])
        broken = self._broken.get(values)
        if broken is None:
            broken = _any_broken(self._restrictions, self._space.names(config, self._scope))
            self._broken[values] = broken
        return broken


@dataclass
class _Descent:
    """A random depth-first search for one configuration. It gives up after `evaluations` of restrictions.

    odd_first: try 0, False and negative values first, since they most often make divisions fail.
    """

    space: Space
    checks: list[list[_Check]]
    draw: random.Random
    evaluations: int
    odd_first: bool

    def extend(self, config: Config) -> Config | None:
        """A full configuration that extends the partial `config`; None if none was found."""
        depth = len(config)
        if depth == len(self.space.parameters):
            return config
        name = list(self.space.parameters)[depth]
        values = self.draw.sample(self.space.parameters[name], len(self.space.parameters[name]))
        if self.odd_first:
            values.sort(key=lambda value: not isinstance(value, str) and value > 0)
        for value in values:
            candidate = {**config, name: value}
            self.evaluations -= 1 + len(self.checks[depth])
            if self.evaluations < 0:
                return None
            if not any(check.is_broken_by(candidate) for check in self.checks[depth]):
                found = self.extend(candidate)
                if found is not None:
                    return found
        return None
