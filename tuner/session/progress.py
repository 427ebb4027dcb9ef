"""The progress of `tuner.tune`: a bar with the trials so far, the best time and the failures."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.session import bars

if TYPE_CHECKING:
    from tuner.session.bars import Bar
    from tuner.tuning.ledger.trial import Trial
    from tuner.tuning.progress import SearchStart

FRAME_SECONDS = 0.2  # between two drawings
NOT_KEPT = "no later run continues it"  # the end of a message
INTERRUPTED = "interrupted; finished trials are kept: the same call continues"


class BarProgress:
    """Listens to a run, and draws its state. Every method is thread-safe."""

    def __init__(self, bar: Bar) -> None:
        self.notes: list[str] = []
        self._bar, self._lock, self._closed = bar, threading.RLock(), threading.Event()
        self._began, self._step = time.monotonic(), "starting"
        self._start: SearchStart | None = None
        self._done = self._failed = 0
        self._best: Trial | None = None
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
        self._ticker.start()

    def begun(self, step: str) -> None:
        self._show(step)

    def started(self, start: SearchStart) -> None:
        with self._lock:
            self._start, self._began = start, time.monotonic()
            self._failed = sum(trial.outcome.failure is not None for trial in start.known)
        self._show("")

    def measured(self, trial: Trial, done: int, best: Trial | None) -> None:
        with self._lock:
            self._done, self._best = done, best
            self._failed += trial.outcome.failure is not None

    def finals(self, count: int) -> None:
        self._show(f"measuring the best {count} again" if count else "finishing")

    def noted(self, text: str) -> None:
        with self._lock:
            self.notes.append(text)
            self._bar.say(text)
            self._draw()

    def close(self) -> None:
        """Remove the bar."""
        self._closed.set()
        with self._lock:
            self._bar.clear()

    def _show(self, step: str) -> None:
        with self._lock:
            self._step = step
            self._draw()

    def _tick(self) -> None:
        while not self._closed.wait(FRAME_SECONDS):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        if self._closed.is_set():
            return
        elapsed, start = time.monotonic() - self._began, self._start
        if start is None:
            self._bar.draw(None, f"{self._step}, {elapsed:.0f} s")
            return
        share = elapsed / start.left if start.left is not None else self._done / max(1, start.total)
        of = "" if start.seconds is not None else f"/{start.total}"
        parts = [f"{start.space.name}: {self._done}{of}"]
        if self._best is not None and self._best.time_ms is not None:
            parts.append(f"best {self._best.time_ms:.4g} ms")
        parts += [f"{self._failed} failed"] * bool(self._failed) + [self._step or f"{elapsed:.0f} s"]
        self._bar.draw(1.0 if self._step else share, ", ".join(parts))


class Silence(bars.PlainLines):
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""


@contextlib.contextmanager
def shown(is_wanted: bool) -> Iterator[BarProgress]:
    """A block with the progress of one run. If it is interrupted, says that its trials are kept."""
    progress = BarProgress(bars.suitable() if is_wanted else Silence())
    try:
        yield progress
    except KeyboardInterrupt:
        if not any(note.endswith(NOT_KEPT) for note in progress.notes):
            progress.noted(INTERRUPTED)
        raise
    finally:
        progress.close()
