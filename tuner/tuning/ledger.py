"""The ledger: every trial of every configuration, in an Optuna study, written as soon as it is measured.

A process claims a configuration before it measures it: it adds a running trial. Of several claims the one with the
lowest number holds, so processes that share a storage measure no configuration twice. The owner of a claim writes
heartbeats. After a lease without a heartbeat the claim is closed, and the configuration is free again. Trials that are
closed unmeasured are PRUNED.
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
from dataclasses import asdict, dataclass, replace
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
from tuner.measure.method import PROTOCOL, STANDARD, Method
from tuner.measure.results import Outcome
from tuner.space.model import Config, ConfigKey, Space, config_key, size_text
from tuner.tuning import journal, storage
from tuner.tuning.trial import Trial, attribute, from_optuna, state_of, values_of

HEARTBEAT_SECONDS, LEASE_SECONDS = 3.0, 15.0  # between heartbeats; a claim expires after a lease without one
MOST_LOSSES = 3  # processes that may end while they measure a configuration; then it is not tried again

_RESUME = "what was measured before is kept, and the same command goes on from there"


@dataclass(frozen=True)
class StudyKey:
    """The conditions that the trials of one ledger share, besides the space: sizes, options, the device's name, the
    signature of the source, toolchain, method, and the protocol of measuring. Times depend on all of them."""

    sizes: dict[str, int]
    options: dict[str, float]
    device: str
    signature: str
    toolchain: str
    method: Method = STANDARD
    protocol: int = PROTOCOL

    def digest(self, space: Space) -> str:
        """The study's name."""
        m = self.method
        method = f"Method(repeats={m.repeats}, cold={m.cold}, objectives={m.objectives}, race={m.race})"
        protocol = f" protocol {self.protocol}" if self.protocol > 1 else ""  # nobody named the first one
        conditions = f"{self.signature} {self.toolchain} {method}{protocol}"
        options, values = sorted(self.options.items()), sorted(space.parameters.items())
        return paths.digest(self.device, conditions, repr(options), repr(values))


@dataclass(frozen=True)
class StoredStudy:
    """A study in a storage, for reading only."""

    device: str
    signature: str
    toolchain: str
    protocol: int
    trials: list[Trial]


@dataclass(frozen=True)
class _Claim:
    """A running trial of another process, its latest heartbeat, and the time on this process's monotonic clock, in
    seconds, when that heartbeat was first seen."""

    trial: FrozenTrial
    heartbeat: int
    seen_at: float


