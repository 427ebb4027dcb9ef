"""One run of a crew over a search: a thread for each worker, and the state that the threads share."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from tuner.devices.environment import LOST, NOT_STORED, OTHER
from tuner.errors import DeviceError, EnvironmentTrouble, TrialError, WorkerDied
from tuner.measure.process.attempts import with_retries
from tuner.measure.results import BUILD, VERIFY, Outcome
from tuner.measure.timing.clock import StageWatch
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.values.forms import ConfigReference
from tuner.tuning.crew.futility import Futility
from tuner.tuning.crew.queue import Queue
from tuner.tuning.ledger.trial import Trial

if TYPE_CHECKING:
    from tuner.measure.process.compile_pool import CompilePool
    from tuner.measure.process.supervisor import Supervisor
    from tuner.measure.process.task import Task
    from tuner.search.search import Search
    from tuner.tuning.ledger.ledger import Ledger
    from tuner.tuning.progress import Progress

logger = logging.getLogger(__name__)
POLL_SECONDS = 0.5  # longest wait of the main thread before it checks the workers again
# Consecutive configurations with environment trouble. After that, none is retried, and trouble that is known to come
# from no configuration ends the run.
MOST_IN_TROUBLE = 3


class CrewRun:
    """One run of a crew: a thread for each worker, and their shared state, which the queue's `changed` guards."""

    def __init__(
        self,
        task: Task,
        compile_pool: CompilePool,
        search: Search,
        ledger: Ledger,
        progress: Progress,
        noted: Callable[[str], None],
        given: bool = False,
    ) -> None:
        """`given` marks the trials as chosen by the caller instead of a search."""
        self._given = given
        self._task, self._compile_pool, self._search = task, compile_pool, search
        self._ledger, self._progress, self._noted = ledger, progress, noted
        self._queue = Queue(search, ledger, compile_pool, task.timeout, self._report)
        form = task.space.operation.reference
        self._reference = dict(form.config) if isinstance(form, ConfigReference) else None
        arguments = task.space.operation.arguments
        self._futility = Futility(search.pool, task.space.default, compile_pool.depth, self._reference, arguments)
        self._in_trouble = 0  # configurations with environment trouble since the last measured one
        self.trouble: EnvironmentTrouble | None = None  # the latest
        self._best: Trial | None = None
        self._ended = threading.Event()  # set when all threads have ended
        self._reported: set[ConfigKey] = set()
        self._new: set[ConfigKey] = set()  # tried by this run; failures of earlier runs may have had other causes
        self.at_work: set[Supervisor] = set()
        self.is_over = False  # whether a worker has found nothing left to measure
        self.error: BaseException | None = None

    @property
    def count(self) -> int:
        """The number of trials that were reported to search and progress."""
        return len(self._reported)

    def start(self, worker: Supervisor, lead: Supervisor) -> None:
        """Start a worker, in a new thread."""
        self.at_work.add(worker)
        self._ended.clear()
        threading.Thread(target=self.work, args=(worker, lead), daemon=True).start()

    def wait(self, seconds: float = math.inf) -> None:
        """Return when every worker has finished, or after `seconds`."""
        # Thread.join, once interrupted, may treat a running thread as dead (CPython issue 90882). Waiting for `changed`
        # would delay an interrupt until its holder releases it.
        deadline = time.monotonic() + seconds
        while self.at_work and time.monotonic() < deadline:
            self._ended.wait(POLL_SECONDS)

    def work(self, worker: Supervisor, lead: Supervisor) -> None:
        """The thread of one worker."""
        try:
            self._queue.build_ahead()  # while the lead computes inputs and answers
            if not self._prepare(worker, lead):
                return
            while (config := self._queue.take(len(self.at_work), watch := StageWatch())) is not None:
                try:
                    trial = self._measure(worker, config, watch)
                except DeviceError as error:
                    self._lose(worker, config, error)
                    return
                if self._queue.stopping:
                    return
                self._finish(config, trial)
            self.is_over = True
        except BaseException as error:
            self.error = self.error or error
            self.stop()
        finally:
            with self._queue.changed:
                self.at_work.discard(worker)
                self._queue.changed.notify_all()
                if not self.at_work:
                    self._ended.set()

    def _prepare(self, worker: Supervisor, lead: Supervisor) -> bool:
        """Wait until inputs and answers are there, and show what is noted of them. Returns whether the worker can
        measure."""
        with_retries(lead.get_ready, self._noted, self._pause)  # its products are read by the other workers
        self._show_notes(lead)
        return True

    def _show_notes(self, worker: Supervisor) -> None:
        for sentence in (*worker.missed_cases, *worker.notes):
            self._noted(sentence)

    def _lose(self, worker: Supervisor, config: Config, error: DeviceError) -> None:
        """Leave a claimed configuration to the other workers. Raises EnvironmentTrouble if there is none."""
        with self._queue.changed:
            self.at_work.discard(worker)
            if self._queue.stopping or not self.at_work:
                raise EnvironmentTrouble(str(error)) from None
            self._queue.put_back(config)
            self._noted(f"{error}; the other devices continue")

    def stop(self) -> None:
        """Tell all threads to finish; they check at every poll. Takes no lock, so it never waits."""
        self._queue.stopping = True

    def _measure(self, worker: Supervisor, config: Config, watch: StageWatch) -> Trial | None:
        """Measure a claimed configuration; None if the claim was lost before the measurement began. Raises DeviceError
        if the device is lost, and EnvironmentTrouble if the machine stays in trouble.

        `watch` has the time that the configuration has taken so far.
        """
        best = None
        if self._task.method.races:
            best = (self._best and self._best.value) or math.inf

        def attempt() -> Outcome | None:
            with watch.stage(BUILD):
                self._build(worker, config)
            return self._launched(worker, config, best, watch)

        try:
            patient = self._in_trouble < MOST_IN_TROUBLE
            outcome = with_retries(attempt, self._noted, self._pause) if patient else attempt()
        except (TrialError, WorkerDied) as error:
            outcome = Outcome(failure=error.reason, log=str(error), seconds=watch.seconds)
        except EnvironmentTrouble as trouble:
            if trouble.reason == LOST:
                raise DeviceError(str(trouble)) from None
            return self._trouble_trial(config, trouble)
        if outcome is None:
            return None
        self._in_trouble = 0
        if outcome.seconds is not watch.seconds:
            waited = watch.seconds[BUILD]
            outcome = replace(outcome, seconds={**outcome.seconds, BUILD: outcome.seconds.get(BUILD, 0.0) + waited})
        return Trial.of(config, outcome, self._task.method, self._task.timeout, self._given)

    def _build(self, worker: Supervisor, config: Config) -> None:
        """Wait until the configuration is built. Raises as `CompilePool.wait`."""
        self._compile_pool.wait(config)

    def _launched(self, worker: Supervisor, config: Config, best: float | None, watch: StageWatch) -> Outcome | None:
        """The outcome of a built configuration; None if the claim was lost before the measurement began."""
        worker.get_ready()
        if not self._ledger.begin(config):
            return None
        with watch.stage(VERIFY):  # the worker reports its stages, unless it dies, most likely in this one
            return worker.measure(config, best)

    def _trouble_trial(self, config: Config, trouble: EnvironmentTrouble) -> Trial:
        """A failed trial, for this run only, of a configuration that may have caused the trouble itself.

        Raises the trouble again if only the machine can have caused it, or if it lasts.
        """
        self._in_trouble += 1
        if trouble.reason not in NOT_STORED or (trouble.reason == OTHER and self._in_trouble >= MOST_IN_TROUBLE):
            raise trouble
        self.trouble = trouble
        log = f"{trouble}; not recorded, so the next run tries it again"
        return Trial(config, Outcome(failure=trouble.reason, log=log), (), self._task.timeout, datetime.now())

    def _pause(self, seconds: float) -> bool:
        """Wait before another attempt. Returns whether the run is over."""
        with self._queue.changed:
            return self._queue.changed.wait_for(lambda: self._queue.stopping, seconds)

    def _finish(self, config: Config, trial: Trial | None) -> None:
        """Write the trial and report it. If the claim was lost, another process measures the configuration."""
        if trial is not None:
            logger.debug("%s", trial)
        if trial is not None and trial.outcome.failure in NOT_STORED:
            self._ledger.set_aside(trial)
            written = True
        else:
            written = trial is not None and self._ledger.finish(trial)
        self._new.add(config_key(config))
        self._queue.end(config, trial if written else None)

    def _report(self, trial: Trial) -> None:
        """Report a trial to search and progress, once."""
        key = config_key(trial.config)
        if key in self._reported:
            return
        self._reported.add(key)
        self._search.tell(trial.config, trial.values or None)
        if trial.value is not None and (self._best is None or trial.value < (self._best.value or 0.0)):
            self._best = trial
        self._progress.measured(trial, self.count, self._best)
        reason = self._futility.add(trial) if key in self._new else None
        if (doubts := self._futility.doubts()) is not None:
            self._search.prefer(doubts)
        if reason is not None and all(trial.config == self._reference for trial in self._ledger.best):
            self._noted(reason)
            self._queue.give_up()
