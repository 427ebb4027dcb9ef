"""Unrolls the loops of a configuration: every launch in order, with its grid, its scalars and its arrays."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tuner.errors import ExpressionError, SpaceError
from tuner.space import operation, structs
from tuner.space.loops import Loop

if TYPE_CHECKING:
    import numpy as np

    from tuner.space.argument import Argument
    from tuner.space.model import Space
    from tuner.space.scope import Scope

MOST_LAUNCHES = 100_000


@dataclass(frozen=True, slots=True)
class StepLaunch:
    """One or more equal launches.

    step: the number of the step.
    grid: blocks (x, y, z).
    scalars: the values of the scalars that read loop variables, by name.
    swapped: the pairs of arrays that are exchanged, by their positions in `Unrolled.pairs`.
    """

    step: int
    grid: tuple[int, int, int]
    scalars: tuple[tuple[str, np.generic], ...]
    swapped: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Stretch:
    """Launches in order, as numbers in `Unrolled.launches`, and what follows them.

    passes: the launches; for a `while` that exchanges arrays, those of every first and of every second pass.
    flag, most: as in `Loop`; a stretch without a flag runs once.
    copies: the arrays that are copied at the end, each as (to, from); of a `while`, after an odd number of passes.
    """

    passes: tuple[array[int], ...]
    flag: str = ""
    most: int = 1
    copies: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Unrolled:
    """All launches of a configuration. `launches` has each distinct one once; `stretches` has their order."""

    pairs: tuple[tuple[str, str], ...]
    launches: tuple[StepLaunch, ...]
    stretches: tuple[Stretch, ...]

    def arrays(self, launch: StepLaunch) -> Mapping[str, str]:
        """The array that stands for each exchanged one in a launch."""
        pairs = [self.pairs[number] for number in launch.swapped]
        return {name: other for a, b in pairs for name, other in ((a, b), (b, a))}

    @property
    def trial(self) -> Unrolled:
        """One block of each step, with the scalars of its first launch."""
        firsts: dict[int, StepLaunch] = {}
        for launch in self.launches:
            firsts.setdefault(launch.step, StepLaunch(launch.step, (1, 1, 1), launch.scalars))
        return Unrolled((), tuple(firsts.values()), (Stretch((array("I", range(len(firsts))),)),))


def unrolled(space: Space, names: MutableMapping[str, Any], scope: Scope) -> Unrolled:
    """The launches of a configuration.

    names: the value of every name; loop variables are written to it. Raises ExpressionError if a value cannot be
    computed, if a grid has an extent below 1, or if there are no launches, or too many.
    """
    return _Unrolling(space, names, scope).schedule()


@dataclass
class _Unrolling:
    space: Space
    names: MutableMapping[str, Any]
    scope: Scope
    launches: list[StepLaunch] = field(default_factory=list)
    count: int = 0

    def schedule(self) -> Unrolled:
        self.pairs = tuple(dict.fromkeys(pair for loop in self.space.loops for pair in loop.swap))
        self._cached: dict[tuple[object, ...], int | None] = {}  # by what a step's launch depends on
        self._numbers: dict[tuple[object, ...], int] = {}  # of equal launches
        self._reads = [self._read(number) for number in range(len(self.space.steps))]
        reached = {a.name: a.reaches for a in self.space.operation.arguments}
        self._arrays = [{*s.arguments, *(r for n in s.arguments for r in reached[n])} for s in self.space.steps]
        self._grids: dict[int, tuple[int, int, int]] = {}  # of the steps whose grid reads no loop variable
        stretches = tuple(self._stretches())
        if not self.launches:
            raise ExpressionError("`steps`: no step is launched; at least one launch is needed")
        return Unrolled(self.pairs, tuple(self.launches), stretches)

    def _read(self, number: int) -> tuple[list[Argument], list[str]]:
        """The scalars of a step that read loop variables, and the variables that its launch depends on."""
        step, loop_names = self.space.steps[number], self.space.loop_names
        scalars = [a for a in self.space.operation.looped if a.name in step.arguments]
        values = [expression for a in scalars for expression in structs.expressions(a)]
        expressions = [*step.grid, *values, *([step.when] if step.when else [])]
        return scalars, sorted({name for each in expressions for name in each.names} & loop_names)

    def _stretches(self) -> Iterator[Stretch]:
        plain = array("I")
        for part in self.space.order:
            if isinstance(part, Loop) and part.flag:
                if plain:
                    yield Stretch((plain,))
                    plain = array("I")
                yield self._while(part)
                continue
            after = self._run((part,), frozenset(), plain)
            if after:
                yield Stretch((plain,), copies=tuple(self.pairs[number] for number in sorted(after)))
                plain = array("I")
        if plain:
            yield Stretch((plain,))

    def _while(self, loop: Loop) -> Stretch:
        first = array("I")
        changed = self._run(loop.body, frozenset(), first) ^ self._own(loop)
        if not first:
            raise ExpressionError(f"`while: {loop.flag}`: no step of it is launched; at least one is needed")
        if not changed:
            return Stretch((first,), loop.flag, loop.most)
        second = array("I")
        self._run(loop.body, changed, second)
        copies = tuple(self.pairs[number] for number in sorted(changed))
        return Stretch((first, second), loop.flag, loop.most, copies)

    def _run(self, parts: Sequence[int | Loop], swapped: frozenset[int], into: array[int]) -> frozenset[int]:
        """Append the launches of steps and `repeat` loops. Returns which pairs are exchanged afterwards."""
        for part in parts:
            if isinstance(part, int):
                if (number := self._launch(part, swapped)) is not None:
                    self._add(number, into)
            else:
                own = self._own(part)
                for _ in self._passes(part, 0):
                    swapped = self._run(part.body, swapped, into) ^ own
        return swapped

    def _add(self, number: int, into: array[int]) -> None:
        into.append(number)
        self.count += 1
        if self.count > MOST_LAUNCHES:
            raise ExpressionError(
                f"`steps`: more than {MOST_LAUNCHES:,} launches, which is the most; repeat less often"
            )

    def _own(self, loop: Loop) -> frozenset[int]:
        return frozenset(self.pairs.index(pair) for pair in loop.swap)

    def _passes(self, loop: Loop, depth: int) -> Iterator[None]:
        """Each pass of a loop, with the values of its variables in `names`."""
        if depth == len(loop.variables):
            yield
            return
        name, values = loop.variables[depth]
        for value in values.at(self.names):
            if name:
                self.names[name] = value
            yield from self._passes(loop, depth + 1)

    def _launch(self, number: int, swapped: frozenset[int]) -> int | None:
        """The number of a step's launch in `launches`; None if the step is skipped."""
        key = (number, swapped, *(self.names[name] for name in self._reads[number][1]))
        if key not in self._cached:
            try:
                self._cached[key] = self._new(number, swapped)
            except SpaceError as error:
                raise ExpressionError(f"{error}{self._place(number)}") from None
        return self._cached[key]

    def _new(self, number: int, swapped: frozenset[int]) -> int | None:
        step = self.space.steps[number]
        if step.when is not None and not step.when.evaluate(self.names):
            return None
        grid = self._grids.get(number) or step.blocks(self.names)
        if number not in self._grids and not any(extent.names & self.space.loop_names for extent in step.grid):
            self._grids[number] = grid
        scalars = [(a.name, operation.passed(a, self.names, self.scope)) for a in self._reads[number][0]]
        mine = frozenset(each for each in swapped if {*self.pairs[each]} & self._arrays[number])
        key = (number, grid, mine, *(value.tobytes() for _, value in scalars))  # bytes tell 0.0 from -0.0
        if key not in self._numbers:
            self._numbers[key] = len(self.launches)
            self.launches.append(StepLaunch(number, grid, tuple(scalars), mine))
        return self._numbers[key]

    def _place(self, number: int) -> str:
        """The values of the loop variables that a launch depends on, for a message."""
        values = ", ".join(f"{name}={self.names[name]}" for name in self._reads[number][1])
        return f", at {values}" if values else ""
