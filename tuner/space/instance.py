"""Instances: one configuration of a space for one problem, which is rendered, built and launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuner.classes import cached_property, dataclass
from tuner.errors import ExpressionError, SpaceError
from tuner.quoting import quoted, shown
from tuner.space import operation, structs
from tuner.space.argument import Argument
from tuner.space.config import Config, Value, contains
from tuner.space.default import check_launchable, first_valid
from tuner.space.model import Restriction, Space
from tuner.space.scope import Scope
from tuner.space.step import Geometry
from tuner.space.texts import size_text

if TYPE_CHECKING:
    from tuner.space.schedule import Unrolled

DIVISOR = 16  # of an address or an integer that a kernel in a Python file may be compiled for


@dataclass(frozen=True)
class Instance:
    """One configuration of a space for one `problem`.

    Each property is computed once, when it is first read. The build, the verification and the launches share one
    Instance. A property that cannot be computed for this configuration raises SpaceError, as a rule its
    subclass ExpressionError.

    unaligned: of a kernel in a Python file, the caller's arrays that need not begin at multiples of 16 bytes.
    """

    space: Space
    config: Config
    problem: Scope  # does not include the configuration
    unaligned: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "problem", self.space.operation.own(self.problem))  # kernels of a family share a scope

    @cached_property
    def names(self) -> Mapping[str, Any]:
        """The value of every name that an expression of the space may use.

        A derived value is computed when it is first read, which may raise ExpressionError.
        """
        return self.space.names(self.config, self.problem)

    @cached_property
    def scope(self) -> Scope:
        """The problem, including the values of parameters and derived values. Raises ExpressionError."""
        derived = {name: self.names[name] for name in self.space.derived}
        return replace(self.problem, config={**self.config, **derived})

    @cached_property
    def geometries(self) -> tuple[Geometry, ...]:
        """The geometry of each step, with its largest grid.

        Raises ExpressionError if one cannot be computed, has an extent below 1, or has negative shared memory.
        """
        if (schedule := self.schedule) is None:
            return tuple(step.geometry(self.names) for step in self.space.steps)
        grids: dict[int, tuple[int, int, int]] = {}
        for launch in schedule.launches:
            x, y, z = map(max, grids.get(launch.step, (1, 1, 1)), launch.grid)
            grids[launch.step] = x, y, z
        skipped = Geometry((1, 1, 1), (1, 1, 1), 0)
        return tuple(
            step.geometry(self.names, grids[number]) if number in grids else skipped
            for number, step in enumerate(self.space.steps)
        )

    @cached_property
    def schedule(self) -> Unrolled | None:
        """All launches in order; None if each step is launched once. Raises ExpressionError."""
        if not self.space.order:
            return None
        from tuner.space import schedule  # imported only for loops

        return schedule.unrolled(self.space, self.space.names(self.config, self.problem), self.scope)

    @cached_property
    def launched(self) -> frozenset[int]:
        """The numbers of the steps that are launched. Raises ExpressionError."""
        if (schedule := self.schedule) is None:
            return frozenset(range(len(self.space.steps)))
        return frozenset(launch.step for launch in schedule.launches)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array that the caller passes, by name. Raises SpaceError for an extent below 1."""
        return {a.name: operation.shape(a, self.scope) for a in self.space.operation.arrays}

    def argument(self, name: str) -> Argument:
        """The argument of this name."""
        return next(a for a in self.space.operation.arguments if a.name == name)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array argument, in elements. Raises SpaceError for an extent below 1."""
        return operation.shape(self.argument(name), self.scope)

    def pointers(self, name: str) -> list[tuple[int, str]]:
        """The pointers of a struct: each its offset in bytes, and the array that it points to."""
        return structs.pointers(self.argument(name), self.problem.language, self.problem.types)

    def alignment_of(self, name: str) -> int:
        """The required alignment of the caller's array `name`, in bytes, apart from its element size."""
        is_assumed = self.space.python_language is not None and name not in self.unaligned
        return max(self.space.alignment_of(name), DIVISOR if is_assumed else 1)

    def nbytes(self, name: str) -> int:
        """The size of an array argument, in bytes. Raises SpaceError for an extent below 1."""
        return operation.nbytes(self.argument(name), self.scope)

    @cached_property
    def broken(self) -> Restriction | None:
        """The first restriction that the configuration breaks, or None.

        A broken restriction is returned even if an earlier one cannot be evaluated (for example, because it divides by
        zero). Raises ExpressionError if one cannot be evaluated and none is broken.
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
    """The Instance of a configuration that a user or a file gave.

    Raises SpaceError if it is not valid, and NoConfiguration if this size leaves no launch possible.
    """
    check_launchable(space, problem)
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
    """The scope in which to evaluate the shapes and types of the caller's arrays.

    This is `problem`, or, if shapes or types depend on the configuration, `problem` with the first valid configuration.
    Raises NoConfiguration if a configuration is needed and none is valid.
    """
    if not space.varying & {argument.name for argument in space.operation.arrays}:
        return problem
    return Instance(space, first_valid(space, problem), problem).scope
