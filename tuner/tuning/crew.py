"""Workers for one or more devices of a kind, at work on one search and one ledger."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from types import TracebackType
from typing import Protocol

from tuner.devices import DeviceInfo
from tuner.errors import DeviceError, RequestError, TrialError, WorkerDied
from tuner.measure.method import objective_values
from tuner.measure.process import scratch
from tuner.measure.process.compile_pool import CompilePool
from tuner.measure.process.supervisor import Supervisor, Task
from tuner.measure.results import Outcome
from tuner.search.strategies import Search
from tuner.space.model import Config, ConfigKey, Scope, config_key
from tuner.tuning.ledger import Ledger
from tuner.tuning.trial import Trial

LOOK_AHEAD = 256  # configurations that are looked at for something to build
POLL_SECONDS = 0.5  # between looks at what other processes have done


class TrialListener(Protocol):
    """Told of every trial as it becomes known, with how many there are, and the best; and what a user should know."""

    def measured(self, trial: Trial, done: int, best: Trial | None) -> None: ...

    def noted(self, text: str) -> None: ...


class Crew:
    """A worker for each device, and compile workers ahead of all of them, as a context manager.

    Entering opens the devices and raises DeviceError where one cannot be had, RequestError where they differ. `device`
    then describes the first, `scope` is the problem on it, and `lead` its worker.
    """

    def __init__(self, task: Task, device_ids: Sequence[str]) -> None:
        self.task = task
        self._products = scratch.file()
        self._workers = [Supervisor(task, device_id, self._products) for device_id in device_ids]
        self.lead = self._workers[0]
        self._compile_pool: CompilePool | None = None

    def __enter__(self) -> Crew:
        try:
            self.lead.start()
            with ThreadPoolExecutor(len(self._workers)) as pool:
                list(pool.map(Supervisor.start, self._workers[1:]))
            for worker in self._workers[1:]:
                _check_alike(self.lead, worker)
            self._compile_pool = CompilePool(
                self.task.space, self.scope, self.device, self.task.timeout, len(self._workers)
            )
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        for worker in self._workers:
            worker.close()
        if self._compile_pool is not None:
            self._compile_pool.close()
        self._products.close()

    @property
    def device(self) -> DeviceInfo:
        """The first device."""
        return self.lead.device

    @property
    def scope(self) -> Scope:
        """The problem on the first device."""
        return self.lead.scope

    def run(self, search: Search, ledger: Ledger, progress: TrialListener) -> int:
        """Measure what the search asks for until it is over; how many configurations are known then.

        Interrupted, it stops the workers and gives their claims back. Raises RequestError where the ledger cannot be
        written, DeviceError where no device is left.
        """
        assert self._compile_pool is not None
        shift = _Shift(self.task, self._compile_pool, search, ledger, progress)
        try:
            for worker in self._workers:
                shift.start(worker, self.lead)
            shift.wait()
        finally:
            if shift.at_work:
                shift.stop()
                self._compile_pool.close()
                for worker in self._workers:
                    worker.kill()
                shift.wait()
        if shift.error is not None:
            raise shift.error
        return shift.done


def _check_alike(lead: Supervisor, other: Supervisor) -> None:
    for what in ("name", "toolchain"):
        first, second = getattr(lead.device, what), getattr(other.device, what)
        if first != second:
            raise RequestError(
                f"{lead.device.id} is {first}, {other.device.id} is {second}: devices of different kinds "
                "do not share a study; tune on each by itself"
            )


class _Shift:
    """One run of a crew: what its threads share. All of it changes under `_changed`, and they wait for one another's
    results there."""

    def __init__(
        self, task: Task, compile_pool: CompilePool, search: Search, ledger: Ledger, progress: TrialListener
    ) -> None:
        self._task, self._compile_pool, self._search = task, compile_pool, search
        self._ledger, self._progress = ledger, progress
        self._changed = threading.Condition()
        self._measuring = 0
        self._again: list[Config] = []  # asked for before, and free again
        self._elsewhere: list[Config] = []  # claimed by other processes
        self._best: Trial | None = None
        self._stopping = False
        self._known: set[ConfigKey] = set()  # to the search
        self.at_work: set[Supervisor] = set()
        self.done = 0
        self.error: BaseException | None = None

    def start(self, worker: Supervisor, lead: Supervisor) -> None:
        """Put a worker to work, in a thread of its own."""
        self.at_work.add(worker)
        threading.Thread(target=self.work, args=(worker, lead)).start()

    def wait(self) -> None:
        """Return when no worker is at work any more."""
        # An interrupted Thread.join takes a running thread for dead (CPython issue 90882).
        with self._changed:
            while self.at_work:
                self._changed.wait(POLL_SECONDS)

    def work(self, worker: Supervisor, lead: Supervisor) -> None:
        """The thread of one worker."""
        try:
            lead.get_ready()  # the reference is made there; the others read it
            while (config := self._next()) is not None:
                try:
                    measured = self._measured(worker, config)
                except DeviceError as error:
                    with self._changed:
                        self.at_work.discard(worker)
                        if self._stopping or not self.at_work:
                            raise
                        self._again.append(config)  # the other devices go on
                        self._ledger.release(config)
                        self._measuring -= 1
                        self._progress.noted(f"{error}; the other devices go on")
                        return
                if self._stopping:
                    return
                self._finished(config, measured)
        except BaseException as error:
            self.error = self.error or error
            self.stop()
        finally:
            with self._changed:
                self.at_work.discard(worker)
                self._changed.notify_all()

    def stop(self) -> None:
        """Have all threads come to their end."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _next(self) -> Config | None:
        """A configuration that is this process's to measure; None when there is none left."""
        while (config := self._chosen()) is not None:
            if self._ledger.claim(config, self._task.timeout):
                return config
            with self._changed:
                self._measuring -= 1
                self._elsewhere.append(config)
        return None

    def _chosen(self) -> Config | None:
        """A configuration that is not known yet, counted as being measured; waits where that depends on others."""
        with self._changed:
            while not self._stopping:
                if self._ledger.shared:
                    self._look_around()
                config = self._again.pop() if self._again else self._search.ask()
                if config is None:
                    if not self._measuring and not self._elsewhere and not self._again:
                        return None
                    self._changed.wait(POLL_SECONDS)
                    continue
                trial = self._ledger.known(config, self._task.timeout)
                if trial is not None:
                    self._told(trial)
                    continue
                self._measuring += 1
                ahead = [config, *self._search.likely(LOOK_AHEAD)]
                self._compile_pool.prepare(c for c in ahead if self._ledger.known(c, self._task.timeout) is None)
                return config
        return None

    def _look_around(self) -> None:
        """Take in what other processes have measured, and what they left."""
        for trial in self._ledger.news():
            if self._search.pool.find(trial.config) is not None:  # other restrictions elsewhere make another pool
                self._told(trial)
        for config in list(self._elsewhere):
            if self._ledger.known(config, self._task.timeout) is not None or not self._ledger.is_claimed(config):
                self._elsewhere.remove(config)
                self._again.append(config)

    def _measured(self, worker: Supervisor, config: Config) -> Trial | None:
        """What came of a claimed configuration; None where the claim was lost before the device had it."""
        best_ms = None
        if self._task.method.races:
            best_ms = (self._best and self._best.time_ms) or math.inf
        try:
            self._compile_pool.wait(config)
            worker.get_ready()
            if not self._ledger.begin(config):
                return None
            outcome = worker.measure(config, best_ms)
        except (TrialError, WorkerDied) as error:
            outcome = Outcome(failure=error.reason, log=str(error))
        values: tuple[float, ...] = ()
        if outcome.times:
            objectives, time_ms = self._task.method.objectives, median(outcome.times)
            values = objective_values(objectives, time_ms, outcome.energy_mj, outcome.figures)
        return Trial(config, outcome, values, self._task.timeout)

    def _finished(self, config: Config, trial: Trial | None) -> None:
        kept = trial is not None and self._ledger.finish(trial)
        with self._changed:
            self._measuring -= 1
            if trial is not None and kept:
                self._told(trial)
            else:
                self._elsewhere.append(config)
            self._changed.notify_all()

    def _told(self, trial: Trial) -> None:
        """Let search and progress know of a trial, once."""
        key = config_key(trial.config)
        if key in self._known:
            return
        self._known.add(key)
        self._search.tell(trial.config, trial.values or None)
        self.done += 1
        if trial.value is not None and (self._best is None or trial.value < (self._best.value or 0.0)):
            self._best = trial
        self._progress.measured(trial, self.done, self._best)
