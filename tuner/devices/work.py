"""The work of one launch of a configuration on any device: its arguments, and its actions in order."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tuner.classes import dataclass
from tuner.errors import LaunchError

if TYPE_CHECKING:
    from tuner.space.schedule import StepLaunch, Unrolled
    from tuner.space.step import Geometry


@dataclass(frozen=True)
class Function:
    """A loaded kernel with its launch geometry. Only the device that loaded it interprets `handle`."""

    handle: Any
    kernel: str
    geometry: Geometry


@dataclass(frozen=True)
class Passed:
    """An argument: the caller's array at `position`."""

    position: int


@dataclass(frozen=True)
class Encoded:
    """An argument: a value of `nbytes` bytes, such as a tensor map, that `encode` makes from the handle of the caller's
    array at `position`."""

    position: int
    nbytes: int
    encode: Callable[[Any], bytes]


@dataclass(frozen=True)
class Local:
    """An argument: local (shared) memory of a block, of `nbytes` bytes."""

    nbytes: int


@dataclass(frozen=True)
class Pointer:
    """A pointer in a struct: the address of the array at position `array`, `offset` bytes after the beginning of the
    struct at position `struct`."""

    struct: int
    offset: int
    array: int


@dataclass(frozen=True)
class Run:
    """An action: launch `function` on the arguments at these positions, in the function's order.

    pointers: those of the structs among the arguments, whose own bytes there have no meaning.
    """

    function: Function
    arguments: tuple[int, ...]
    pointers: tuple[Pointer, ...] = ()


@dataclass(frozen=True)
class Copy:
    """An action: copy `nbytes` bytes from the argument at position `source` to the start of `target`."""

    target: Any
    source: int
    nbytes: int


@dataclass(frozen=True)
class Zero:
    """An action: set the first `nbytes` bytes of `target` to 0."""

    target: Any
    nbytes: int


class Launched(NamedTuple):
    """A launch of a series: the number of its run, its grid, and the scalars and structs that stand for others, by
    position."""

    run: int
    grid: tuple[int, int, int]
    scalars: tuple[tuple[int, np.generic], ...]


@dataclass(frozen=True)
class Series:
    """An action: many launches. `order` has their numbers in `launches`, which has each distinct one once."""

    runs: tuple[Run, ...]
    launches: tuple[Launched, ...]
    order: Sequence[int]

    def changes(self, convert: Callable[[np.generic], Any]) -> list[tuple[int, list[tuple[int, Any]]]]:
        """For each launch, the number of its run, and its scalars: each by its index among the run's arguments, as
        `convert` returns it."""
        places = [
            {position: [i for i, own in enumerate(run.arguments) if own == position] for position in run.arguments}
            for run in self.runs
        ]
        return [
            (each.run, [(i, convert(value)) for position, value in each.scalars for i in places[each.run][position]])
            for each in self.launches
        ]


@dataclass(frozen=True)
class Move:
    """An action: copy `nbytes` bytes from the argument at position `source` to the one at position `target`."""

    target: int
    source: int
    nbytes: int


@dataclass(frozen=True)
class While:
    """An action: passes, before each of which the `nbytes` bytes of the argument at position `flag` are set to 0, until
    one leaves them 0.

    The passes are those of `passes` in turn. An odd number of passes is followed by `moves`. If the flag is not 0 after
    `most` passes, the launch fails. The host reads the flag after each pass, so the action waits for its stream.
    """

    name: str  # of the flag
    flag: int
    nbytes: int
    passes: tuple[Series, ...]
    most: int
    moves: tuple[Move, ...]

    def run(self, start: Callable[[int], bool], move: Callable[[], None]) -> None:
        """Run the passes. `start` runs one by its number in `passes` and says whether the flag is not 0 afterwards;
        `move` runs the moves. Raises LaunchError after too many passes."""
        done = 0
        while start(done % len(self.passes)):
            done += 1
            if done == self.most:
                raise LaunchError(
                    f"`while: {self.name}`: {self.name} is not 0 after {done} passes, and `most:` allows no more; the "
                    "kernels set it for too long, or `most:` is too low"
                )
        if done % 2 == 0:  # the last pass counts, too
            move()


