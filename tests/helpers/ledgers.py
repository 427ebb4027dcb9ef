"""What the ledgers on disk say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from tuner.space.config import Config


def _trials(folder: Path, *states: TrialState) -> Iterator[tuple[str, FrozenTrial]]:
    """The configurations, as JSON, and trials of all studies below `folder`."""
    for path in (folder / "state" / "studies").rglob("*.log"):
        storage = JournalStorage(JournalFileBackend(str(path)))
        for summary in optuna.study.get_all_study_summaries(storage):
            study = optuna.load_study(study_name=summary.study_name, storage=storage)
            for trial in study.get_trials(states=states):
                yield json.dumps(trial.params, sort_keys=True), trial


def finished(folder: Path) -> Counter[str]:
    """How often each configuration has been measured to its end by a search; the finals may measure it again."""
    trials = _trials(folder, TrialState.COMPLETE, TrialState.FAIL)
    return Counter(config for config, trial in trials if not trial.user_attrs.get("revised"))


def asked_for(journal: Path) -> list[Config]:
    """The configurations that a search has asked for, in order; the finals' later measurements of them are left out."""
    entries = (json.loads(line) for line in journal.read_text().splitlines())
    return [e["params"] for e in entries if "params" in e and not e.get("user_attrs", {}).get("revised")]


def is_begun(folder: Path) -> bool:
    """Whether a configuration is claimed, and not measured to its end."""
    return any(_trials(folder, TrialState.RUNNING))


def outcomes(folder: Path) -> dict[str, str | None]:
    """Why each configuration that has been measured to its end has failed; None where it has not."""
    states = TrialState.COMPLETE, TrialState.FAIL
    return {config: trial.user_attrs["measured"].get("failure") for config, trial in _trials(folder, *states)}


def measured(folder: Path) -> int:
    """How many measurements the ledgers tell of, read as text: cheap enough to be asked all the time."""
    logs = (folder / "state" / "studies").rglob("*.log")
    return sum(path.read_bytes().count(b'"measured"') for path in logs)


def claims(folder: Path) -> dict[str, int]:
    """The configurations that a device has been given, with the numbers of their trials."""
    running = _trials(folder, TrialState.RUNNING)
    return {config: trial.number for config, trial in running if trial.user_attrs.get("begun")}
