"""The ledger: all trials in an Optuna study, each written as soon as it is measured.

A process claims a configuration before it measures it, by adding a running trial. If several processes claim it, the
trial with the lowest number wins, so processes that share a storage measure no configuration twice. The owner of a
claim writes heartbeats. A claim without a heartbeat for LEASE_SECONDS is closed, and the configuration is free again.
A trial that is closed without a measurement is PRUNED.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

# Another thread may be importing Optuna. Importing parts of it meanwhile would deadlock, so import it as a whole first.
import optuna  # noqa: F401
from optuna.trial import FrozenTrial, TrialState

from tuner.measure.results import Outcome
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.model import Space
from tuner.tuning.ledger.claims import HEARTBEAT_SECONDS, Claims
from tuner.tuning.ledger.open_study import OpenStudy
from tuner.tuning.ledger.stored_trial import is_config
from tuner.tuning.ledger.study import StudyKey
from tuner.tuning.ledger.trial import Trial

PAUSE_SECONDS = 0.2  # between two checks whether another process's claim has ended
MOST_LOSSES = 3  # a configuration is not tried again after so many processes ended while measuring it


class Ledger:
    """The trials of one space and StudyKey, as a context manager. Its methods are thread-safe.

    If either changes, another study is opened, so old times are never mixed with new ones. Without a URL, the study is
    in a journal file, which one process at a time owns. With a URL, the study is in a database, which processes on
    several machines share. Corrupt trials count as not measured. Every method raises RequestError if the storage cannot
    be read or written.
    """

    def __init__(
        self,
        space: Space,
        key: StudyKey,
        fresh: bool = False,
        url: str | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Open the study, or an empty one if `fresh`. Raises RequestError if another process owns the file.

        `say` is called with messages for the user about trials that are not used, and outages of a server.
        """
        self.is_kept = True  # its file outlasts this process
        self._parameters = space.parameters
        self._access = threading.RLock()
        self._trials: dict[ConfigKey, Trial] = {}
        self._news: list[Trial] = []  # of other processes, since the last call of news()
        self._losses: Counter[ConfigKey] = Counter()
        self._doubtful: set[ConfigKey] = set()  # measured by earlier runs, to be measured once more
        self._closed: set[int] = set()  # ids of the closed trials that were already read
        self._first_open = 0  # all trials with lower numbers are closed
        self._study = OpenStudy(space, key, fresh, url, say)
        self._claims = Claims(self._study, space.parameters, self._access)
        try:
            self._begin(space, key, fresh)
            if not self._trials and self._study.has_earlier_protocol(space, key):
                say("earlier trials were timed by an older protocol; they are kept, but not used")
        except BaseException:
            self._study.close()
            raise
        if self.shared:
            self._claims.start_heartbeats()

    @property
    def shared(self) -> bool:
        """Whether the study is in a database, which other processes may use at the same time."""
        return self._study.shared

    @property
    def name(self) -> str:
        """The name of the study."""
        return self._study.name

    def _begin(self, space: Space, key: StudyKey, fresh: bool) -> None:
        """Read the study, and what other studies have of it."""
        self._refresh()
        if not self._trials and not fresh:
            self._take_over(space, key)
        self._study.report_unreadable()
        if not self.shared and self._claims.close_others():  # this process owns the file, so their owners have ended
            self._refresh()
        self._news.clear()
        self._doubtful = {
            config
            for config, trial in self._trials.items()
            if trial.outcome.doubtful or trial.outcome.failure == "compile memory"  # this run may have more memory
        }

    def _take_over(self, space: Space, key: StudyKey) -> None:
        """Copy the trials that other studies have of this one's configurations, each only once.

        Of processes that enter a new study in a database together, the one that claims the first of these
        configurations copies them, while the others wait. If it ends before, another one copies the rest.
        """
        trials = self._study.elsewhere(space, key)
        while any(config_key(trial.config) not in self._trials for trial in trials):
            first, claim_id = trials[0].config, None
            if self.shared:
                claim_id = self._claims.add(first)
                if self._is_claimed_before(first, claim_id):
                    self._claims.release(config_key(first))
                    self._await_claim(first)
                    continue
            self._copy([trial for trial in trials if config_key(trial.config) not in self._trials], claim_id)
            if self.shared:
                self._claims.release(config_key(first))
            self._refresh()

    def _copy(self, trials: Sequence[Trial], claim_id: int | None) -> None:
        """Copy trials of other studies into this one, and write heartbeats for the claim meanwhile."""
        beaten_at = time.monotonic()
        for number, trial in enumerate(trials, 1):
            self._study.copy(trial)
            if claim_id is not None and time.monotonic() - beaten_at > HEARTBEAT_SECONDS:
                beaten_at = time.monotonic()
                self._study.note(claim_id, "beat", number)

    def _await_claim(self, config: Config) -> None:
        """Wait until no other process claims `config`."""
        self.news()
        while self.is_claimed(config):
            time.sleep(PAUSE_SECONDS)
            self.news()

    def note_command(self, command: str) -> None:
        """Write this run's command line into the study, unless the last run had the same one."""
        with self._access:
            self._study.note_command(command)

    def note_accusation(self, accused: str) -> None:
        """Write into the study why its reference is doubtful; `accused` is empty if the reference is not doubtful."""
        with self._access:
            self._study.note_accusation(accused)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_up()
        self._claims.release_all()
        if not self.is_kept:
            self._study.delete()
        self._study.close()

    def give_up(self) -> None:
        """Stop waiting for a server that does not answer. Takes no lock, so it never waits."""
        self._study.give_up()

    def known(self, config: Config, timeout: float) -> Trial | None:
        """The trial of `config`; None if `config` must be measured.

        It must be measured if it has no trial, if it timed out with a limit below `timeout` seconds, or if an earlier
        run measured it with a doubtful outcome.
        """
        key = config_key(config)
        trial = self._trials.get(key)
        if trial is not None and trial.outcome.failure in ("timeout", "compile timeout") and trial.timeout < timeout:
            return None
        if key in self._doubtful:
            return None
        if trial is None and self._losses[key] >= MOST_LOSSES:
            log = f"{self._losses[key]} processes ended while measuring it; a fresh run tries it again"
            trial = self._trials[key] = Trial(config, Outcome(failure="repeat offender", log=log))
        return trial

    def claim(self, config: Config, timeout: float) -> bool:
        """Claim `config` for this process. False if another process has claimed or measured it."""
        key = config_key(config)
        with self._access:
            trial_id = self._claims.add(config)
            if self.shared and (self._is_claimed_before(config, trial_id) or self.known(config, timeout)):
                self._claims.release(key)
                return False
            return True

    def _is_claimed_before(self, config: Config, trial_id: int) -> bool:
        """Whether another process claimed `config` before this one, whose claim is `trial_id`."""
        number = self._study.number(trial_id)
        self._refresh()
        other = self._claims.other(config_key(config))
        return other is not None and other.number < number

    def begin(self, config: Config) -> bool:
        """Record that the device starts measuring `config`. False if the claim has expired.

        If this process then dies, `config` is suspected as the cause; claims that have not begun are not.
        """
        key = config_key(config)
        with self._access:
            has_begun = self._study.note(self._claims.own[key], "begun", True)
            if not has_begun:
                del self._claims.own[key]
            return has_begun

    def finish(self, trial: Trial) -> bool:
        """Write the trial of a claim; it is on disk when this returns.

        False if the claim has expired: then another process measures the configuration.
        """
        key = config_key(trial.config)
        earlier = self._trials.get(key)
        if key in self._doubtful and earlier and None not in (earlier.value, trial.value):
            better = min(earlier, trial, key=lambda each: each.value or 0.0)  # other programs only add time
            trial = replace(better, outcome=replace(better.outcome, doubtful=trial.outcome.doubtful))
        with self._access:
            trial_id = self._claims.own[key]
            counts = True  # also after KeyboardInterrupt, because the trial may already have been written
            try:
                counts = self._study.write(trial_id, trial)
            except Exception:
                counts = False
                raise
            finally:
                del self._claims.own[key]
                if counts:
                    self._trials[key] = trial
                    self._doubtful.discard(key)
            return counts

    def release(self, config: Config, was_lost: bool = False) -> None:
        """Release a claim without a trial. If `was_lost`, what measured the configuration has ended, perhaps because of
        it, so that this counts as one of the MOST_LOSSES."""
        with self._access:
            self._claims.release(config_key(config), was_lost)
            if was_lost:
                self._refresh()

    def set_aside(self, trial: Trial) -> None:
        """Remember a failure in this process only, because the machine may be the cause. Releases the claim, if any."""
        with self._access:
            if config_key(trial.config) in self._claims.own:
                self.release(trial.config)
            self._trials[config_key(trial.config)] = trial

    def revise(self, trial: Trial) -> None:
        """Write a new trial of a measured configuration, which replaces the earlier one."""
        with self._access:
            self._doubtful.discard(config_key(trial.config))  # so `finish` stores this trial even if it is slower
            self._claims.add(trial.config, revised=True)
            self.finish(trial)

    def news(self) -> list[Trial]:
        """The trials that other processes wrote since the last call, or since opening. Closes expired claims."""
        with self._access:
            self._refresh()
            if self._claims.close_expired():
                self._refresh()
            news, self._news = self._news, []
            return news

    def is_claimed(self, config: Config) -> bool:
        """Whether another process had claimed `config` at the last call of `news`."""
        return self._claims.other(config_key(config)) is not None

    def _refresh(self) -> None:
        """Read the trials and claims that other processes have written."""
        with self._access:
            trials = self._study.trials()
            running = list[FrozenTrial]()
            for frozen in trials[self._first_open :]:
                if frozen.state == TrialState.RUNNING:
                    running.append(frozen)
                elif frozen._trial_id not in self._closed:
                    self._closed.add(frozen._trial_id)
                    self._read_closed(frozen)
            self._claims.read(running)
            while self._first_open < len(trials) and trials[self._first_open].state.is_finished():
                self._first_open += 1

    def _read_closed(self, frozen: FrozenTrial) -> None:
        """Read a closed trial: its result, or that its process ended while measuring it."""
        trial = self._study.measured(frozen)
        if trial is not None:
            key = config_key(trial.config)
            if key not in self._trials:
                self._news.append(trial)
            self._trials[key] = trial
            self._doubtful.discard(key)
        elif frozen.user_attrs.get("lost") and is_config(frozen.params, self._parameters):
            self._losses[config_key(frozen.params)] += 1

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order of measurement."""
        return list(self._trials.values())

    @property
    def best(self) -> list[Trial]:
        """The successful trials, best first."""
        return sorted((t for t in self.trials if t.value is not None), key=lambda t: t.value or 0.0)
