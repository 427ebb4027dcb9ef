"""Keeps the worker of one device at work: starts it, and replaces it when a kernel took it down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from tuner.devices import DeviceInfo
from tuner.errors import DeviceError, TunerError, WorkerDied
from tuner.measure.method import STANDARD, Method
from tuner.measure.process.channel import Process
from tuner.measure.results import Finals, Outcome
from tuner.measure.timing import FINAL_SECONDS
from tuner.space import launch_form
from tuner.space.model import Config, Scope, Space

TIMEOUT = 60.0  # seconds for one configuration: to build it; and to verify and time it
START_TIMEOUT = 600.0  # seconds to open the device, and again to compute the reference


@dataclass(frozen=True)
class Task:
    """What is measured. `timeout` is in seconds, for one configuration."""

    space: Space
    sizes: dict[str, int]
    options: dict[str, float]
    method: Method = STANDARD
    timeout: float = TIMEOUT

    def to_json(self) -> dict[str, Any]:
        """What a worker is told, besides its device."""
        return {
            "space": launch_form.to_json(self.space),
            "sizes": self.sizes,
            "options": self.options,
            "method": asdict(self.method),
        }


class Supervisor:
    """A worker for one task on one device, to be closed at the end.

    `start` opens the device and raises what keeps it from opening (DeviceError, mostly). `device` then describes it,
    and `scope` is the problem on it.
    """

    def __init__(self, task: Task, device_id: str, products: BinaryIO) -> None:
        """`products` is a temporary file for what the reference is made of."""
        self.task, self._device_id, self._products = task, device_id, products
        self._worker: Process | None = None
        self._ready, self._getting_ready = False, threading.Lock()
        self._killed, self._starting = False, threading.Lock()

    def start(self) -> None:
        """Start the worker, and have it open the device."""
        file = self._products.fileno()
        with self._starting:
            if self._killed:
                raise DeviceError(f"{self._device_id}: its worker has been stopped")
            self._worker, self._ready = Process("tuner.measure.process.worker", share=[file]), False
        task = {**self.task.to_json(), "device": self._device_id, "products": file}
        self.device = DeviceInfo.from_json(self._opening(lambda worker: worker.ask(task, START_TIMEOUT)))
        self.scope = Scope(self.task.sizes, self.task.options, self.device.language, self.device.limits)

    def get_ready(self) -> None:
        """Have inputs and reference made, unless they are; may be called from several threads."""
        with self._getting_ready:
            if self._worker is None:
                self.start()
            if not self._ready:
                self._opening(lambda worker: worker.ask({"get_ready": True}, START_TIMEOUT))
                self._ready = True

    def measure(self, config: Config, best_ms: float | None = None) -> Outcome:
        """What came of `config`, where the fastest so far takes `best_ms` (see `Bench.measure`).

        Raises WorkerDied where the worker died or had to be killed over it; the next call has a new one.
        """
        return Outcome.from_json(self._ask({"measure": config, "best_ms": best_ms}, self.task.timeout))

    def finals(self, configs: Sequence[Config], with_library: bool = True) -> Finals:
        """The configurations measured again, interleaved, with the vendor's library if there is one. Raises WorkerDied
        where that takes the worker down."""
        allowed = FINAL_SECONDS + 2 * self.task.timeout * (len(configs) + 1)
        return Finals.from_json(self._ask({"finals": list(configs), "with_library": with_library}, allowed))

    def kill(self) -> None:
        """Stop the worker, whatever it is doing, for good; from any thread."""
        with self._starting:
            self._killed = True
            worker = self._worker
        if worker is not None:
            worker.stop()

    def close(self) -> None:
        """Stop the worker; when no other thread is asking it."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        self.get_ready()
        assert self._worker is not None
        try:
            reply = self._worker.ask(request, seconds)
        except TunerError:  # it is gone; or it answered, but what state it is in is not known
            self.close()
            raise
        if not reply.pop("healthy"):  # a fault that outlives its kernel; the next one gets a new process
            self.close()
        return reply

    def _opening(self, ask: Callable[[Process], dict[str, Any]]) -> dict[str, Any]:
        """A worker's reply before it can measure. Raises DeviceError where none comes, which is no configuration's
        fault."""
        assert self._worker is not None
        try:
            return ask(self._worker)
        except WorkerDied as died:
            self.close()
            raise DeviceError(f"{self._device_id}: the process that holds the device does not start: {died}") from None
        except BaseException:
            self.close()
            raise
