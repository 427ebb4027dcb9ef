"""The result of a check, as values."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from tuner.classes import dataclass
from tuner.space.config import Config
from tuner.store.verdicts import Interval

Status = Literal[
    "faster", "slower", "as fast", "undecided", "unchanged", "not compared", "not checked", "wrong", "broken"
]
FAILED: tuple[Status, ...] = ("wrong", "broken")  # whatever the times are


@dataclass(frozen=True)
class Check:
    """What became of one record: `problem` is its size, types and options as text.

    `status`: its best is faster or slower than the earlier one, or as fast, or noise hides which (undecided); its
    machine code is unchanged; there is nothing to compare it with (not compared, only verified); it was not checked; it
    is wrong now; or it is broken, that is, it does not compile, load or end. `reason` says more. `is_loss`: slower by
    more than allowed. `ratio` is the time over the earlier one's, in `rounds` rounds. Times are in ms. `vs_library` is
    the library's time over it.
    """

    kernel: str
    device: str
    problem: str
    status: Status
    reason: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    options: dict[str, float] = field(default_factory=dict)
    config: Config = field(default_factory=dict)
    earlier_config: Config = field(default_factory=dict)
    ratio: Interval | None = None
    time_ms: float | None = None
    earlier_ms: float | None = None
    recorded_ms: float | None = None
    rounds: int = 0
    is_loss: bool = False
    library: str | None = None
    vs_library: float | None = None
    seconds: float = 0.0

    @property
    def has_failed(self) -> bool:
        """Whether it fails the check: a proven loss, a wrong result, or a kernel that does not run."""
        return self.is_loss or self.status in FAILED

    @property
    def was_skipped(self) -> bool:
        """Whether nothing was run for it."""
        return self.status in ("unchanged", "not checked")

    def to_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "ratio": None if self.ratio is None else self.ratio._asdict(),
            "has_failed": self.has_failed,
        }
