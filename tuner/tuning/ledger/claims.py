"""The claims on the configurations of a study: running trials, whose owners write heartbeats."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial

from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.space.config import Config, ConfigKey, Value, config_key
from tuner.tuning.ledger.stored_trial import is_config

if TYPE_CHECKING:
    from tuner.tuning.ledger.open_study import OpenStudy

HEARTBEAT_SECONDS, LEASE_SECONDS = 3.0, 15.0  # heartbeat interval; a claim expires this long after its last heartbeat
END_SECONDS = 2.0  # how long ending the claims waits for a request to the storage


@dataclass(frozen=True)
class _Claim:
    """A running trial of another process and its latest heartbeat.

    `seen_at` is when this process first saw that heartbeat, in seconds on its monotonic clock.
    """

    trial: FrozenTrial
    heartbeat: object
    seen_at: float


class Claims:
    """The claims of this process, and those of other processes when they were last read.

    `access` is held by whoever calls a method, except `release_all`.
    """

    def __init__(self, study: OpenStudy, parameters: Mapping[str, Sequence[Value]], access: threading.RLock) -> None:
        self._study, self._parameters, self._access = study, parameters, access
        self._worker = f"{platform.node()} {os.getpid()} {uuid.uuid4().hex[:8]}"
        self.own: dict[ConfigKey, int] = {}  # ids of the running trials of this process
        self._others: dict[ConfigKey, _Claim] = {}
        self._closing = threading.Event()
        self._heartbeat_thread = threading.Thread(target=self._write_heartbeats, name="ledger", daemon=True)

    def start_heartbeats(self) -> None:
        """Write a heartbeat for each claim of this process, every HEARTBEAT_SECONDS, until `release_all`."""
        self._heartbeat_thread.start()

    def _write_heartbeats(self) -> None:
        for heartbeat in itertools.count(1):
            if self._closing.wait(HEARTBEAT_SECONDS):
                return
            with self._access:
                for trial_id in self.own.values():
                    self._study.beat(trial_id, heartbeat)

    def release_all(self) -> None:
        """Stop the heartbeats and release all claims of this process. Those that the storage does not take in
        END_SECONDS expire by themselves."""
        self._closing.set()
        if self._heartbeat_thread.is_alive():
            self._heartbeat_thread.join(END_SECONDS)
        if self._access.acquire(timeout=END_SECONDS):
            for key in list(self.own):
                with contextlib.suppress(RequestError):
                    self.release(key)
            self._access.release()

    def add(self, config: Config, **more: Any) -> int:
        """Add a running trial of this process with `more` attributes, and return its id."""
        trial_id = self._study.begin(config, {"worker": self._worker, "beat": 0, **more})
        self.own[config_key(config)] = trial_id
        return trial_id

    def release(self, key: ConfigKey, was_lost: bool = False) -> None:
        """Close a claim of this process without a result. `was_lost`: what measured the configuration has ended.

        If the storage fails, the claim gets no more heartbeats. So it expires, and then counts as lost.
        """
        trial_id = self.own.pop(key)
        if was_lost:
            self._study.note(trial_id, "lost", True)
        self._study.end(trial_id)

    def read(self, running: Iterable[FrozenTrial]) -> None:
        """Take over the claims of other processes from the running trials; a configuration's first claim wins."""
        others, own = dict[ConfigKey, _Claim](), set(self.own.values())
        for frozen in running:
            if frozen._trial_id in own:
                continue
            if frozen.user_attrs.get("worker") == self._worker:  # this process created it, but the response was lost
                self._study.end(frozen._trial_id)
                continue
            trial = self._study.measured(frozen)
            config = frozen.params if trial is None else trial.config
            if is_config(config, self._parameters) or not self._study.shared:
                key = config_key(config)
                others.setdefault(key, self._observed(frozen, self._others.get(key)))
        self._others = others

    def _observed(self, trial: FrozenTrial, previous: _Claim | None) -> _Claim:
        """The claim with its latest heartbeat; if the heartbeat is unchanged, so is `seen_at`.

        After an outage of the storage the lease starts again, because the owner could not write heartbeats.
        """
        heartbeat = trial.user_attrs.get("beat", 0)
        if previous and (previous.trial._trial_id, previous.heartbeat) == (trial._trial_id, heartbeat):
            return _Claim(trial, heartbeat, max(previous.seen_at, self._study.stalled_at))
        return _Claim(trial, heartbeat, time.monotonic())

    def other(self, key: ConfigKey) -> FrozenTrial | None:
        """The running trial of another process on a configuration; None if there is none."""
        claim = self._others.get(key)
        return None if claim is None else claim.trial

    def close_expired(self) -> bool:
        """Close the claims of other processes without a heartbeat for LEASE_SECONDS. Returns whether there were any."""
        now = time.monotonic()
        return self._close([key for key, claim in self._others.items() if now - claim.seen_at > LEASE_SECONDS])

    def close_others(self) -> bool:
        """Close the claims of all other processes, which have ended. Returns whether there were any."""
        return self._close(list(self._others))

    def _close(self, keys: Sequence[ConfigKey]) -> bool:
        """Close claims of processes that have ended. If the trial was already measured, its result counts."""
        for key in keys:
            claim = self._others.pop(key).trial
            trial = self._study.measured(claim)
            if trial is None and claim.user_attrs.get("begun"):
                self._study.note(claim._trial_id, "lost", True)
            self._study.end(claim._trial_id, trial)  # unless another process has already closed it
        return bool(keys)
