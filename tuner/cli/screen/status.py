"""Track the progress of a search, and format it as one line for a pipe or as a block for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tuner.cli.screen.live_block import Line
from tuner.cli.screen.sparkline import BLOCKS, PLAIN, sparkline
from tuner.cli.terminal import cells
from tuner.space.config import ConfigKey, config_key
from tuner.space.texts import config_text

if TYPE_CHECKING:
    from tuner.tuning.ledger.trial import Trial

LONGEST_BAR = 40  # columns
FEW = 5  # new trials before the time left is estimated: the first ones include the start-up
SILENT_SECONDS = 20.0  # without a new trial, after which the rate so far says nothing about the time left
WAITING_FOR_FIRST = "preparing inputs, answers and the first build"  # until the first trial has finished
_BAR, _PLAIN_BAR = ("━", "╌"), ("#", "-")  # characters for done and to do


@dataclass
class SearchStatus:
    """The progress of a search.

    rates: formats the rates that a time in ms amounts to, each with its share of a ceiling or of the vendor library.
    total: the number of configurations that the search may propose, of the `valid` ones.
    limit: the seconds that the search may take; None if it has no time limit.
    unproposed: configurations that earlier runs have measured, and that the search has not proposed yet.
    """

    rates: Callable[[float], list[str]]
    total: int
    valid: int
    unproposed: set[ConfigKey] = field(default_factory=set)
    limit: float | None = None
    done: int = 0  # trials known of configurations that the search has proposed
    new: int = 0  # trials finished since this run began, on any machine
    latest: float = 0.0  # when the latest of these finished, in seconds since the search began
    best: Trial | None = None
    bests_ms: list[float] = field(default_factory=list)  # best time after each trial, from the first valid one on
    seconds: Counter[str] = field(default_factory=Counter)  # spent on new trials, by stage
    failed: Counter[str] = field(default_factory=Counter)  # trials, by reason
    last_failed: Trial | None = None

    def add(self, trial: Trial, done: int, best: Trial | None, is_new: bool, elapsed: float) -> None:
        """Add a trial that finished `elapsed` seconds after the search began. `done` counts the trials up to it, and
        `best` is the best of them."""
        self.done, self.best = done, best
        self.unproposed.discard(config_key(trial.config))
        if best is not None and best.time_ms is not None:
            self.bests_ms.append(best.time_ms)
        if trial.outcome.failure is not None:
            self.failed[trial.outcome.failure] += 1
            self.last_failed = trial
        if is_new:
            self.new += 1
            self.latest = elapsed
            self.seconds.update(trial.outcome.seconds)

    @property
    def known(self) -> int:
        """The number of configurations measured so far, by this run and earlier ones."""
        return self.done + len(self.unproposed)

    @property
    def expected(self) -> int:
        """The number that will be measured at the end, if the search proposes no more of those measured earlier."""
        return max(self.known, min(self.valid, self.total + len(self.unproposed)))

    def per_second(self, elapsed: float) -> float:
        """New configurations per second; 0 before the first one."""
        return self.new / elapsed if elapsed > 0 else 0.0

    def seconds_left(self, elapsed: float) -> float | None:
        """The estimated time left, by the rate so far and the limit; None without a limit and before FEW new trials."""
        rate = self.per_second(elapsed) if self.new >= FEW or self.done >= self.total else 0.0
        rate = 0.0 if self.silence(elapsed) else rate
        # Not negative: other machines may measure more configurations of the same study.
        ends = [max(0, self.total - self.done) / rate] if rate else []
        return min([*ends, *([max(0.0, self.limit - elapsed)] if self.limit is not None else [])], default=None)

    def silence(self, elapsed: float) -> str:
        """`no result for 40 s`, if that is long after the trials before; else empty."""
        since = elapsed - self.latest
        usual = self.latest / self.new if self.new else math.inf
        return f"no result for {duration(since)}" if since > max(SILENT_SECONDS, 10 * usual) else ""

    def shares(self) -> list[tuple[str, float]]:
        """The stages of a trial with their shares of the time, 0 to 1, the longest first; empty if not known yet."""
        from tuner.measure.results import STAGES

        total = sum(self.seconds.values())
        shares = [(stage, self.seconds[stage] / total) for stage in STAGES] if total else []
        return sorted(shares, key=lambda share: -share[1])

    def line(self, elapsed: float) -> str:
        """The progress as one line, for a pipe."""
        parts = [f"{self.known}/{self.expected}", self._best_line()]
        if self.new:
            bottleneck = f", {share[0]} {share[1]:.0%}" if (share := next(iter(self.shares()), None)) else ""
            parts.append(self.silence(elapsed) or f"{speed(self.per_second(elapsed))}{bottleneck}")
        if failed := sum(self.failed.values()):
            parts.append(f"{failed} failed")
        if (left := self.seconds_left(elapsed)) is not None:
            parts.append(f"{duration(left)} left")
        return "  ".join(parts)

    def summary(self, elapsed: float) -> str:
        """The line for a finished search."""
        return f"{self.known}/{self.expected}  {self._best_line()}  after {duration(elapsed)}"

    def _best_line(self) -> str:
        if self.best is None or self.best.time_ms is None:
            return "nothing valid yet" if self.done else WAITING_FOR_FIRST
        parts = [f"best {self.best.time_ms:.4g} ms", *self.rates(self.best.time_ms)]
        return f"{', '.join(parts)}: {config_text(self.best.config)}"

    def block(self, elapsed: float, width: int, has_blocks: bool) -> list[Line]:
        """The progress as lines of at most `width` columns. `has_blocks`: the terminal can show block characters."""
        return [
            self._progress(elapsed, width, has_blocks),
            *self._best_lines(width, has_blocks),
            *self._stage_lines(width),
            *self._failures(width),
        ]

    def _progress(self, elapsed: float, width: int, has_blocks: bool) -> Line:
        """A bar, the numbers of configurations, the speed, and the time left."""
        total = max(self.expected, 1)
        share = self.known / total
        if self.limit is not None:
            share = max(share, min(1.0, elapsed / self.limit))
        left = self.seconds_left(elapsed)
        ending = f"{duration(left)} left" if left is not None else duration(elapsed)
        rate = f"  {self.silence(elapsed) or speed(self.per_second(elapsed))}" if self.new else ""
        numbers = f" {self.known}/{total}  {share:4.0%}{rate}  {ending}"
        full, empty = _BAR if has_blocks else _PLAIN_BAR
        length = max(4, min(LONGEST_BAR, width - cells(numbers)))
        filled = round(share * length)
        return [(full * filled, "green"), (empty * (length - filled), "dim"), (numbers, "")]

    def _best_lines(self, width: int, has_blocks: bool) -> list[Line]:
        if self.best is None or self.best.time_ms is None:
            return [[(self._best_line(), "dim")]]
        figures = [f"best {self.best.time_ms:.4g} ms", *self.rates(self.best.time_ms)]
        lines: list[Line] = [[(text, "bold")] for text in in_rows(figures, width)]
        lines += [[("  " + text, "")] for text in wrapped(config_text(self.best.config), width - 2)]
        first, last = (f"{self.bests_ms[i]:.4g}" for i in (0, -1))
        ends = len(first) + len(last) + 6
        bars = sparkline(self.bests_ms, min(LONGEST_BAR, width - ends), BLOCKS if has_blocks else PLAIN)
        return [*lines, [(f"  {first} ", "dim"), (bars, "green"), (f" {last} ms", "dim")]]

    def _stage_lines(self, width: int) -> list[Line]:
        shares = self.shares()
        if not shares:
            return []
        (worst, share), *others = shares
        text = f"{worst} takes {share:.0%} of the time"
        rest = ", ".join(f"{stage} {part:.0%}" for stage, part in others)
        return [[(fitting([text, rest], width), "")]]

    def _failures(self, width: int) -> list[Line]:
        if self.last_failed is None:
            return []
        count = sum(self.failed.values())
        kinds = [f"{number} {reason}" for reason, number in self.failed.most_common()]
        text = fitting([f"{count} failed: {kinds[0]}", *kinds[1:]], width)
        last = f"  last, {self.last_failed.outcome.failure}: {config_text(self.last_failed.config)}"
        return [[(text, "red")], [(shortened(last, width), "")]]


def fitting(parts: Sequence[str], width: int) -> str:
    """As many of `parts` as fit in `width` columns, separated by commas; at least the first."""
    text = parts[0]
    for part in parts[1:]:
        longer = f"{text}, {part}"
        if cells(longer) > width:
            return text
        text = longer
    return text


def in_rows(parts: Sequence[str], width: int) -> list[str]:
    """All of `parts`, separated by commas, on as many lines as needed; all but the first are indented."""
    lines = [parts[0]]
    for part in parts[1:]:
        if cells(f"{lines[-1]}, {part}") <= width:
            lines[-1] += f", {part}"
        else:
            lines.append(f"  {part}")
    return lines


def wrapped(text: str, width: int) -> list[str]:
    """`text` on at most two lines of `width` columns; an end that does not fit becomes dots."""
    return textwrap.wrap(text, max(8, width), max_lines=2, placeholder=" ...", break_on_hyphens=False)


def shortened(text: str, width: int) -> str:
    """`text` on one line of `width` columns; an end that does not fit becomes dots."""
    return text if cells(text) <= width else text[: max(0, width - 4)] + " ..."


def speed(per_second: float) -> str:
    """A rate as `2.1/s`; if slower, as `14/min` or `3.0/h`."""
    units = {"s": per_second, "min": per_second * 60, "h": per_second * 3600}
    unit = next((unit for unit, number in units.items() if number >= 1), "h" if per_second else "s")
    return f"{units[unit]:.1f}/{unit}" if 0 < units[unit] < 9.95 else f"{units[unit]:.0f}/{unit}"


def duration(seconds: float) -> str:
    """A time as `12 s`, `1.8 min`, `30 min` or `2.5 h`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    digits = 1 if seconds < 597 else None  # so that a line every few seconds differs from the last one
    return f"{round(seconds / 60, digits):g} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"
