"""An instance: one configuration of a space for a problem on a device. It is what gets rendered, built and launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tuner.errors import ExpressionError, SpaceError
from tuner.lockless import cached_property
from tuner.quoting import quoted, shown
from tuner.space import operation
from tuner.space.config import Config, Value, contains
from tuner.space.default import first_valid
from tuner.space.model import Geometry, Restriction, Space
from tuner.space.scope import Scope
from tuner.space.texts import size_text


@dataclass(frozen=True)
class Instance:
    """One configuration of a space, for the `problem` that it runs on.

    Everything that follows from the three is computed when it is first read, and once: a build, its check and its
    launches share one Instance. A value that a configuration does not have raises ExpressionError.
    """

    space: Space
    config: Config
    problem: Scope  # without the configuration

    @cached_property
    def names(self) -> Mapping[str, Any]:
        """The value of every name that an expression of the space may use. A derived value is computed when it is
        first read, which may raise ExpressionError."""
        return self.space.names(self.config, self.problem)

    @cached_property
    def scope(self) -> Scope:
        """The problem, with the values of parameters and derived values. Raises ExpressionError."""
        derived = {name: self.names[name] for name in self.space.derived}
        return replace(self.problem, config={**self.config, **derived})

    @cached_property
    def geometries(self) -> tuple[Geometry, ...]:
        """The geometry of each step. Raises ExpressionError unless all can be launched."""
        return tuple(step.geometry(self.names) for step in self.space.steps)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array that the caller passes, by name. Raises SpaceError for an extent below 1."""
        return {a.name: operation.shape(a, self.scope) for a in self.space.operation.arrays}

    @property
    def broken(self) -> Restriction | None:
        """The first restriction that the configuration breaks, or None.

        Raises ExpressionError if a restriction cannot be evaluated (a division by zero) and no other one is broken.
        Their order does not matter.
        """
        undecided: ExpressionError | None = None
        for restriction in self.space.restrictions:
            try:
                if not restriction.that.evaluate(self.names):
                    return restriction
            except ExpressionError as error:
                undecided = undecided or error
        if undecided is not None:
            raise undecided
        return None


def checked(space: Space, config: Mapping[str, Value], problem: Scope) -> Instance:
    """The Instance of a configuration that somebody gave. Raises SpaceError, which says what is wrong, unless the
    configuration is valid."""
    for name, values in space.parameters.items():
        if name not in config:
            raise SpaceError(f"{space.name}: the configuration lacks {name}; allowed: {shown(list(values))}")
        if not contains(values, config[name]):
            raise SpaceError(f"{space.name}: {name} = {quoted(config[name])}; allowed: {shown(list(values))}")
    for name in config:
        if name not in space.parameters:
            known = shown(", ".join(space.parameters))
            raise SpaceError(f"{space.name}: no parameter {quoted(name)}; there are: {known}")
    instance = Instance(space, dict(config), problem)
    if (restriction := instance.broken) is not None:
        raise SpaceError(f"{space.name}: the configuration breaks {restriction} at {size_text(problem.sizes)}")
    return instance


def nominal(space: Space, problem: Scope) -> Scope:
    """`problem` for what is asked without a configuration: with the first valid one where the shape of an array that
    the caller passes depends on it. Raises NoConfiguration."""
    if not space.varying & {argument.name for argument in space.operation.arrays}:
        return problem
    return Instance(space, first_valid(space, problem), problem).scope
