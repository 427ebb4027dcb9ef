"""A valid configuration without a search, or why there is none. A launch asks for it, so it imports no solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.errors import ExpressionError, NoConfiguration
from tuner.space.model import Config, Restriction, Scope, Space, size_text


def first_valid(space: Space, scope: Scope) -> Config:
    """The default where it is valid at this size and device, else the first declared combination that is.

    Raises NoConfiguration, naming the restrictions that the default breaks, where there is none.
    """
    if space.default and space.valid(space.default, scope):
        return dict(space.default)
    found = _extended(space, {}, scope, _checks(space))
    if found is None:
        raise no_configuration(space, scope)
    return found


def no_configuration(space: Space, scope: Scope) -> NoConfiguration:
    """The error for a size that leaves nothing, naming the restrictions at fault as far as that can be told."""
    parameters = set(space.parameters) | set(space.derived)
    fixed = [r for r in space.restrictions if not r.that.names & parameters and not _holds(r, scope.names)]
    config = dict(space.default) or next(space.walk(), {})
    names = space.names(config, scope)
    blamed = fixed or [r for r in space.restrictions if not _holds(r, names)]
    why = "; ".join(str(r) for r in blamed) or "the restrictions exclude one another"
    return NoConfiguration(
        f"{space.name}: no configuration is valid at {size_text(scope.sizes)}: {why}; try another size or device"
    )


def _checks(space: Space) -> list[list[Restriction]]:
    """For each parameter, the restrictions that can be evaluated once it and those before it have a value."""
    order = list(space.parameters)
    checks: list[list[Restriction]] = [[] for _ in order]
    for restriction in space.restrictions:
        needed, queue = set(), list(restriction.that.names)
        while queue:
            name = queue.pop()
            if name in space.derived:
                queue += space.derived[name].names
            elif name in space.parameters:
                needed.add(order.index(name))
        checks[max(needed, default=0)].append(restriction)
    return checks


def _extended(space: Space, config: Config, scope: Scope, checks: list[list[Restriction]]) -> Config | None:
    """The first valid configuration that begins with `config`: depth first, turning back where one is broken."""
    depth = len(config)
    if depth == len(space.parameters):
        return config
    name = list(space.parameters)[depth]
    for value in space.parameters[name]:
        extended = {**config, name: value}
        names = space.names(extended, scope)
        if all(_holds(restriction, names) for restriction in checks[depth]):
            found = _extended(space, extended, scope, checks)
            if found is not None:
                return found
    return None


def _holds(restriction: Restriction, names: Mapping[str, Any]) -> bool:
    try:
        return bool(restriction.that.evaluate(names))
    except ExpressionError:
        return False
