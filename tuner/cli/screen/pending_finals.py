"""Find trials of a problem whose search was interrupted before the finals, so that they have no record yet."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.cli import output
from tuner.errors import RequestError

if TYPE_CHECKING:
    from tuner.devices.conditions import Conditions
    from tuner.exchange.exports.target import Problem
    from tuner.space.config import Config
    from tuner.tuning.ledger.study import StoredStudy
    from tuner.tuning.ledger.trial import Trial


@dataclass(frozen=True)
class PendingFinals:
    """A study without finals, its fastest trial, and the command that continues it, if known.

    A study whose reference is doubtful may lack a valid trial.
    """

    study: StoredStudy
    fastest: Trial | None
    command: str | None

    @staticmethod
    def of(problem: Problem, device: str, kernel: str, conditions: Conditions) -> PendingFinals | None:
        """The largest study of `problem` on `device` that has a valid trial or a doubtful reference; None if there is
        none.

        device: a device's full name.
        conditions: those of the study's trials.
        kernel: the kernel as the user typed it, which goes into the command.
        """
        from tuner import paths
        from tuner.catalog import kernel_names

        names = (problem.space.name, *kernel_names.other_names(problem.space))
        if not any((paths.state() / "studies" / name).is_dir() for name in names):
            return None  # without importing Optuna
        from tuner.exchange.exports.trials import studies

        try:
            found = [each for each in studies(problem) if (each.conditions, each.device) == (conditions, device)]
            fastest = [(study, _fastest(study)) for study in found]
            pending = [(study, trial) for study, trial in fastest if trial is not None or study.accused]
        except RequestError as error:  # an unreadable ledger must not stop `tune best`
            output.warn([str(error)])
            return None
        if not pending:
            return None
        study, trial = max(pending, key=lambda pair: len(pair[0].trials))
        return PendingFinals(study, trial, _command(study, kernel))

    def has_verified(self, config: Config) -> bool:
        """Whether `config` passed verification in the search, by a reference that is not doubtful."""
        return not self.study.accused and any(
            trial.config == config and trial.time_ms is not None for trial in self.study.trials
        )

    @property
    def lines(self) -> list[str]:
        """Lines for the user: how many trials there are and how to finish, and the fastest trial; or why tuning again
        would store nothing."""
        from tuner.space.texts import config_text

        if self.study.accused or self.fastest is None:
            return [self.study.accused]

        count = len(self.study.trials)
        trials = "1 trial has" if count == 1 else f"{count} trials have"
        again = f"run `{self.command}` again" if self.command else "tune again"
        return [
            f"{trials} no record yet; {again} to finish: it measures the best of them once more, and stores a record",
            f"fastest of them: {self.fastest.time_ms:.4g} ms, {config_text(self.fastest.config)}",
        ]

    @property
    def document(self) -> dict[str, Any]:
        """The same as JSON data."""
        best = self.fastest and {"config": self.fastest.config, "time_ms": self.fastest.time_ms}
        data = {"trials": len(self.study.trials), "command": self.command, "fastest": best}
        return {**data, "accused": self.study.accused or None}


def _fastest(study: StoredStudy) -> Trial | None:
    """The study's fastest valid trial; None if it has none."""
    valid = [trial for trial in study.trials if trial.time_ms is not None]
    return min(valid, key=lambda trial: trial.time_ms or 0.0, default=None)


def _command(study: StoredStudy, kernel: str) -> str | None:
    """The study's last command, with the kernel as typed now and without --fresh; None if it is unknown."""
    if not study.commands:
        return None
    verb, _, *words = shlex.split(study.commands[-1])
    return shlex.join([verb, kernel, *(word for word in words if word != "--fresh")])
