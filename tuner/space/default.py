"""The first valid configuration, or the reason why none is valid.

A launch needs it, so this module imports no solver.
"""

from collections.abc import Mapping
from typing import Any

from tuner.errors import ExpressionError, NoConfiguration
from tuner.quoting import shown
from tuner.space.config import Config
from tuner.space.model import Restriction, Space
from tuner.space.scope import Scope
from tuner.space.texts import size_text


def first_valid(space: Space, scope: Scope) -> Config:
    """The default if it is valid at this size on this device, else the first valid combination in declared order.

    Raises NoConfiguration, which names the restrictions at fault, if no combination is valid, or if none can be
    launched at this size.
    """
    check_launchable(space, scope)
    if space.default and space.valid(space.default, scope):
        return dict(space.default)
    config = _extend(space, {}, scope, checks_by_depth(space))
    if config is None:
        raise no_configuration(space, scope)
    return config


def is_any_valid(space: Space, scope: Scope) -> bool:
    """Whether any configuration is valid at this size on this device."""
    try:
        first_valid(space, scope)
    except NoConfiguration:
        return False
    return True


def declared_or_first(space: Space, scope: Scope) -> Config:
    """The configuration that speedups are relative to: the default, valid or not, or else the first valid one.

    Raises NoConfiguration if the space has neither.
    """
    return dict(space.default) or first_valid(space, scope)


def invalid_default(space: Space, scope: Scope) -> str | None:
    """A message if the space has a default that is not valid at this size on this device."""
    if not space.default:
        return None
    names = space.names(space.default, scope)
    broken = next((restriction for restriction in space.restrictions if not restriction.holds(names)), None)
    if broken is None:
        return None
    return (
        f"{space.origin}: default: it is not valid at {size_text(scope.sizes)}: {_described(broken, names)}; so "
        "nothing is compared with it; write values that are valid"
    )


def no_configuration(space: Space, scope: Scope) -> NoConfiguration:
    """The error for a size without a valid configuration. It names the restrictions at fault, if they are known."""
    unsatisfiable = excluding_all(space, scope)
    config = dict(space.default) or next(space.walk(), {})
    names = space.names(config, scope)
    culprits = unsatisfiable or [r for r in space.restrictions if not r.holds(names)]
    why = "; ".join(_described(r, names) for r in culprits) or "the restrictions exclude one another"
    return NoConfiguration(
        f"{space.name}: no configuration is valid at {size_text(scope.sizes)}: {why}; try another size or device"
    )


def _described(restriction: Restriction, names: Mapping[str, Any]) -> str:
    """The restriction, and why it has no value if it has none: nobody meant to exclude a configuration by that."""
    try:
        restriction.that.evaluate(names)
    except ExpressionError as error:
        reason = str(error).removeprefix(f"`{shown(restriction.that.text)}`: ")  # the restriction already names itself
        return f"{restriction}: {reason}"
    return str(restriction)


def check_launchable(space: Space, scope: Scope) -> None:
    """Raise NoConfiguration if this size leaves no launch possible, whatever the configuration."""
    if (fault := space.unlaunchable(scope)) is not None:
        raise NoConfiguration(
            f"{space.name}: no configuration can be launched at {size_text(scope.sizes)}: {fault}; try another size, "
            "or correct the expression"
        )


def excluding_all(space: Space, scope: Scope) -> list[Restriction]:
    """The restrictions that fail for every configuration at this size on this device: they read no parameter."""
    parameters = set(space.parameters) | set(space.derived)
    return [r for r in space.restrictions if not r.that.names & parameters and not r.holds(scope.names)]


def checks_by_depth(space: Space) -> list[list[Restriction]]:
    """For each parameter, the restrictions that can be evaluated once it and all parameters before it have values."""
    order = list(space.parameters)
    checks: list[list[Restriction]] = [[] for _ in order]
    for restriction in space.restrictions:
        positions = [order.index(name) for name in space.parameters_behind(restriction.that.names)]
        checks[max(positions, default=0)].append(restriction)
    return checks


def _extend(space: Space, config: Config, scope: Scope, checks: list[list[Restriction]]) -> Config | None:
    """The first valid configuration that begins with `config`, by depth-first search with backtracking."""
    depth = len(config)
    if depth == len(space.parameters):
        return config
    name = list(space.parameters)[depth]
    for value in space.parameters[name]:
        candidate = {**config, name: value}
        names = space.names(candidate, scope)
        if all(restriction.holds(names) for restriction in checks[depth]):
            valid = _extend(space, candidate, scope, checks)
            if valid is not None:
                return valid
    return None
