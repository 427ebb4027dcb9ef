"""Progress of a search on standard error: one live line on a terminal, plain lines in a pipe."""

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.status import Status

from tuner.cli import output
from tuner.cli.options import INTERRUPTS
from tuner.devices import DeviceInfo
from tuner.devices.ceilings import Ceilings
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.texts import config_text, size_text
from tuner.store import rates
from tuner.tuning.trial import Trial

PLAIN_SECONDS = 10.0  # between lines in a pipe while nothing improves


class TuningProgress:
    """Shows how many configurations are done, the best one so far in ms, GFLOP/s and GB/s, and the time left."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, markup=False, highlight=False)
        self._live: Progress | None = None
        self._status: Status | None = None
        self._last = 0.0
        self._shown: Trial | None = None
        self.total = self.done = 0

    def begun(self, step: str) -> None:
        """Show, on a terminal, what goes on before the first configuration."""
        if not self._console.is_terminal:
            return
        if self._status is None:
            self._status = self._console.status("", spinner="line")
            self._status.start()
        self._status.update(f"[dim]{escape(step)}[/dim]")

    def started(
        self, space: Space, device: DeviceInfo, scope: Scope, total: int, known: int, ceilings: Ceilings | None
    ) -> None:
        self._space, self._scope, self._ceilings, self.total = space, scope, ceilings, total
        self._began = time.monotonic()
        self.close()
        resumed = f", {known} measured before" if known else ""
        self.noted(f"{space.name} at {size_text(scope.sizes)} on {device.name}: {total} configurations{resumed}")
        if self._console.is_terminal:
            columns = (BarColumn(30), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
            self._live = Progress(*columns, TimeRemainingColumn(), console=self._console, transient=True)
            self._live.add_task("measuring", total=total)
            self._live.start()

    def measured(self, trial: Trial, done: int, best: Trial | None) -> None:
        self.done = done
        if self._live is not None:
            self._live.update(self._live.task_ids[0], completed=done, description=self._best(best))
            return
        now = time.monotonic()
        if best is not self._shown or now - self._last > PLAIN_SECONDS or done == self.total:
            total = max(self.total, done)  # other machines may measure more configurations of the same study
            seconds = (now - self._began) / done * (total - done)
            self.noted(f"{done}/{total}  {self._best(best)}  {seconds:.0f} s left")
            self._shown, self._last = best, now

    def noted(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def interrupted(self) -> None:
        """Say that every finished trial is kept."""
        self.close()
        where = f" after {self.done} of {self.total} configurations" if self.total else ""
        output.say(f"interrupted{where}; what was measured is kept: the same command goes on from there")

    def finals(self, count: int) -> None:
        self.close()
        if count:
            self.noted(f"measuring the best {count} again, interleaved")

    def close(self) -> None:
        """Remove what is live."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _best(self, best: Trial | None) -> str:
        if best is None or best.time_ms is None:
            return "nothing valid yet"
        shown = output.rates(rates.of(self._space, self._scope, best.time_ms, self._ceilings))
        return ", ".join([f"best {best.time_ms:.4g} ms", *shown]) + f": {config_text(best.config)}"


@contextlib.contextmanager
def shown() -> Iterator[TuningProgress]:
    """Progress for one search: removed at the end; an interrupted search says that its trials are kept."""
    progress = TuningProgress()
    try:
        yield progress
    except INTERRUPTS:
        progress.interrupted()
        raise
    finally:
        progress.close()
