"""Statistics of restrictions: the share of all combinations of values that each one removes."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from tuner.classes import dataclass

if TYPE_CHECKING:
    from tuner.space.config import Value
    from tuner.space.model import Restriction, Space
    from tuner.space.scope import Scope

MOST_COMBINATIONS = 10_000  # up to this number, all combinations are evaluated
SAMPLE = 4_000  # beyond it, this number of random combinations is evaluated


@dataclass(frozen=True)
class Removal:
    """The share of all combinations (0 to 1) that one restriction removes, and the share that only it removes."""

    restriction: Restriction
    share: float
    alone: float


@dataclass(frozen=True)
class Removals:
    """The removals of all restrictions, the largest share first.

    combinations: number of combinations of all values.
    valid: the share of valid ones, 0 to 1.
    examined: number of combinations that were evaluated.
    known: number of valid combinations; None if they were not counted.
    """

    rows: list[Removal]
    combinations: int
    valid: float
    examined: int
    known: int | None = None

    def margin(self, share: float) -> float:
        """The half-width of the 95 % confidence interval of a share among the examined combinations; 0 if all were
        examined. Uses the normal approximation of the binomial distribution."""
        return 0.0 if self.examined == self.combinations else 1.96 * math.sqrt(share * (1 - share) / self.examined)


def removals(space: Space, scope: Scope, counted: int | None = None) -> Removals:
    """The removals of each restriction for the problem of `scope`. A restriction that fails to evaluate, as in a
    division by zero, removes a combination. `counted` is the number of valid combinations, if known."""
    combinations = math.prod(len(values) for values in space.parameters.values())
    draw = random.Random(0)  # noqa: S311
    is_exhaustive = combinations <= MOST_COMBINATIONS
    configs = list(space.walk()) if is_exhaustive else [_random_config(space, draw) for _ in range(SAMPLE)]
    removed = [0] * len(space.restrictions)
    alone = [0] * len(space.restrictions)
    valid = 0
    for config in configs:
        names = space.names(config, scope)
        broken = [i for i, restriction in enumerate(space.restrictions) if not restriction.holds(names)]
        valid += not broken
        for position in broken:
            removed[position] += 1
        if len(broken) == 1:
            alone[broken[0]] += 1
    count = len(configs)
    known = valid if is_exhaustive else counted
    valid_share = valid / count if known is None else known / combinations
    rows = [Removal(r, n / count, a / count) for r, n, a in zip(space.restrictions, removed, alone, strict=True)]
    return Removals(sorted(rows, key=lambda row: -row.share), combinations, valid_share, count, known)


def _random_config(space: Space, draw: random.Random) -> dict[str, Value]:
    return {name: draw.choice(values) for name, values in space.parameters.items()}
