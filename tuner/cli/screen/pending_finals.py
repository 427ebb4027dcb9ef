"""What waits in a ledger: trials of a problem that no final round has made a record of."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.cli import output
from tuner.errors import RequestError

if TYPE_CHECKING:
    from tuner.exchange.exports.target import Problem
    from tuner.space.config import Config
    from tuner.tuning.ledger.study import StoredStudy
    from tuner.tuning.ledger.trial import Trial


@dataclass(frozen=True)
class PendingFinals:
    """The study that such trials are in, the fastest of them, and the command that goes on from them, where that is
    known."""

    study: StoredStudy
    fastest: Trial
    command: str | None

    @staticmethod
    def of(problem: Problem, device: str, kernel: str) -> PendingFinals | None:
        """What waits for the device called so; None where nothing does. `kernel` is as it was typed."""
        from tuner import paths
        from tuner.catalog import kernel_names

        names = (problem.space.name, *kernel_names.other_names(problem.space))
        if not any((paths.state() / "studies" / name).is_dir() for name in names):
            return None  # and Optuna need not be imported
        from tuner.exchange.exports.trials import studies

        try:
            found = [(study, fastest) for study in studies(problem) if (fastest := _fastest(study, device))]
        except RequestError as error:  # a ledger that cannot be read keeps no answer back
            output.warn([str(error)])
            return None
        if not found:
            return None
        study, fastest = max(found, key=lambda each: len(each[0].trials))
        return PendingFinals(study, fastest, _command(study, kernel))

    def has_verified(self, config: Config) -> bool:
        """Whether the search has found a configuration right."""
        return any(trial.config == config and trial.time_ms is not None for trial in self.study.trials)

    @property
    def lines(self) -> list[str]:
        """What there is, and how it becomes a record."""
        from tuner.space.texts import config_text

        count = len(self.study.trials)
        trials = "1 trial waits" if count == 1 else f"{count} trials wait"
        again = f"run `{self.command}` again" if self.command else "tune again"
        return [
            f"{trials} in a ledger; {again} to finish: it measures the best of them once more, and stores a record",
            f"the fastest in the search: {self.fastest.time_ms:.4g} ms, {config_text(self.fastest.config)}",
        ]

    @property
    def document(self) -> dict[str, Any]:
        """The same for --json."""
        best = {"config": self.fastest.config, "time_ms": self.fastest.time_ms}
        return {"trials": len(self.study.trials), "command": self.command, "fastest": best}


def _fastest(study: StoredStudy, device: str) -> Trial | None:
    right = [trial for trial in study.trials if study.device == device and trial.time_ms is not None]
    return min(right, key=lambda trial: trial.time_ms or 0.0, default=None)


def _command(study: StoredStudy, kernel: str) -> str | None:
    if not study.commands:
        return None
    verb, _, *words = shlex.split(study.commands[-1])
    return shlex.join([verb, kernel, *(word for word in words if word != "--fresh")])
