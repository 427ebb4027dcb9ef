"""Where kernels run that may change the process which launches them: in that process, or each in one of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Kept(Protocol):
    """An object that may be in another process."""

    def ask(self, method: str, *arguments: Any) -> Any:
        """The result of a method of the object. Raises what the method raises."""
        ...

    def close(self) -> None:
        """Let the object go."""
        ...


class Isolation(Protocol):
    """Runs work that launches kernels or calls other foreign code."""

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`. Raises what `work` raises."""
        ...

    def keep(self, make: Callable[[], object]) -> Kept:
        """The object that `make` returns. Raises what `make` raises."""
        ...


class NoIsolation:
    """Runs everything in this process."""

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`."""
        return work()

    def keep(self, make: Callable[[], object]) -> Kept:
        """The object that `make` returns, in this process."""
        return _Here(make())


class _Here:
    def __init__(self, held: object) -> None:
        self._held = held

    def ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self._held, method)(*arguments)

    def close(self) -> None:
        self._held = None
