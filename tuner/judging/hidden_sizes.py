"""Sizes that candidates are not told, near those that they may know."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tuner.errors import SpaceError
from tuner.space import operation
from tuner.space.instance import nominal

if TYPE_CHECKING:
    from tuner.space.model import Space
    from tuner.space.scope import Scope


def drawn(
    space: Space, scope: Scope, config: Mapping[str, Any], count: int, chance: random.Random
) -> list[dict[str, int]]:
    """Sizes near those of `scope` at which a configuration is valid, drawn by `chance`; fewer if few are valid."""
    found = list[dict[str, int]]()
    for attempt in range(400 * count):
        if len(found) == count:
            break
        step = 1 << min(9, attempt // (20 * count))  # restrictions may ask for multiples
        is_odd = not found and attempt < 10 * count  # one at least, where odd sizes are valid
        sizes = {name: _near(value, step, chance, is_odd) for name, value in scope.sizes.items()}
        if sizes != dict(scope.sizes) and sizes not in found and _is_launchable(space, scope, config, sizes):
            found.append(sizes)
    return found


def _near(value: int, step: int, chance: random.Random, is_odd: bool) -> int:
    if value == 1:
        return chance.choice((1, 1, 2, 3))
    near = value * math.exp(chance.uniform(math.log(0.5), math.log(1.2)))
    return max(step, round(near / step) * step) | is_odd


def _is_launchable(space: Space, scope: Scope, config: Mapping[str, Any], sizes: dict[str, int]) -> bool:
    op = space.operation
    try:
        other = op.scope(sizes, dict(scope.options), scope.language, scope.limits, dict(scope.types))
        if not space.valid(config, other):
            return False
        for step in space.steps:
            step.geometry(space.names(config, other))
        if op.leading:
            operation.padded(op, nominal(space, other), space.alignment)
        return all(operation.nbytes(a, nominal(space, other)) > 0 for a in op.arrays)
    except SpaceError:
        return False
