"""The ledger: every trial of every configuration, in an Optuna study, written as soon as it is measured.

A configuration is claimed before it is measured, as a running trial; the one with the lowest number has it, so that
processes which share a storage never measure one twice. Whoever holds a claim shows signs of life; where they cease,
the claim is closed and the configuration is free again. Trials that were closed unmeasured are PRUNED.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import optuna
from filelock import BaseFileLock
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner import paths
from tuner.errors import RequestError
from tuner.measure.method import STANDARD, Method
from tuner.measure.results import Outcome
from tuner.space.model import Config, ConfigKey, Space, config_key, size_text
from tuner.tuning import journal, storage
from tuner.tuning.trial import Trial, attribute, from_optuna, state_of, values_of

BEAT_SECONDS, LEASE_SECONDS = 3.0, 15.0  # between signs of life; a claim without one for so long is nobody's
MOST_LOSSES = 3  # measurements of one configuration that ended with their process; then it is not tried again

_GO_ON = "what was measured before is kept, and the same command goes on from there"


@dataclass(frozen=True)
class StudyKey:
    """What the trials of one ledger have in common besides the space: sizes, options, the device's name, and whatever
    else their times depend on: signature of the source, toolchain, method."""

    sizes: dict[str, int]
    options: dict[str, float]
    device: str
    signature: str
    toolchain: str
    method: Method = STANDARD

    def digest(self, space: Space) -> str:
        """Names the study. Ledgers of version 0.1.0 were named by this very text, so they go on."""
        conditions = f"{self.signature} {self.toolchain} {self.method}"
        options, values = sorted(self.options.items()), sorted(space.parameters.items())
        return paths.digest(self.device, conditions, repr(options), repr(values))


@dataclass(frozen=True)
class StoredStudy:
    """What a storage holds of one study, for reading alone."""

    device: str
    signature: str
    toolchain: str
    trials: list[Trial]


@dataclass(frozen=True)
class _Claim:
    """A running trial of another process: its last sign of life, and when, on our clock, that was first seen."""

    trial: FrozenTrial
    beat: int
    seen: float


class Ledger:
    """The trials of one space and StudyKey, as a context manager; its methods may be called from several threads.

    A change of either opens another study, so old times are never taken for new ones. Without a URL the study lies in
    a file of its own, which belongs to one process at a time; at a URL, processes anywhere share it. Every method
    raises RequestError where the storage cannot be read or written.
    """

    def __init__(self, space: Space, key: StudyKey, fresh: bool = False, url: str | None = None) -> None:
        """Opens the study, or an empty one if `fresh`. Raises RequestError where another process has the file."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.name = f"{study_name(space, key.sizes)}{key.device} {key.digest(space)[:12]}"
        self.shared = url is not None
        self._where = url or str(paths.state() / "studies" / space.name / f"{paths.digest(self.name)}.log")
        self._distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in space.parameters.items()
        }
        self._access = threading.RLock()
        self._file_lock: BaseFileLock | None = None
        self._known: dict[ConfigKey, Trial] = {}
        self._new: list[Trial] = []  # of others, since news() was asked
        self._losses: Counter[ConfigKey] = Counter()
        self._mine: dict[ConfigKey, int] = {}  # trial ids of the claims of this process
        self._theirs: dict[ConfigKey, _Claim] = {}
        self._taken_in: set[int] = set()  # numbers of closed trials
        self._settled = 0  # all lower numbers are among them
        self._closing = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="ledger", daemon=True)
        try:
            with self._storage_errors("see that the folder or server is there, and may be written to"):
                self._open(fresh, key)
        except BaseException:
            self._unlock()
            raise
        if self.shared:
            self._heart.start()

    def _open(self, fresh: bool, key: StudyKey) -> None:
        if self.shared:
            self._storage = storage.at(self._where)
            self.name = storage.latest(self._storage, self.name, fresh)
        else:
            self._storage, self._file_lock = journal.take(Path(self._where), self.name.rpartition(" ")[0], fresh)
        directions = [StudyDirection.MINIMIZE] * len(key.method.metrics)
        study = optuna.create_study(
            study_name=self.name, storage=self._storage, load_if_exists=True, directions=directions
        )
        self._study = study._study_id
        if "device" not in study.user_attrs:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Optuna calls it experimental
                study.set_metric_names(list(key.method.metrics))
            for name in ("device", "signature", "toolchain"):
                study.set_user_attr(name, getattr(key, name))
            study.set_user_attr("method", asdict(key.method))
        self._refresh()
        if not self.shared:  # the file is ours alone, so whoever made claims in it is gone
            self._close_lost(list(self._theirs))
        self._new.clear()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        if self._heart.is_alive():
            self._heart.join()
        with self._access:
            for key in list(self._mine):
                with contextlib.suppress(RequestError):
                    self._close(self._mine.pop(key))
        self._unlock()

    def _unlock(self) -> None:
        if self._file_lock is not None:
            self._file_lock.release()

    def known(self, config: Config, timeout: float) -> Trial | None:
        """The trial of `config`, if it has been measured already, and not given up after less than `timeout` s."""
        key = config_key(config)
        trial = self._known.get(key)
        if trial is not None and trial.outcome.failure == "timeout" and trial.timeout < timeout:
            return None
        if trial is None and self._losses[key] >= MOST_LOSSES:
            log = f"{self._losses[key]} processes came to their end while they measured it; --fresh tries it again"
            trial = self._known[key] = Trial(config, Outcome(failure="repeat offender", log=log))
        return trial

    def claim(self, config: Config, timeout: float) -> bool:
        """Take `config` to be measured by this process; whether nobody else has it, or has measured it."""
        key = config_key(config)
        attributes: dict[str, Any] = {"worker": f"{platform.node()} {os.getpid()}", "beat": 0}
        template = create_trial(
            state=TrialState.RUNNING, params=config, distributions=self._distributions, user_attrs=attributes
        )
        with self._access, self._storage_errors():
            trial = self._storage.create_new_trial(self._study, template_trial=template)
            self._mine[key] = trial
            if self.shared:
                number = self._storage.get_trial(trial).number
                self._refresh()
                theirs = self._theirs.get(key)
                if self.known(config, timeout) or (theirs is not None and theirs.trial.number < number):
                    self._close(self._mine.pop(key))
                    return False
            return True

    def begin(self, config: Config) -> bool:
        """Write down that the device has it from now on: what a process came to its end over was this configuration,
        not one that was waiting for its turn. False where the claim was lost meanwhile."""
        key = config_key(config)
        with self._access, self._storage_errors():
            try:
                self._storage.set_trial_user_attr(self._mine[key], "begun", True)
            except UpdateFinishedTrialError:
                del self._mine[key]
                return False
            return True

    def finish(self, trial: Trial) -> bool:
        """Write down what came of a claim; it is on disk when this returns. False where the claim was lost meanwhile:
        then somebody else measures it."""
        key = config_key(trial.config)
        with self._access, self._storage_errors():
            try:
                self._storage.set_trial_user_attr(self._mine[key], "measured", attribute(trial))
                self._storage.set_trial_state_values(self._mine[key], state_of(trial), values_of(trial))
            except UpdateFinishedTrialError:
                return False
            finally:
                del self._mine[key]
            self._known[key] = trial
            return True

    def release(self, config: Config) -> None:
        """Give a claim back unmeasured."""
        with self._access:
            self._close(self._mine.pop(config_key(config)))

    def revise(self, trial: Trial) -> None:
        """Write down what a second look at a measured configuration has shown: its last trial counts."""
        written = create_trial(
            state=state_of(trial),
            values=values_of(trial),
            params=trial.config,
            distributions=self._distributions,
            user_attrs={"measured": attribute(trial)},
        )
        with self._access, self._storage_errors():
            self._storage.create_new_trial(self._study, template_trial=written)
            self._known[config_key(trial.config)] = trial

    def news(self) -> list[Trial]:
        """The trials of other processes that have become known since this was last asked, or since the ledger was
        opened. Closes claims that show no signs of life any more."""
        with self._access, self._storage_errors():
            self._refresh()
            now = time.monotonic()
            self._close_lost([key for key, claim in self._theirs.items() if now - claim.seen > LEASE_SECONDS])
            new, self._new = self._new, []
            return new

    def is_claimed(self, config: Config) -> bool:
        """Whether another process holds `config`, as far as `news` has seen."""
        return config_key(config) in self._theirs

    def _refresh(self) -> None:
        """Take in what other processes have written, and which claims they hold."""
        with self._access, self._storage_errors():
            trials = self._storage.get_all_trials(self._study, deepcopy=False)
            claims: dict[ConfigKey, _Claim] = {}
            mine = set(self._mine.values())
            for trial in trials[self._settled :]:
                key = config_key(trial.params)
                if trial.state == TrialState.RUNNING:
                    if trial._trial_id not in mine and key not in claims:
                        claims[key] = self._seen_alive(trial, self._theirs.get(key))
                elif trial.number not in self._taken_in:
                    self._taken_in.add(trial.number)
                    self._losses[key] += bool(trial.user_attrs.get("lost"))
                    found = from_optuna(trial)
                    if found is not None:
                        if (measured := config_key(found.config)) not in self._known:
                            self._new.append(found)
                        self._known[measured] = found
            self._theirs = claims
            while self._settled < len(trials) and trials[self._settled].state.is_finished():
                self._settled += 1

    @staticmethod
    def _seen_alive(trial: FrozenTrial, before: _Claim | None) -> _Claim:
        beat = trial.user_attrs.get("beat", 0)
        same = before is not None and before.trial.number == trial.number and before.beat == beat
        return _Claim(trial, beat, before.seen if before is not None and same else time.monotonic())

    def _close_lost(self, keys: list[ConfigKey]) -> None:
        """Close claims of processes that are gone. What was measured, and not closed, is kept."""
        for key in keys:
            trial = self._theirs.pop(key).trial
            measured = from_optuna(trial)
            with contextlib.suppress(UpdateFinishedTrialError):  # another process has closed it
                if measured is not None:
                    self._storage.set_trial_state_values(trial._trial_id, state_of(measured), values_of(measured))
                    continue
                if trial.user_attrs.get("begun"):
                    self._storage.set_trial_user_attr(trial._trial_id, "lost", True)
                self._close(trial._trial_id)
        if keys:
            self._refresh()

    def _close(self, trial: int) -> None:
        """Close a running trial unmeasured."""
        with self._access, self._storage_errors(), contextlib.suppress(UpdateFinishedTrialError):
            self._storage.set_trial_state_values(trial, TrialState.PRUNED)

    def _beat(self) -> None:
        """Signs of life for the claims of this process."""
        for beat in itertools.count(1):
            if self._closing.wait(BEAT_SECONDS):
                return
            with self._access:
                for trial in self._mine.values():  # one that is lost does not keep the others from being seen
                    with contextlib.suppress(RequestError, UpdateFinishedTrialError), self._storage_errors():
                        self._storage.set_trial_user_attr(trial, "beat", beat)

    @contextlib.contextmanager
    def _storage_errors(self, advice: str = _GO_ON) -> Iterator[None]:
        try:
            yield
        except storage.errors() as error:
            reason = storage.reason(error)
            where = storage.shown(self._where)
            raise RequestError(f"{where}: the ledger cannot be used: {reason}; {advice}") from None

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order they were measured."""
        return list(self._known.values())

    @property
    def best(self) -> list[Trial]:
        """The trials that succeeded, best first."""
        return sorted((t for t in self.trials if t.value is not None), key=lambda t: t.value or 0.0)

    @property
    def failures(self) -> dict[str, int]:
        """How many trials failed, by reason."""
        return dict(Counter(t.outcome.failure for t in self.trials if t.outcome.failure is not None))


def study_name(space: Space, sizes: Mapping[str, int]) -> str:
    """How the names of all studies of a space at one size begin."""
    return f"{space.name} {size_text(sizes)} "


def stored(opened: BaseStorage, space: Space, sizes: Mapping[str, int]) -> Iterator[StoredStudy]:
    """The studies of a space at one size in a storage."""
    for study in opened.get_all_studies():
        if study.study_name.startswith(study_name(space, sizes)):
            trials = (from_optuna(trial) for trial in opened.get_all_trials(study._study_id, deepcopy=False))
            latest = {config_key(trial.config): trial for trial in trials if trial is not None}
            signature, toolchain = _conditions(study.user_attrs)
            yield StoredStudy(str(study.user_attrs.get("device", "")), signature, toolchain, list(latest.values()))


def _conditions(attributes: Mapping[str, Any]) -> tuple[str, str]:
    """Signature and toolchain of a study; version 0.1.0 wrote them, and the method, as one text."""
    if "signature" in attributes:
        return str(attributes["signature"]), str(attributes["toolchain"])
    signature, _, rest = str(attributes.get("conditions", "")).partition(" ")
    return signature, rest.partition(" Method(")[0].strip()
