"""The progress of a run: the events that whoever shows it receives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tuner.classes import dataclass
from tuner.devices import DeviceInfo
from tuner.devices.ceilings import Ceilings
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.tuning.ledger.trial import Trial


@dataclass(frozen=True)
class SearchStart:
    """The state at the start of a search, for display.

    `valid` counts the valid configurations, and `total` those that the budget allows. `known` are the trials of valid
    configurations from earlier runs. `seconds` is the budget if it is a time, and `left` what is left of it.
    """

    space: Space
    device: DeviceInfo
    scope: Scope
    total: int
    valid: int
    known: Sequence[Trial]
    ceilings: Ceilings | None
    seconds: float | None = None
    left: float | None = None


class Progress(Protocol):
    """Receives the events of a tuning run: with each trial, the number of trials so far and the best one."""

    def begun(self, step: str) -> None: ...

    def started(self, start: SearchStart) -> None: ...

    def measured(self, trial: Trial, done: int, best: Trial | None) -> None: ...

    def finals(self, count: int) -> None: ...

    def noted(self, text: str) -> None: ...


class Quiet:
    """A `Progress` that shows no search; messages for the user go to `noted`."""

    def __init__(self, noted: Callable[[str], None]) -> None:
        self.noted = noted

    def begun(self, step: str) -> None:
        """Do nothing."""

    def started(self, start: SearchStart) -> None:
        """Do nothing."""

    def measured(self, *trial: Any) -> None:
        """Do nothing."""

    def finals(self, count: int) -> None:
        """Do nothing."""