Action = Run | Copy | Zero | Series | Move | While


@dataclass(frozen=True)
class Work:
    """One launch. An argument is Passed, Encoded, Local, a NumPy scalar, or a memory handle; the actions share them.

    The Passed arguments are in the order of their positions. `scratch` is the memory that the work owns, each with the
    time when it is zeroed: "never", "once" or "each" (before each launch). `keep` holds the owners of other handles.
    """

    arguments: tuple[Any, ...]
    actions: tuple[Action, ...]
    scratch: tuple[tuple[Any, str], ...] = ()
    keep: object = None

    @staticmethod
    def of(function: Function, arguments: Sequence[Any]) -> Work:
        """A single run of `function` on all of `arguments`."""
        return Work(tuple(arguments), (Run(function, tuple(range(len(arguments)))),))

    @property
    def kernel(self) -> str:
        """The names of its kernels, for messages."""
        return ", ".join(dict.fromkeys(run.function.kernel for action in self.actions for run in _runs(action)))

    @property
    def launches(self) -> int:
        """How many kernels it launches; those of one or two passes of a `while`."""
        return sum(_launches(action) for action in self.actions)

    @property
    def waits(self) -> bool:
        """Whether a launch waits for its stream, so that no graph can capture it."""
        return any(isinstance(action, While) for action in self.actions)

    def positions(self, kind: type) -> list[int]:
        """The positions of the arguments of a type."""
        return [position for position, argument in enumerate(self.arguments) if isinstance(argument, kind)]

    @property
    def scalars(self) -> list[int]:
        """The positions of the scalars."""
        return self.positions(np.generic)


def _runs(action: Action) -> Sequence[Run]:
    match action:
        case Run():
            return (action,)
        case Series(runs):
            return runs
        case While(passes=passes):
            return [run for series in passes for run in series.runs]
    return ()


def _launches(action: Action) -> int:
    match action:
        case Series(order=order):
            return len(order)
        case While(passes=passes):
            return sum(map(_launches, passes))
    return 1


def scheduled(
    schedule: Unrolled,
    run: Callable[[int, Mapping[str, str]], Run],
    positions: Mapping[str, int],
    nbytes: Callable[[str], int],
) -> list[Action]:
    """The actions of a configuration with loops.

    run: the run of a step, given its number and the arrays that stand for others. positions: those of the arguments.
    nbytes: the size of an array.
    """
    # By step and exchanged arrays, with its number and the launch that it is made for.
    distinct: dict[tuple[int, frozenset[int]], tuple[int, StepLaunch]] = {}
    for launch in schedule.launches:
        distinct.setdefault((launch.step, launch.swapped), (len(distinct), launch))
    runs = tuple(run(launch.step, schedule.arrays(launch)) for _, launch in distinct.values())

    def series(order: Sequence[int]) -> Series:
        used = {number: place for place, number in enumerate(dict.fromkeys(order))}
        launches = tuple(
            Launched(
                distinct[launch.step, launch.swapped][0],
                launch.grid,
                tuple([(positions[name], value) for name, value in launch.scalars]),
            )
            for launch in map(schedule.launches.__getitem__, used)
        )
        return Series(runs, launches, array("I", map(used.__getitem__, order)))

    actions: list[Action] = []
    for stretch in schedule.stretches:
        passes = tuple(map(series, stretch.passes))
        moves = tuple(Move(positions[to], positions[source], nbytes(to)) for to, source in stretch.copies)
        if stretch.flag:
            flag = positions[stretch.flag], nbytes(stretch.flag)
            actions.append(While(stretch.flag, *flag, passes, stretch.most, moves))
        else:
            actions += [*passes, *moves]
    return actions
