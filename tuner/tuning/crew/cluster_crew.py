"""The crew of a cluster: the devices of its workers, which share one search and one ledger."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from tuner.devices import environment
from tuner.devices.environment import NOT_STORED
from tuner.errors import EnvironmentTrouble, OptionError, RequestError, TunerError
from tuner.measure.process import scratch
from tuner.measure.process.attempts import with_retries
from tuner.measure.process.compile_pool import CompilePool
from tuner.measure.remote.remote_device import Lost, RemoteDevice
from tuner.measure.remote.remote_supervisor import RemoteLead, RemoteSupervisor
from tuner.space.values.function_object import FunctionObject
from tuner.tuning.crew import cluster
from tuner.tuning.crew.cluster_run import ClusterRun
from tuner.tuning.crew.cluster_workers import POLL_SECONDS, WORKERS_SECONDS, ClusterWorkers, Worker, summary
from tuner.tuning.crew.crew import END_SECONDS, Crew
from tuner.tuning.crew.engine import Refused, StationLine

if TYPE_CHECKING:
    from tuner.measure.process.task import Task
    from tuner.measure.results import Outcome
    from tuner.search.search import Search
    from tuner.space.config import Config
    from tuner.space.model import Space
    from tuner.tuning.crew.run import TrialListener
    from tuner.tuning.ledger.ledger import Ledger

PAUSE_SECONDS = 0.01  # of a thread that has nothing to measure at the moment
MOST_JOINING = 32  # workers that are asked at a time


class _NoPool(CompilePool):
    """A compile pool for machines that build by themselves: here, each configuration is ready at once."""

    def __init__(self) -> None:
        self.depth = 1

    def prepare(self, asked: Config | None, likely: Iterable[Config]) -> None:
        """Do nothing."""

    def late(self, configs: Sequence[Config]) -> Config | None:
        return None

    def is_ready(self, config: Config) -> bool:
        return True

    def wait_for_any(self, configs: Iterable[Config], seconds: float) -> None:
        time.sleep(min(seconds, PAUSE_SECONDS))  # another thread takes what it has just claimed

    def forget(self, config: Config) -> None:
        """Do nothing."""

    def wait(self, config: Config) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class ClusterCrew(Crew):
    """A crew on the devices of a cluster.

    A station holds each device, also where several workers of a machine see it. All devices have the same name,
    toolchain, conditions and headers: those that most have when the crew opens. Workers that come later join. What a
    lost device was measuring, another one measures.
    """

    lead: RemoteLead

    def __init__(self, task: Task, device_names: Sequence[str], address: str, noted: Callable[[str], None]) -> None:
        """`device_names` are kinds of device, or devices, that each worker may use; `address` is the scheduler's.

        Raises RequestError if the scheduler does not answer, or if the task has functions that no file has.
        """
        functions = [f for f in task.space.operation.python_functions if isinstance(f, FunctionObject)]
        if functions:
            raise RequestError(
                f"{functions[0]} is a function of this program, which the machines of a cluster do not have; name one "
                "of a file, such as check.py:expected, or tune without a cluster"
            )
        self.task, self._noted = task, noted
        self._pool = _NoPool()
        self._joining = ThreadPoolExecutor(MOST_JOINING, thread_name_prefix="joining")
        self._guard = threading.Lock()  # for what follows
        self._remotes: list[RemoteDevice] = []
        self._fit: list[RemoteDevice] = []  # those that are on the task
        self._come: list[RemoteDevice] = []  # those that a run has yet to begin
        self._places: dict[str, RemoteDevice] = {}
        self._joins: list[tuple[str, Future[None]]] = []  # with the addresses of the workers
        self._alike: tuple[str, ...] = ()
        self.is_closed = self._is_searching = False
        self._cluster = cluster.opened(address)
        self._candidates = ClusterWorkers(self._cluster, device_names, noted)
        self._products = scratch.file()

    @property
    def headers(self) -> str:
        return self._fit[0].headers

    def _turn_to(self, task: Task) -> None:
        self.task = task
        if not self._remotes:
            self._open()
        else:
            self._fit = self._alike_of(self._on_task([remote for remote in self._remotes if not remote.is_lost]))
        self.lead = RemoteLead(task, self._present, self._products)

    def _lead_to(self, task: Task) -> None:
        with_retries(lambda: self.lead.switch_to(task), self._noted)

    def _present(self) -> list[RemoteDevice]:
        """The devices that are on the task."""
        return [remote for remote in self._fit if not remote.is_lost]

    def _on_task(self, remotes: Sequence[RemoteDevice]) -> list[RemoteDevice]:
        """Those of the devices that can be given the task. Raises the first one's error if there is none."""
        troubles: list[TunerError] = []

        def is_fit(remote: RemoteDevice) -> bool:
            try:
                remote.switch_to(self.task)
            except TunerError as error:
                troubles.append(error)
                return False
            return True

        fit = [remote for remote, fits in zip(remotes, self._joining.map(is_fit, remotes), strict=True) if fits]
        if not fit:
            raise troubles[0] if troubles else self._candidates.nobody()
        for error in troubles:
            self._noted(f"{error}; the search goes on without it")
        return fit

    def _open(self) -> None:
        """Have the workers join that are there."""
        self._candidates.await_first()
        refusals: list[str] = []
        new = self._candidates.unasked()
        lines = [each for each in self._joining.map(lambda worker: self._candidates.ask(worker, refusals), new) if each]
        if not lines:
            raise OptionError(f"{self._cluster.address}: {summary(refusals)}", "cluster")
        if refusals:
            self._noted(summary(refusals))
        first: list[RemoteDevice] = []
        opening: Counter[str] = Counter()  # devices that workers open, by machine
        for worker, line in lines:
            if opening[worker.machine] < len(worker.devices):
                opening[worker.machine] += 1
                first.append(self._remote(worker, worker.devices[0], line))
            else:  # as many workers as it has devices have come from this machine
                line.close()
        opened = self._on_task(first)
        alike = self._alike_of(opened)
        for remote in opened:
            if remote in alike:
                self._admit(remote)
            else:
                remote.close()
        for worker, _ in lines:
            self._join_rest(worker)
        count = len(self._fit)
        self._noted(f"{self._cluster.address}: {count} device{'s' * (count > 1)} measure{'s' * (count == 1)}")

    def _remote(self, worker: Worker, device: str, line: StationLine) -> RemoteDevice:
        return RemoteDevice(line, worker.node, device, len(worker.devices), self._noted)

    def _alike_of(self, remotes: Sequence[RemoteDevice]) -> list[RemoteDevice]:
        """Those of the devices on the task that are of the most frequent kind, which is that of the task's study."""
        counts = Counter(map(_kind, remotes))
        self._alike = max(sorted(counts), key=counts.__getitem__)
        return [remote for remote in remotes if self._is_alike(remote)]

    def _is_alike(self, remote: RemoteDevice) -> bool:
        """Whether a device is of the study's kind. If not, the user is told."""
        kind = _kind(remote)
        if kind == self._alike:
            return True
        own, others = next((a, b) for a, b in zip(kind, self._alike, strict=True) if a != b)
        self._noted(
            f"{remote.name} does not join: it has {own or 'nothing unusual'}, the others have "
            f"{others or 'nothing unusual'}, and devices of different kinds do not share a study"
        )
        return False

    def _admit(self, remote: RemoteDevice) -> None:
        """Let a device of the study's kind take part, unless another station has it."""
        with self._guard:
            if remote.place not in self._places and not self.is_closed:
                self._places[remote.place] = remote
                self._remotes.append(remote)
                self._fit.append(remote)
                self._come.append(remote)
                return
        remote.close()

    def _has_room(self, worker: Worker) -> bool:
        """Whether a worker's machine may have a device that no station has."""
        with self._guard:
            count = sum(place.startswith(f"{worker.machine} ") for place in self._places)
        return count < len(worker.devices)

    def _join_rest(self, worker: Worker) -> None:
        """Have the devices of a worker's machine join that no station has."""
        for device in worker.devices[1:]:
            if self._has_room(worker):
                self._join(worker, device)

    def _join(self, worker: Worker, device: str, line: StationLine | None = None) -> None:
        """Have a device of a worker join, with a station of its own."""
        try:
            if line is None:
                line = self._candidates.station(worker)
            remote = self._remote(worker, device, line)
            while not remote.is_on(self.task):  # which may change meanwhile
                remote.switch_to(self.task)
        except (Refused, Lost, TunerError) as reason:
            if not self.is_closed:
                self._noted(f"{device} of {worker.node} does not join: {reason}")
        else:
            if self._is_alike(remote):
                self._admit(remote)
                return
        if line is not None:
            line.close()

    def _join_later(self, address: str) -> None:
        """Have a worker join during a run."""
        refusals: list[str] = []
        if (asked := self._candidates.ask(address, refusals)) is not None:
            worker, line = asked
            if self._has_room(worker):
                self._join(worker, worker.devices[0], line)
                self._join_rest(worker)
            else:
                line.close()
        for refusal in refusals:
            if not self.is_closed and address in self._cluster.workers():  # it may have gone as it was asked
                self._noted(f"worker {address} cannot be used: {refusal}")

    def _welcome(self, run: ClusterRun) -> None:
        """Put devices to work that have joined, and ask workers that have come.

        Where a device has been lost, workers of the cluster that have none are asked again.
        """
        with self._guard:
            lost = [place for place, remote in self._places.items() if remote.is_lost]
            for place in lost:
                del self._places[place]
            busy = {remote.machine for remote in self._places.values()}
            come, self._come = self._come, []
        if lost:
            self._candidates.ask_again(busy)
        for remote in come:
            self._begin(run, remote)
            if self._is_searching:
                self._noted(f"{remote.name} joins the search")
        self._is_searching = True
        self._joins = [(address, join) for address, join in self._joins if not join.done()]
        self._joins += [
            (worker, self._joining.submit(self._join_later, worker)) for worker in self._candidates.unasked()
        ]

    def _begin(self, run: ClusterRun, remote: RemoteDevice) -> None:
        """Put a device to work: while one of its workers measures, the others have their configurations built."""
        count = 1 if remote.info.on_processor else remote.depth + 1  # builds would disturb a processor
        run.begin([RemoteSupervisor(self.task, remote, self._products) for _ in range(count)])

    def run(self, search: Search, ledger: Ledger, progress: TrialListener, given: bool = False) -> int:
        run = ClusterRun(self.task, self._pool, search, ledger, progress, self._noted, given)
        self._is_searching = False
        with self._guard:
            self._come = self._present()
        try:
            alone_since: float | None = None
            while not (run.is_over or run.error) or run.at_work:
                self._welcome(run)
                run.wait(POLL_SECONDS)
                if run.at_work:
                    alone_since = None
                elif not (run.is_over or run.error):
                    alone_since = self._wait_alone(alone_since)
        finally:
            if run.at_work:
                run.stop()
                ledger.give_up()
                self.close()
                run.wait(END_SECONDS)
        if run.error is not None:
            raise run.error
        if run.trouble is not None and all(trial.outcome.failure in NOT_STORED for trial in ledger.trials):
            raise run.trouble  # nothing was measured at all
        with_retries(self.lead.get_ready, self._noted)
        return run.count

    def _wait_alone(self, since: float | None) -> float:
        """Wait a moment for another device; `since` is when the last one went, or when workers were asked. Raises
        EnvironmentTrouble if none has come for WORKERS_SECONDS."""
        if since is None:
            since = time.monotonic()
            self._noted(f"{self._cluster.address}: no device is left; waiting up to {WORKERS_SECONDS:g} s for another")
        here = self._cluster.workers()  # one that was lost may have been asked again before the scheduler knew
        if any(address in here for address, _ in self._joins):  # which may take long, and have limits of their own
            since = time.monotonic()
        if time.monotonic() - since > WORKERS_SECONDS or self._cluster.has_ended:
            trouble = self._cluster.trouble
            why = "no worker can measure any more" if trouble is None else f"the scheduler does not answer: {trouble}"
            raise EnvironmentTrouble(f"{self._cluster.address}: {why}", environment.LOST)
        time.sleep(POLL_SECONDS)
        return since

    def build_ahead(self, configs: Sequence[Config]) -> None:
        """Do nothing: the stations build."""

    def build(self, config: Config, space: Space | None = None) -> None:
        assert space is None or space == self.task.space
        with_retries(lambda: self.lead.build(config), self._noted)

    def measured(self, config: Config) -> Outcome:
        self.build(config)
        return with_retries(lambda: self.lead.measure(config), self._noted)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._joining.shutdown(wait=False, cancel_futures=True)
        for remote in self._remotes:
            remote.close()
        self._cluster.close()
        self._products.close()


def _kind(remote: RemoteDevice) -> tuple[str, ...]:
    """What devices that share a study have in common."""
    headers = f"headers {remote.headers}" if remote.headers else ""
    return remote.info.name, remote.info.toolchain, str(remote.info.conditions), headers
