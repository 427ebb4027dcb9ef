"""Show the progress of a run on standard error: a live block on a terminal, plain lines in a pipe.

Slow modules are imported only once there is something to show.
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
    from tuner.tuning.ledger.trial import Trial
    from tuner.tuning.progress import SearchStart

QUIET_SECONDS = 4.5  # without a line in a pipe, after which one is printed
START_SECONDS = 0.3  # without any line: a run that fails sooner prints only its error
FRAME_SECONDS = 0.2  # between two frames of the block
SPINNER = "|/-\\"
STARTING = "starting: "  # prefix of lines about start-up, in a pipe


class TuningProgress:
    """The `Progress` listener of a run: shows the current step, or the status of the current search.

    Several searches may follow one another; `started` begins the next one with a header line. Every method is
    thread-safe.
    """

    def __init__(self, results: Path | None = None) -> None:
        """Start the display. `results` is the user's store, whose records may have the vendor library's time."""
        self.screen = LiveBlock()
        self._results = results
        self._lock = threading.RLock()
        self._began = self._step_began = time.monotonic()
        self._started_at = datetime.now()
        self._step: str | None = None  # the current step outside a search
        self._printed_step: str | None = None  # the last step printed in a pipe
        self._prefix = ""  # of lines about the step
        self._status: SearchStatus | None = None
        self._shown_best: Trial | None = None
        self._is_counted = False  # a line in a pipe has the last number of the search
        self._last_line = 0.0  # time of the last permanent line
        self._closed = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
        self._ticker.start()

    def begun(self, step: str, prefix: str | None = None) -> None:
        """Show a step outside the search, such as opening the device. By default, only what precedes the first search
        has a prefix."""
        with self._lock:
            self._end_search()
            self._prefix = prefix if prefix is not None else STARTING if self._status is None else ""
            self._step, self._step_began = step, time.monotonic()
            self._frame()

    def started(self, start: SearchStart) -> None:
        """Print the header line of a search, and show its status from now on."""
        from tuner.store import libraries, rates

        space, scope, known, device = start.space, start.scope, start.known, start.device.name
        library = libraries.known(space, device, scope.sizes, scope.options, scope.types, self._results)

        def rate_texts(time_ms: float) -> list[str]:
            of_library = [f"{library.time_ms / time_ms:.1%} of {library.name}"] if library else []
            return [*output.rates(rates.of(space, scope, time_ms, start.ceilings)), *of_library]

        with self._lock:
            doubtful = sum(trial.outcome.doubtful for trial in known)  # the search measures these again
            unproposed = {config_key(trial.config) for trial in known if not trial.outcome.doubtful}
            self._status = SearchStatus(rate_texts, start.total, start.valid, unproposed, start.left)
            self._step, self._shown_best, self._is_counted = None, None, False
            self._step_began, self._started_at = time.monotonic(), datetime.now()
            resumed = f", {len(known)} measured before" if known else ""
            again = f"measuring {doubtful} doubtful one{'' if doubtful == 1 else 's'} again"
            if start.total < start.valid or start.seconds is not None:
                again += ", as far as the budget reaches"
            resumed += f"; {again}" if doubtful else ""
            problem = full_problem_text(scope.sizes, scope.types, scope.options, space.operation.options)
            extent = _extent(start.total, start.valid, start.seconds)
            self.noted(f"{space.name} at {problem} on {device}: {extent}{resumed}")
            self._frame()

    def measured(self, trial: Trial, done: int, best: Trial | None) -> None:
        with self._lock:
            if (status := self._status) is None:
                return
            is_new = trial.finished is None or trial.finished >= self._started_at
            elapsed = time.monotonic() - self._step_began
            status.add(trial, done, best, is_new, elapsed)
            is_better = is_new and best is not self._shown_best
            if self.screen.is_live:
                if is_better or trial.outcome.failure is not None:
                    self._frame()
            elif is_better or (done == status.total and not self._is_counted):
                self.noted(status.line(elapsed))
                self._is_counted = done == status.total
            self._shown_best = best if is_new else self._shown_best

    def noted(self, text: str) -> None:
        with self._lock:
            self.screen.say(text)
            self._last_line = time.monotonic()
            self._frame()

    def interrupted(self) -> None:
        """Say that finished trials are kept, and how to continue."""
        self.close()
        status = self._status
        extent = f" after {status.known} of {status.expected} configurations" if status else ""
        output.say(f"interrupted{extent}; finished trials are kept: run the same command again to continue")

    def finals(self, count: int) -> None:
        with self._lock:
            self._end_search()
            self._step = None
            if count:
                self._step = self._printed_step = f"measuring the best {count} again, interleaved"
                self._prefix = ""
                if not self.screen.is_live:
                    self.noted(self._step)
                self._step_began = time.monotonic()
            self._frame()

    def _end_search(self) -> None:
        """Leave the summary of the search on a terminal, if the search is what the block shows."""
        if self.screen.is_live and self._status is not None and self._step is None:
            self.screen.say(self._status.summary(time.monotonic() - self._step_began))

    def close(self) -> None:
        """Remove the block and stop the display."""
        self._closed.set()
        with self._lock:
            self.screen.clear()

    def _tick(self) -> None:
        """Refresh the display every FRAME_SECONDS, in a thread."""
        while not self._closed.wait(FRAME_SECONDS):
            with self._lock, contextlib.suppress(OSError, ValueError):  # standard error may have been closed
                if self._closed.is_set():
                    return
                self._frame() if self.screen.is_live else self._plain_frame()

    def _frame(self) -> None:
        """Draw the block."""
        if not self.screen.is_live or self._closed.is_set():
            return
        elapsed = time.monotonic() - self._step_began
        if self._step is not None:
            spinner = SPINNER[int(elapsed / FRAME_SECONDS) % len(SPINNER)]
            self.screen.draw([[(f"{spinner} {self._step}", "dim"), (f"  {elapsed:.0f} s", "dim")]])
        elif self._status is not None:
            self.screen.draw(self._status.block(elapsed, self.screen.width, self.screen.has_blocks))

    def _plain_frame(self) -> None:
        """Print a line if one is due: the first after START_SECONDS, later ones after QUIET_SECONDS without a line."""
        now = time.monotonic()
        elapsed = now - self._step_began
        is_due = now - self._last_line > QUIET_SECONDS
        is_repeated = self._step == self._printed_step
        if self._step is not None and (now - self._began > START_SECONDS) and (not is_repeated or is_due):
            self.noted(f"{self._prefix}{self._step}{f', {duration(elapsed)}' if is_repeated else ''}")
            self._printed_step = self._step
        elif (
            self._step is None
            and (status := self._status) is not None
            and is_due
            and (not self._is_counted or status.silence(elapsed))  # else doubtful ones are measured again
        ):
            self.noted(status.line(elapsed))


def _extent(total: int, valid: int, seconds: float | None) -> str:
    """The extent of a search: `4 of 75 configurations`, or `75 configurations, 30 s and the finals`."""
    if seconds is not None:
        return f"{valid} configurations, {duration(seconds)} and the finals"
    some = f"{total} of " if total < valid else ""
    return f"{some}{valid} configuration{'' if valid == 1 else 's'}"


@contextlib.contextmanager
def displayed(results: Path | None = None) -> Iterator[TuningProgress]:
    """A context with the progress display of one run. If the run is interrupted, says that its trials are kept."""
    progress = TuningProgress(results)
    try:
        with output.printed_by(progress.noted):
            yield progress
    except INTERRUPTS:
        progress.interrupted()
        raise
    finally:
        progress.close()
