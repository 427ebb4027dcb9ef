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


def _trials(folder: Path, *states: TrialState) -> Iterator[tuple[str, FrozenTrial]]:
    """The configurations, as JSON, and trials of all studies below `folder`."""
    for path in (folder / "state" / "studies").rglob("*.log"):
        storage = JournalStorage(JournalFileBackend(str(path)))
        for summary in optuna.study.get_all_study_summaries(storage):
            study = optuna.load_study(study_name=summary.study_name, storage=storage)
            for trial in study.get_trials(states=states):
                yield json.dumps(trial.params, sort_keys=True), trial


def finished(folder: Path) -> Counter[str]:
    """How often each configuration has been measured to its end."""
    return Counter(config for config, _ in _trials(folder, TrialState.COMPLETE, TrialState.FAIL))


def claims(folder: Path) -> dict[str, int]:
    """The configurations that a device has been given, with the numbers of their trials."""
    running = _trials(folder, TrialState.RUNNING)
    return {config: trial.number for config, trial in running if trial.user_attrs.get("begun")}
