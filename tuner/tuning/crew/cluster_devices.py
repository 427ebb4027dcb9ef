"""The devices of a cluster that take part in a search: they join, are given tasks, and may be lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from tuner.devices import environment
from tuner.errors import EnvironmentTrouble, OptionError, TunerError
from tuner.measure.remote.remote_device import Lost, RemoteDevice
from tuner.tuning.crew.cluster_workers import POLL_SECONDS, WORKERS_SECONDS, ClusterWorkers, Worker, summary
from tuner.tuning.crew.engine import Engine, Refused, StationLine

if TYPE_CHECKING:
    from tuner.measure.process.task import Task

MOST_JOINING = 32  # workers that are asked at a time


class ClusterDevices:
    """The devices of a cluster on one task after another.

    A station holds each device, also where several workers of a machine see it. All devices have the same name,
    toolchain, conditions and headers: those that most have at the first task. Workers that come later join.
    """

    def __init__(self, cluster: Engine, device_names: Sequence[str], noted: Callable[[str], None]) -> None:
        """`device_names` are kinds of device, or devices, that each worker may use."""
        self._cluster, self._noted = cluster, noted
        self._workers = ClusterWorkers(cluster, device_names, noted)
        self._joining = ThreadPoolExecutor(MOST_JOINING, thread_name_prefix="joining")
        self._guard = threading.Lock()  # for what follows
        self._remotes: list[RemoteDevice] = []
        self._fit: list[RemoteDevice] = []  # those that are on the task
        self._come: list[RemoteDevice] = []  # those that a run has yet to begin
        self._places: dict[str, RemoteDevice] = {}
        self._joins: list[tuple[str, Future[None]]] = []  # with the addresses of the workers
        self._alike: tuple[str, ...] = ()
        self._is_closed = self._is_searching = False

    @property
    def headers(self) -> str:
        """The user's headers on all machines."""
        return self._fit[0].headers

    def turn_to(self, task: Task) -> None:
        """Give all devices a task; at the first one, have the workers join that are there."""
        self._task = task
        if not self._remotes:
            self._open()
        else:
            self._fit = self._alike_of(self._on_task([remote for remote in self._remotes if not remote.is_lost]))

    def present(self) -> list[RemoteDevice]:
        """The devices that are on the task."""
        return [remote for remote in self._fit if not remote.is_lost]

    def begin(self) -> None:
        """Begin a run: `newcomers` first gives all devices that are present."""
        self._is_searching = False
        with self._guard:
            self._come = self.present()

    def _on_task(self, remotes: Sequence[RemoteDevice]) -> list[RemoteDevice]:
        """Those of the devices that can be given the task. Raises the first one's error if there is none."""
        troubles: list[TunerError] = []

        def is_fit(remote: RemoteDevice) -> bool:
            try:
                remote.switch_to(self._task)
            except TunerError as error:
                troubles.append(error)
                return False
            return True

        fit = [remote for remote, fits in zip(remotes, self._joining.map(is_fit, remotes), strict=True) if fits]
        if not fit:
            raise troubles[0] if troubles else self._workers.nobody()
        for error in troubles:
            self._noted(f"{error}; the search goes on without it")
        return fit

    def _open(self) -> None:
        """Have the workers join that are there."""
        self._workers.await_first()
        refusals: list[str] = []
        new = self._workers.unasked()
        lines = [each for each in self._joining.map(lambda worker: self._workers.ask(worker, refusals), new) if each]
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
        alike = self._alike_of(self._on_task(first))
        for remote in first:
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
            if remote.place not in self._places and not self._is_closed:
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
                line = self._workers.station(worker)
            remote = self._remote(worker, device, line)
            while not remote.is_on(self._task):  # which may change meanwhile
                remote.switch_to(self._task)
        except (Refused, Lost, TunerError) as reason:
            if not self._is_closed:
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
        if (asked := self._workers.ask(address, refusals)) is not None:
            worker, line = asked
            if self._has_room(worker):
                self._join(worker, worker.devices[0], line)
                self._join_rest(worker)
            else:
                line.close()
        for refusal in refusals:
            if not self._is_closed and address in self._cluster.workers():  # it may have gone as it was asked
                self._noted(f"worker {address} cannot be used: {refusal}")

    def newcomers(self) -> list[RemoteDevice]:
        """The devices that have joined since the last call. Workers that have come are asked.

        Where a device has been lost, workers of the cluster that have none are asked again.
        """
        with self._guard:
            lost = [place for place, remote in self._places.items() if remote.is_lost]
            for place in lost:
                del self._places[place]
            busy = {remote.machine for remote in self._places.values()}
            come, self._come = self._come, []
        if lost:
            self._workers.ask_again(busy)
        if self._is_searching:
            for remote in come:
                self._noted(f"{remote.name} joins the search")
        self._is_searching = True
        self._joins = [(address, join) for address, join in self._joins if not join.done()]
        self._joins += [(worker, self._joining.submit(self._join_later, worker)) for worker in self._workers.unasked()]
        return come

    def wait_alone(self, since: float | None) -> float:
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

    def close(self) -> None:
        """End all stations. No device can join any more."""
        self._is_closed = True
        self._joining.shutdown(wait=False, cancel_futures=True)
        for remote in self._remotes:
            remote.close()


def _kind(remote: RemoteDevice) -> tuple[str, ...]:
    """What devices that share a study have in common."""
    headers = f"headers {remote.headers}" if remote.headers else ""
    return remote.info.name, remote.info.toolchain, str(remote.info.conditions), headers
