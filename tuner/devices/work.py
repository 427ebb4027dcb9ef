"""The work of one launch of a configuration on any device: its arguments, and its actions in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tuner.space.model import Geometry


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
class Run:
    """An action: launch `function` on the arguments at these positions, in the function's order."""

    function: Function
    arguments: tuple[int, ...]


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


@dataclass(frozen=True)
class Work:
    """One launch. An argument is Passed, Encoded, Local, a NumPy scalar, or a memory handle; the actions share them.

    The Passed arguments are in the order of their positions. `scratch` is the memory that the work owns, each with the
    time when it is zeroed: "never", "once" or "each" (before each launch). `keep` holds the owners of other handles.
    """

    arguments: tuple[Any, ...]
    actions: tuple[Run | Copy | Zero, ...]
    scratch: tuple[tuple[Any, str], ...] = ()
    keep: object = None

    @staticmethod
    def of(function: Function, arguments: Sequence[Any]) -> Work:
        """A single run of `function` on all of `arguments`."""
        return Work(tuple(arguments), (Run(function, tuple(range(len(arguments)))),))

    @property
    def kernel(self) -> str:
        """The names of its kernels, for messages."""
        return ", ".join(dict.fromkeys(action.function.kernel for action in self.actions if isinstance(action, Run)))

    def positions(self, kind: type) -> list[int]:
        """The positions of the arguments of a type."""
        return [position for position, argument in enumerate(self.arguments) if isinstance(argument, kind)]

    @property
    def scalars(self) -> list[int]:
        """The positions of the scalars."""
        return self.positions(np.generic)
