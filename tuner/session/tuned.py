"""The result of `tuner.tune`, which prints as a line, and in a notebook as a table."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.space.config import Config
from tuner.space.texts import config_text, problem_text

if TYPE_CHECKING:
    import pandas as pd

    from tuner.launch.kernel import Kernel
    from tuner.space.model import Space
    from tuner.store.record import Record
    from tuner.tuning.driver import Result
    from tuner.tuning.ledger.trial import Trial

MOST_ROWS = 5  # of the table in a notebook


@dataclass(frozen=True, repr=False)
class Tuned:
    """What a run found.

    `kernel` is the kernel's name, `device` the device's. `notes` are the messages that the run showed. `result` has all
    that the run knows.

    Example::

        import tuner

        tuned = tuner.tune("sgemm/01_host_blocked", 64, device="host", budget=2, progress=False)
        assert tuned.time_ms == tuned.record.time_ms
        print(tuned.load())
    """

    result: Result
    space: Space
    notes: tuple[str, ...] = ()

    @property
    def kernel(self) -> str:
        return self.result.kernel

    @property
    def device(self) -> str:
        return self.result.device.name

    @property
    def sizes(self) -> dict[str, int]:
        return self.result.sizes

    @property
    def record(self) -> Record | None:
        """The record of the best configuration; None if every configuration failed."""
        return self.result.record

    @property
    def best(self) -> Config | None:
        """The best configuration; None if every configuration failed."""
        return None if self.record is None else self.record.config

    @property
    def time_ms(self) -> float | None:
        """The time of the best configuration in the final round, in ms."""
        return None if self.record is None else self.record.time_ms

    @property
    def stored(self) -> bool:
        """Whether the store has it now."""
        return self.result.stored

    @property
    def warnings(self) -> list[str]:
        """The reasons to doubt the result."""
        return self.result.warnings

    @property
    def trials(self) -> list[Trial]:
        """The trials of valid configurations, also of earlier runs: the fastest first, those that failed last."""
        return sorted(self.result.trials, key=_order)

    @property
    def failures(self) -> list[Trial]:
        """The trials that failed, in the order in which they were measured."""
        return self.result.failures

    def to_pandas(self) -> pd.DataFrame:
        """A row for each of `trials`: its parameters, `time_ms`, `runs`, `failure` and `log`."""
        import pandas as pd

        rows = [
            {
                **trial.config,
                "time_ms": trial.time_ms,
                "runs": len(trial.outcome.times),
                "failure": trial.outcome.failure,
                "log": trial.outcome.log,
            }
            for trial in self.trials
        ]
        return pd.DataFrame(rows, columns=[*self.space.parameters, "time_ms", "runs", "failure", "log"])

    def load(self) -> Kernel:
        """The best configuration, loaded on the device that measured it. Raises as `tuner.load` does."""
        from tuner.errors import NoConfiguration
        from tuner.launch.launcher import load

        if self.best is None:
            raise NoConfiguration(f"{self.kernel}: {self._failure}")
        run, at = self.result, self.result.device.id
        return load(self.space, run.sizes, device=at, config=self.best, options=run.options, types=run.types)

    def __repr__(self) -> str:
        return f"<{self.kernel} at {problem_text(self.sizes, self.result.types)} on {self.device}: {self._summary}>"

    @property
    def _summary(self) -> str:
        counts = f"{self.result.evaluated} of {self.result.configurations} configurations"
        failed = f", {len(self.failures)} failed" if self.failures else ""
        if self.record is None:
            return f"{self._failure}; {counts}{failed}"
        return f"{self.record.time_ms:.4g} ms with {config_text(self.record.config)}; {counts}{failed}"

    @property
    def _failure(self) -> str:
        """Why there is no best configuration."""
        if self.result.accused is not None:
            return self.result.accused
        reasons = (f"{count} {reason}, such as {trial}" for reason, (count, trial) in self.result.failed.items())
        return f"no configuration is right: {'; '.join(reasons) or 'none was measured'}"

    def _repr_html_(self) -> str:
        """A table of the fastest trials, for notebooks."""
        names = [*self.space.parameters]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in [*names, "time (ms)"])
        rows = "".join(f"<tr>{''.join(_cells(row))}</tr>" for row in self._rows(names))
        return f"<p>{html.escape(repr(self)[1:-1])}</p><table><tr>{head}</tr>{rows}</table>"

    def _rows(self, names: Sequence[str]) -> Iterator[list[str]]:
        for trial in [trial for trial in self.trials if trial.time_ms is not None][:MOST_ROWS]:
            yield [*(str(trial.config[name]) for name in names), f"{trial.time_ms:.4g}"]


def _order(trial: Trial) -> Any:
    return (trial.value is None, trial.value or 0.0)


def _cells(row: Sequence[str]) -> Iterator[str]:
    return (f"<td>{html.escape(cell)}</td>" for cell in row)
