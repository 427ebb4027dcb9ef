"""What one launch of a configuration does: its arguments, and its actions one after the other, for any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tuner.space.model import Geometry


@dataclass(frozen=True)
class Function:
    """A loaded kernel. Only the device that loaded it reads `handle`."""

    handle: Any
    kernel: str
    geometry: Geometry


@dataclass(frozen=True)
class Passed:
    """The caller's array at this position."""

    position: int


@dataclass(frozen=True)
class Encoded:
    """A value of `nbytes` that stands for the caller's array at `position`: `encode` makes it of the array's handle."""

    position: int
    nbytes: int
    encode: Callable[[Any], bytes]


@dataclass(frozen=True)
class Local:
    """Memory of a block, in bytes, which a kernel takes as an argument."""

    nbytes: int


@dataclass(frozen=True)
class Run:
    """Launch a function on the arguments at these positions, in its order."""

    function: Function
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """Copy `nbytes` of the argument at position `source` to the start of `target`."""

    target: Any
    source: int
    nbytes: int


@dataclass(frozen=True)
class Zero:
    """Set the first `nbytes` of `target` to 0."""

    target: Any
    nbytes: int


@dataclass(frozen=True)
class Work:
    """One launch. An argument is Passed, Encoded, Local, a NumPy scalar, or the handle of memory; actions share them.

    Those that are passed stand in the order of their positions. `scratch` is memory of its own, each with when it is
    zeroed: never, once or each. `keep` is what other handles belong to.
    """

    arguments: tuple[Any, ...]
    actions: tuple[Run | Copy | Zero, ...]
    scratch: tuple[tuple[Any, str], ...] = ()
    keep: object = None

    @staticmethod
    def of(function: Function, arguments: Sequence[Any]) -> Work:
        """One run of a function on all of these arguments."""
        return Work(tuple(arguments), (Run(function, tuple(range(len(arguments)))),))

    @property
    def kernel(self) -> str:
        """The names of its kernels, for people."""
        return ", ".join(dict.fromkeys(action.function.kernel for action in self.actions if isinstance(action, Run)))

    def positions(self, kind: type) -> list[int]:
        """Where the arguments of a type stand."""
        return [position for position, argument in enumerate(self.arguments) if isinstance(argument, kind)]

    @property
    def scalars(self) -> list[int]:
        """Where the scalars stand."""
        return self.positions(np.generic)