class Ledger:
    """The trials of one space and StudyKey, as a context manager. Several threads may call its methods.

    A change of either opens another study, so old times are never taken for new ones. Without a URL the study lies in
    a file of its own, which belongs to one process at a time. At a URL, processes on several machines share it. Every
    method raises RequestError where the storage cannot be read or written.
    """

    def __init__(self, space: Space, key: StudyKey, fresh: bool = False, url: str | None = None) -> None:
        """Opens the study, or an empty one if `fresh`. Raises RequestError where another process uses the file."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.name = f"{study_name(space, key.sizes)}{key.device} {key.digest(space)[:12]}"
        self.shared = url is not None
        self._where = url or str(self._file(space, self.name))
        self._distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in space.parameters.items()
        }
        self._access = threading.RLock()
        self._file_lock: BaseFileLock | None = None
        self._trials: dict[ConfigKey, Trial] = {}
        self._news: list[Trial] = []  # of other processes, since the last call of news()
        self._losses: Counter[ConfigKey] = Counter()
        self._own_claims: dict[ConfigKey, int] = {}  # ids of the running trials of this process
        self._other_claims: dict[ConfigKey, _Claim] = {}
        self._doubtful: set[ConfigKey] = set()  # measured by earlier runs, and to be measured once more
        self._closed: set[int] = set()  # numbers of the closed trials that have been read
        self._first_open = 0  # all lower numbers are closed
        self._closing = threading.Event()
        self._heartbeat_thread = threading.Thread(target=self._write_heartbeats, name="ledger", daemon=True)
        try:
            with self._storage_errors("check that the folder or server is there, and can be written"):
                self._open(fresh, key)
        except BaseException:
            self._unlock()
            raise
        if self.shared:
            self._heartbeat_thread.start()

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
        self._study_id = study._study_id
        if "device" not in study.user_attrs:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Optuna calls it experimental
                study.set_metric_names(list(key.method.metrics))
            for name in ("device", "signature", "toolchain"):
                study.set_user_attr(name, getattr(key, name))
            study.set_user_attr("method", asdict(key.method))
            study.set_user_attr("protocol", key.protocol)
        self._refresh()
        if not self.shared:  # this process alone has the file, so the owners of claims in it are gone
            self._close_abandoned(list(self._other_claims))
        self._news.clear()
        self._doubtful = {config for config, trial in self._trials.items() if trial.outcome.doubtful}

    @staticmethod
    def _file(space: Space, name: str) -> Path:
        return paths.state() / "studies" / space.name / f"{paths.digest(name)}.log"

    def has_earlier_protocol(self, space: Space, key: StudyKey) -> bool:
        """Whether trials of the same conditions were timed by an earlier protocol. They are in a study of their own."""
        begin = self.name.rpartition(" ")[0]
        names = [f"{begin} {replace(key, protocol=p).digest(space)[:12]}" for p in range(1, key.protocol)]
        if not self.shared:
            return any(self._file(space, name).exists() for name in names)
        with self._storage_errors():
            return any(study.study_name in names for study in self._storage.get_all_studies())

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        if self._heartbeat_thread.is_alive():
            self._heartbeat_thread.join()
        with self._access:
            for key in list(self._own_claims):
                with contextlib.suppress(RequestError):
                    self._close(self._own_claims.pop(key))
        self._unlock()

    def _unlock(self) -> None:
        if self._file_lock is not None:
            self._file_lock.release()

    def known(self, config: Config, timeout: float) -> Trial | None:
        """The trial of `config`; None where there is none, where it timed out after less than `timeout` s, or where an
        earlier run has lost its race in a doubtful way."""
        key = config_key(config)
        trial = self._trials.get(key)
        if trial is not None and trial.outcome.failure == "timeout" and trial.timeout < timeout:
            return None
        if key in self._doubtful:
            return None
        if trial is None and self._losses[key] >= MOST_LOSSES:
            log = f"{self._losses[key]} processes ended while they measured it; --fresh tries it again"
            trial = self._trials[key] = Trial(config, Outcome(failure="repeat offender", log=log))
        return trial

    def claim(self, config: Config, timeout: float) -> bool:
        """Claim `config` for this process. False where another process has claimed or measured it."""
        key = config_key(config)
        attributes: dict[str, Any] = {"worker": f"{platform.node()} {os.getpid()}", "beat": 0}
        template = create_trial(
            state=TrialState.RUNNING, params=config, distributions=self._distributions, user_attrs=attributes
        )
        with self._access, self._storage_errors():
            trial_id = self._storage.create_new_trial(self._study_id, template_trial=template)
            self._own_claims[key] = trial_id
            if self.shared:
                number = self._storage.get_trial(trial_id).number
                self._refresh()
                other = self._other_claims.get(key)
                if self.known(config, timeout) or (other is not None and other.trial.number < number):
                    self._close(self._own_claims.pop(key))
                    return False
            return True

    def begin(self, config: Config) -> bool:
        """Write that the device measures `config` from now on. False where the claim has expired.

        If this process dies, `config` is to blame, and not a claim that still waits for the device.
        """
        key = config_key(config)
        with self._access, self._storage_errors():
            try:
                self._storage.set_trial_user_attr(self._own_claims[key], "begun", True)
            except UpdateFinishedTrialError:
                del self._own_claims[key]
                return False
            return True

    def finish(self, trial: Trial) -> bool:
        """Write the trial of a claim; it is on disk when this returns. False where the claim has expired: then another
        process measures the configuration."""
        key = config_key(trial.config)
        with self._access, self._storage_errors():
            try:
                self._storage.set_trial_user_attr(self._own_claims[key], "measured", attribute(trial))
                self._storage.set_trial_state_values(self._own_claims[key], state_of(trial), values_of(trial))
            except UpdateFinishedTrialError:
                return False
            finally:
                del self._own_claims[key]
            self._trials[key] = trial
            self._doubtful.discard(key)
            return True

    def release(self, config: Config) -> None:
        """Give up a claim unmeasured."""
        with self._access:
            self._close(self._own_claims.pop(config_key(config)))

    def set_aside(self, trial: Trial) -> None:
        """Keep a failure that may be the machine's to this process alone, and give up the claim."""
        with self._access:
            self.release(trial.config)
            self._trials[config_key(trial.config)] = trial

    def revise(self, trial: Trial) -> None:
        """Write another trial of a measured configuration; the last one counts."""
        template = create_trial(
            state=state_of(trial),
            values=values_of(trial),
            params=trial.config,
            distributions=self._distributions,
            user_attrs={"measured": attribute(trial)},
        )
        with self._access, self._storage_errors():
            self._storage.create_new_trial(self._study_id, template_trial=template)
            self._trials[config_key(trial.config)] = trial

    def news(self) -> list[Trial]:
        """The trials of other processes since the last call, or since the ledger was opened. Closes expired claims."""
        with self._access, self._storage_errors():
            self._refresh()
            now = time.monotonic()
            expired = [key for key, claim in self._other_claims.items() if now - claim.seen_at > LEASE_SECONDS]
            self._close_abandoned(expired)
            news, self._news = self._news, []
            return news

    def is_claimed(self, config: Config) -> bool:
        """Whether another process had claimed `config` at the last call of `news`."""
        return config_key(config) in self._other_claims

    def _refresh(self) -> None:
        """Read the trials and claims that other processes have written."""
        with self._access, self._storage_errors():
            trials = self._storage.get_all_trials(self._study_id, deepcopy=False)
            claims: dict[ConfigKey, _Claim] = {}
            own_ids = set(self._own_claims.values())
            for frozen in trials[self._first_open :]:
                key = config_key(frozen.params)
                if frozen.state == TrialState.RUNNING:
                    if frozen._trial_id not in own_ids and key not in claims:
                        claims[key] = self._observe(frozen, self._other_claims.get(key))
                elif frozen.number not in self._closed:
                    self._closed.add(frozen.number)
                    self._losses[key] += bool(frozen.user_attrs.get("lost"))
                    trial = from_optuna(frozen)
                    if trial is not None:
                        key = config_key(trial.config)
                        if key not in self._trials:
                            self._news.append(trial)
                        self._trials[key] = trial
                        self._doubtful.discard(key)
            self._other_claims = claims
            while self._first_open < len(trials) and trials[self._first_open].state.is_finished():
                self._first_open += 1

    @staticmethod
    def _observe(trial: FrozenTrial, previous: _Claim | None) -> _Claim:
        """The claim with its latest heartbeat; an unchanged heartbeat keeps the time when it was first seen."""
        heartbeat = trial.user_attrs.get("beat", 0)
        if previous and (previous.trial.number, previous.heartbeat) == (trial.number, heartbeat):
            return _Claim(trial, heartbeat, previous.seen_at)
        return _Claim(trial, heartbeat, time.monotonic())

    def _close_abandoned(self, keys: list[ConfigKey]) -> None:
        """Close the claims of processes that are gone. A trial that they measured but did not close counts."""
        for key in keys:
            claim = self._other_claims.pop(key).trial
            trial = from_optuna(claim)
            with contextlib.suppress(UpdateFinishedTrialError):  # another process has closed it
                if trial is not None:
                    self._storage.set_trial_state_values(claim._trial_id, state_of(trial), values_of(trial))
                    continue
                if claim.user_attrs.get("begun"):
                    self._storage.set_trial_user_attr(claim._trial_id, "lost", True)
                self._close(claim._trial_id)
        if keys:
            self._refresh()

    def _close(self, trial_id: int) -> None:
        """Close a running trial unmeasured."""
        with self._access, self._storage_errors(), contextlib.suppress(UpdateFinishedTrialError):
            self._storage.set_trial_state_values(trial_id, TrialState.PRUNED)

    def _write_heartbeats(self) -> None:
        """Write a heartbeat for each claim of this process, every HEARTBEAT_SECONDS."""
        for heartbeat in itertools.count(1):
            if self._closing.wait(HEARTBEAT_SECONDS):
                return
            with self._access:
                for trial_id in self._own_claims.values():  # an expired claim must not stop the others' heartbeats
                    with contextlib.suppress(RequestError, UpdateFinishedTrialError), self._storage_errors():
                        self._storage.set_trial_user_attr(trial_id, "beat", heartbeat)

    @contextlib.contextmanager
    def _storage_errors(self, advice: str = _RESUME) -> Iterator[None]:
        try:
            yield
        except storage.errors() as error:
            reason = storage.reason(error)
            where = storage.shown(self._where)
            raise RequestError(f"{where}: the ledger cannot be used: {reason}; {advice}") from None

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order they were measured."""
        return list(self._trials.values())

    @property
    def best(self) -> list[Trial]:
        """The trials that succeeded, best first."""
        return sorted((t for t in self.trials if t.value is not None), key=lambda t: t.value or 0.0)

    @property
    def failures(self) -> dict[str, int]:
        """How many trials failed, by reason."""
        return dict(Counter(t.outcome.failure for t in self.trials if t.outcome.failure is not None))


def study_name(space: Space, sizes: Mapping[str, int]) -> str:
    """The beginning of the names of all studies of a space at one size."""
    return f"{space.name} {size_text(sizes)} "


def stored_studies(optuna_storage: BaseStorage, space: Space, sizes: Mapping[str, int]) -> Iterator[StoredStudy]:
    """The studies of a space at one size in a storage."""
    for study in optuna_storage.get_all_studies():
        if study.study_name.startswith(study_name(space, sizes)):
            trials = map(from_optuna, optuna_storage.get_all_trials(study._study_id, deepcopy=False))
            latest = {config_key(trial.config): trial for trial in trials if trial is not None}
            signature, toolchain = _conditions(study.user_attrs)
            device, protocol = str(study.user_attrs.get("device", "")), int(study.user_attrs.get("protocol", 1))
            yield StoredStudy(device, signature, toolchain, protocol, list(latest.values()))


def _conditions(attributes: Mapping[str, Any]) -> tuple[str, str]:
    """Signature and toolchain of a study. Version 0.1.0 wrote both, and the method, as one text."""
    if "signature" in attributes:
        return str(attributes["signature"]), str(attributes["toolchain"])
    signature, _, rest = str(attributes.get("conditions", "")).partition(" ")
    return signature, rest.partition(" Method(")[0].strip()
