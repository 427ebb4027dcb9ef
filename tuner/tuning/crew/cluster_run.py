"""One run of a crew of a cluster over a search, whose devices come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.errors import DeviceError, EnvironmentTrouble
from tuner.measure.process.compile_pool import AHEAD
from tuner.measure.remote.remote_supervisor import RemoteSupervisor
from tuner.tuning.crew.run import CrewRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.measure.process.supervisor import Supervisor
    from tuner.measure.results import Outcome
    from tuner.measure.timing.clock import StageWatch
    from tuner.space.config import Config
    from tuner.tuning.ledger.trial import Trial


class ClusterRun(CrewRun):
    """A run with several workers for each device: one of them measures while the others build there.

    A device that is lost leaves its configurations to the others, also if there is none at the moment: then `at_work`
    is empty, and neither `is_over` nor `error` is set. The configuration that it was measuring counts one loss.
    """

    _devices = 0  # that have been begun, and may build ahead

    def begin(self, workers: Sequence[RemoteSupervisor]) -> None:
        """Start the workers of a device."""
        for worker in workers:
            worker.share = self._devices
        self._devices += 1
        with self._queue.changed:
            self.at_work |= {*workers}
        for worker in workers:
            self.start(worker, worker)

    def _prepare(self, worker: Supervisor, lead: Supervisor) -> bool:
        try:
            worker.get_ready()
        except (DeviceError, EnvironmentTrouble) as error:
            self._leave(worker, DeviceError(str(error)))
            return False
        self._show_notes(worker)
        return True

    def _build(self, worker: Supervisor, config: Config) -> None:
        assert isinstance(worker, RemoteSupervisor)
        likely: list[Config] = []
        if worker.device.on_processor:  # its other cores have nothing else to build, which GPUs have
            likely = self._queue.likely(AHEAD * worker.remote.depth * self._devices)[worker.share :: self._devices]
        worker.build(config, likely)

    def _launched(self, worker: Supervisor, config: Config, best: float | None, watch: StageWatch) -> Outcome | None:
        assert isinstance(worker, RemoteSupervisor)
        with worker.remote.turn:
            worker.remote.check()
            try:
                return super()._launched(worker, config, best, watch)
            except DeviceError:
                worker.was_measuring = True
                raise

    def _measure(self, worker: Supervisor, config: Config, watch: StageWatch) -> Trial | None:
        try:
            return super()._measure(worker, config, watch)
        except EnvironmentTrouble as trouble:  # of one machine
            assert isinstance(worker, RemoteSupervisor)
            raise DeviceError(f"{worker.remote.name}: {trouble}") from None

    def _lose(self, worker: Supervisor, config: Config, error: DeviceError) -> None:
        assert isinstance(worker, RemoteSupervisor)
        with self._queue.changed:
            self._queue.put_back(config, was_lost=worker.remote.is_lost and worker.was_measuring)
        self._leave(worker, error)

    def _leave(self, worker: Supervisor, error: DeviceError) -> None:
        """Go on without a worker. Raises the error if the last device has left for another reason than a loss."""
        assert isinstance(worker, RemoteSupervisor)
        with self._queue.changed:
            self.at_work.discard(worker)
            if self._queue.stopping:
                return
            if not worker.remote.is_lost and not self.at_work:
                raise error
            self._noted(f"{error}; the search goes on without it")
