"""Progress of a run on standard error: a live block on a terminal, plain lines in a pipe.

It speaks first, so that it imports nothing slow before there is something to show.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli import output
from tuner.cli.interrupts import INTERRUPTS
from tuner.cli.screen.live_block import LiveBlock
from tuner.cli.screen.status import SearchStatus, duration
from tuner.space.config import config_key
from tuner.space.texts import full_problem_text

if TYPE_CHECKING:
    from tuner.tuning.exploration import SearchStart
    from tuner.tuning.ledger.trial import Trial

QUIET_SECONDS = 4.5  # after which a pipe gets another line
START_SECONDS = 0.3  # Python has had some before; a run that fails sooner says why, and nothing else
FRAME_SECONDS = 0.2  # between two frames of the block
SPINNER = "|/-\\"
STARTING = "starting: "  # before what start-up does, in a pipe


class TuningProgress:
    """The `Progress` of a run: what it does, and how far its search has come. Several searches may follow one another;
    `started` begins the next, with a header line. Threads may call every method."""

    def __init__(self, results: Path | None = None) -> None:
        """`results` is the user's store, which may know what the vendor's library takes."""
        self.screen = LiveBlock()
        self._results = results
        self._lock = threading.RLock()
        self._began = self._step_began = time.monotonic()
        self._started_at = datetime.now()
        self._step: str | None = None  # what goes on outside a search
        self._told: str | None = None  # the step that a pipe has been told
        self._prefix = ""  # of lines about it
        self._standing: SearchStatus | None = None
        self._shown: Trial | None = None
        self._last = 0.0  # when a line was printed in a pipe
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
        self._ticker.start()

    def begun(self, step: str, prefix: str = STARTING) -> None:
        """Show what goes on before the first configuration, or where there is none."""
        with self._lock:
            self._step, self._step_began, self._prefix = step, time.monotonic(), prefix
            self._frame()

    def started(self, start: SearchStart) -> None:
        """Show the search from here on."""
        from tuner.store import libraries, rates

        space, scope, known, device = start.space, start.scope, start.known, start.device.name
        library = libraries.known(space, device, scope.sizes, scope.options, scope.types, self._results)

        def told(time_ms: float) -> list[str]:
            of_library = [f"{library.time_ms / time_ms:.1%} of {library.name}"] if library else []
            return [*output.rates(rates.of(space, scope, time_ms, start.ceilings)), *of_library]

        with self._lock:
            doubtful = sum(trial.outcome.doubtful for trial in known)  # a ledger asks for these once more
            unmet = {config_key(trial.config) for trial in known if not trial.outcome.doubtful}
            self._standing = SearchStatus(told, start.total, start.valid, unmet, start.seconds)
            self._step, self._shown = None, None
            self._step_began, self._started_at = time.monotonic(), datetime.now()
            resumed = f", {len(known)} measured before" if known else ""
            resumed += f"; measuring {doubtful} doubtful one{'' if doubtful == 1 else 's'} again" if doubtful else ""
            problem = full_problem_text(scope.sizes, scope.types, scope.options, space.operation.options)
            extent = _extent(start.total, start.valid, start.seconds)
            self.noted(f"{space.name} at {problem} on {device}: {extent}{resumed}")
            self._frame()

    def measured(self, trial: Trial, done: int, best: Trial | None) -> None:
        with self._lock:
            if (standing := self._standing) is None:
                return
            is_new = trial.finished is None or trial.finished >= self._started_at
            standing.add(trial, done, best, is_new)
            is_better = is_new and best is not self._shown
            if self.screen.is_live:
                if is_better or trial.outcome.failure is not None:
                    self._frame()
            elif is_better or done == standing.total:
                self.noted(standing.line(time.monotonic() - self._step_began))
            self._shown = best if is_new else self._shown

    def noted(self, text: str) -> None:
        with self._lock:
            self.screen.say(text)
            self._last = time.monotonic()
            self._frame()

    def interrupted(self) -> None:
        """Say that every finished trial is kept."""
        self.close()
        standing = self._standing
        where = f" after {standing.known} of {standing.expected} configurations" if standing else ""
        output.say(f"interrupted{where}; what was measured is kept: the same command goes on from there")

    def finals(self, count: int) -> None:
        with self._lock:
            standing, self._step = self._standing, None
            if self.screen.is_live and standing is not None:
                self.screen.say(standing.summary(time.monotonic() - self._step_began))
            if count:
                self._step = self._told = f"measuring the best {count} again, interleaved"
                self._prefix = ""
                if not self.screen.is_live:
                    self.noted(self._step)
                self._step_began = time.monotonic()
            self._frame()

    def close(self) -> None:
        """Remove what is live. Nothing is shown any more."""
        self._over.set()
        with self._lock:
            self.screen.clear()

    def _tick(self) -> None:
        """Tell how time goes by, while nothing else is told."""
        while not self._over.wait(FRAME_SECONDS):
            with self._lock, contextlib.suppress(OSError, ValueError):  # whoever reads may be gone
                if self._over.is_set():
                    return
                self._frame() if self.screen.is_live else self._plain_frame()

    def _frame(self) -> None:
        """Draw the block."""
        if not self.screen.is_live or self._over.is_set():
            return
        elapsed = time.monotonic() - self._step_began
        if self._step is not None:
            turn = SPINNER[int(elapsed / FRAME_SECONDS) % len(SPINNER)]
            self.screen.draw([[(f"{turn} {self._step}", "dim"), (f"  {elapsed:.0f} s", "dim")]])
        elif self._standing is not None:
            self.screen.draw(self._standing.block(elapsed, self.screen.width, self.screen.has_blocks))

    def _plain_frame(self) -> None:
        """Print a line where one is due: the first after START_SECONDS, then whenever QUIET_SECONDS have gone by."""
        now = time.monotonic()
        elapsed = now - self._step_began
        is_due = now - self._last > QUIET_SECONDS
        if self._step is not None and (now - self._began > START_SECONDS) and (self._step != self._told or is_due):
            self.noted(f"{self._prefix}{self._step}{f', {duration(elapsed)}' if self._step == self._told else ''}")
            self._told = self._step
        elif self._step is None and self._standing is not None and is_due:
            self.noted(self._standing.line(elapsed))


def _extent(total: int, valid: int, seconds: float | None) -> str:
    """How much a search may do: `4 of 75 configurations`, or `75 configurations, 30 s and the finals`."""
    if seconds is not None:
        return f"{valid} configurations, {duration(seconds)} and the finals"
    some = f"{total} of " if total < valid else ""
    return f"{some}{valid} configuration{'' if valid == 1 else 's'}"


@contextlib.contextmanager
def displayed(results: Path | None = None) -> Iterator[TuningProgress]:
    """Progress for one run: removed at the end; an interrupted run says that its trials are kept."""
    progress = TuningProgress(results)
    try:
        with output.said_by(progress.noted):
            yield progress
    except INTERRUPTS:
        progress.interrupted()
        raise
    finally:
        progress.close()
