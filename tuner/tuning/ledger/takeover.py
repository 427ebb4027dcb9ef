"""Trials that a new study takes over from studies with the same key, whose parameters had other lists of values.

A trial is what was launched, not the lists that its values were drawn from. Optuna refuses other lists in one study, so
each set of lists has its own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, create_trial

from tuner import paths
from tuner.catalog import kernel_names
from tuner.space.config import Value, config_key
from tuner.space.model import Space
from tuner.tuning.ledger import journal, storage
from tuner.tuning.ledger.stored_trial import attribute, from_optuna, is_config, state_of, values_of
from tuner.tuning.ledger.study import StudyKey, parameters_of, study_name
from tuner.tuning.ledger.trial import Trial

DAMAGE = (
    LookupError,
    TypeError,
    ValueError,
    AssertionError,
    AttributeError,
)  # what reading a damaged journal may raise


def taken_over(space: Space, key: StudyKey, own: str, shared: BaseStorage | None) -> list[Trial]:
    """The trials of other studies that are trials of the study `own` of `space` and `key`, in the order of measurement.

    Of several trials of one configuration, the latest is taken, whichever study it is in. The studies are in `shared`,
    a storage, or in the journals of this machine. Doubtful trials, and studies that cannot be read, are left out.
    """
    found: list[Trial] = []
    for ledger in [shared] if shared is not None else _journals(space, key):
        with contextlib.suppress(*DAMAGE):
            for trial in _trials(ledger, space, key, own):
                if not trial.outcome.doubtful and is_config(trial.config, space.parameters):
                    found.append(trial)
    found.sort(key=lambda trial: trial.finished or datetime.min)
    return list({config_key(trial.config): trial for trial in found}.values())


def frozen(trial: Trial, distributions: dict[str, BaseDistribution]) -> FrozenTrial:
    """The Optuna trial that another study gets of a trial that it takes over."""
    copy = create_trial(
        state=state_of(trial),
        values=values_of(trial),
        params=trial.config,
        distributions=distributions,
        user_attrs={"measured": attribute(trial)},
    )
    copy.datetime_complete = trial.finished or copy.datetime_complete
    copy.datetime_start = copy.datetime_complete
    return copy


def _prefixes(space: Space, key: StudyKey) -> tuple[str, ...]:
    names = (space.name, *kernel_names.other_names(space))
    return tuple(f"{study_name(name, key.sizes)}{key.device} " for name in names)


def _journals(space: Space, key: StudyKey) -> Iterator[BaseStorage]:
    """The journals of studies of this kernel, size and device; those that --fresh set aside do not count."""
    folders = [paths.state() / "studies" / name for name in (space.name, *kernel_names.other_names(space))]
    files = {file.resolve() for folder in folders for file in folder.glob("*.log") if "." not in file.stem}
    prefixes = _prefixes(space, key)
    for file in sorted(files):
        with contextlib.suppress(OSError, *DAMAGE):
            if _first_study(file).startswith(prefixes):
                yield journal.read(file)


def _first_study(file: Path) -> str:
    """The name of the study in a journal, from its first line."""
    with file.open("rb") as lines:
        return str(json.loads(lines.readline())["study_name"])


def _trials(ledger: BaseStorage, space: Space, key: StudyKey, own: str) -> Iterator[Trial]:
    """The trials of the studies in `ledger` that have this key with any lists of values; those of `own` are left out,
    where other processes may have begun to measure."""
    prefixes, objectives = _prefixes(space, key), len(key.method.metrics)
    studies = {study.study_name: study._study_id for study in ledger.get_all_studies()}
    for name in sorted(name for name in studies if name.startswith(prefixes) and name != own):
        first = name.partition(storage.GENERATION)[0]
        if storage.latest(ledger, [first], fresh=False) != name:
            continue
        trials, parameters = list[FrozenTrial](), dict[str, tuple[Value, ...]]()
        with contextlib.suppress(*DAMAGE):  # one study that cannot be read hides no other one
            trials = ledger.get_all_trials(studies[name], deepcopy=False)
            parameters = parameters_of(trials)
        if not parameters or first not in {f"{prefix}{key.digest(parameters)}" for prefix in prefixes}:
            continue
        for each in trials:
            with contextlib.suppress(ValueError):
                if (trial := from_optuna(each, parameters, objectives)) is not None:
                    yield trial
