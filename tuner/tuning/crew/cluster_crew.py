"""The crew of a cluster: the devices of its workers, which share one search and one ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tuner.devices.environment import NOT_STORED
from tuner.errors import RequestError
from tuner.measure.process import scratch
from tuner.measure.process.attempts import with_retries
from tuner.measure.process.compile_pool import CompilePool
from tuner.measure.remote.remote_supervisor import RemoteLead, RemoteSupervisor
from tuner.space.values.function_object import FunctionObject
from tuner.tuning.crew import cluster
from tuner.tuning.crew.cluster_devices import ClusterDevices
from tuner.tuning.crew.cluster_run import ClusterRun
from tuner.tuning.crew.cluster_workers import POLL_SECONDS
from tuner.tuning.crew.crew import END_SECONDS, Crew

if TYPE_CHECKING:
    from tuner.measure.process.task import Task
    from tuner.measure.remote.remote_device import RemoteDevice
    from tuner.measure.results import Outcome
    from tuner.search.search import Search
    from tuner.space.config import Config
    from tuner.space.model import Space
    from tuner.tuning.ledger.ledger import Ledger
    from tuner.tuning.progress import Progress

PAUSE_SECONDS = 0.01  # of a thread that has nothing to measure at the moment


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
    """A crew on the devices of a cluster. What a lost device was measuring, another one measures."""

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
        self.is_closed = False
        self._cluster = cluster.opened(address)
        self._devices = ClusterDevices(self._cluster, device_names, noted)
        self._products = scratch.file()

    @property
    def headers(self) -> str:
        return self._devices.headers

    def _turn_to(self, task: Task) -> None:
        self.task = task
        self._devices.turn_to(task)
        self.lead = RemoteLead(task, self._devices.present, self._products)

    def _lead_to(self, task: Task) -> None:
        with_retries(lambda: self.lead.switch_to(task), self._noted)

    def _begin(self, run: ClusterRun, remote: RemoteDevice) -> None:
        """Put a device to work: while one of its workers measures, the others have their configurations built."""
        count = 1 if remote.info.on_processor else remote.depth + 1  # builds would disturb a processor
        run.begin([RemoteSupervisor(self.task, remote, self._products) for _ in range(count)])

    def run(self, search: Search, ledger: Ledger, progress: Progress, given: bool = False) -> int:
        run = ClusterRun(self.task, _NoPool(), search, ledger, progress, self._noted, given)
        self._devices.begin()
        try:
            alone_since: float | None = None
            while not (run.is_over or run.error) or run.at_work:
                for remote in self._devices.newcomers():
                    self._begin(run, remote)
                run.wait(POLL_SECONDS)
                if run.at_work:
                    alone_since = None
                elif not (run.is_over or run.error):
                    alone_since = self._devices.wait_alone(alone_since)
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
        self._devices.close()
        self._cluster.close()
        self._products.close()
