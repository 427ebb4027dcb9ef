"""Keeps a worker process at work: starts it, builds ahead of it, and replaces it when a kernel took it down."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from tuner import form
from tuner.builders import Builders
from tuner.errors import DeviceError, TrialError, TunerError, WorkerDied
from tuner.finals import FINAL_SECONDS, Finals
from tuner.measure import STANDARD, Method, Outcome
from tuner.process import Process
from tuner.space import Config, Limits, Scope, Space

TIMEOUT = 60.0  # seconds for one configuration: build, verify and time
START_TIMEOUT = 600.0  # seconds to open the device, and again to compute the reference


@dataclass(frozen=True)
class Task:
    """What a worker measures. `timeout` is in seconds, for one configuration."""

    space: Space
    sizes: dict[str, int]
    options: dict[str, float]
    device: str
    method: Method = STANDARD
    timeout: float = TIMEOUT

    def to_json(self) -> dict[str, Any]:
        """What the worker is told."""
        return {
            "space": form.to_json(self.space),
            "sizes": self.sizes,
            "options": self.options,
            "device": self.device,
            "method": asdict(self.method),
        }


class Supervisor:
    """A worker for one task, and builders ahead of it, as a context manager.

    Entering opens the device and raises what keeps it from opening (DeviceError, mostly). `device` then describes it,
    and `scope` is the problem on it. Inputs and reference are made while the caller goes on.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._worker: Process | None = None
        self._ready = False
        self._builders: Builders | None = None

    def __enter__(self) -> Supervisor:
        self._products = tempfile.TemporaryFile(prefix="tuner-")
        try:
            known = self._start()
        except BaseException:
            self._products.close()
            raise
        self.device: dict[str, Any] = known["device"]
        self.scope = Scope(self.task.sizes, self.task.options, known["language"], Limits.from_json(known["limits"]))
        self._builders = Builders(self.task.space, self.scope, self.device, self.task.timeout, known["on_processor"])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop()
        if self._builders is not None:
            self._builders.close()
        self._products.close()

    def prepare(self, configs: Iterable[Config]) -> None:
        """Say what will be measured next, in order."""
        if self._builders is not None:
            self._builders.prepare(configs)

    def measure(self, config: Config, best_ms: float | None = None) -> Outcome:
        """What came of `config`, where the fastest so far takes `best_ms` (see `Bench.measure`).

        A worker or builder that died or had to be killed over it is a failed Outcome.
        """
        try:
            if self._builders is not None:
                self._builders.wait(config)
            reply = self._ask({"measure": config, "best_ms": best_ms}, self.task.timeout)
        except (TrialError, WorkerDied) as error:
            return Outcome(failure=error.reason, log=str(error))
        return Outcome.from_json(reply)

    def finals(self, configs: Sequence[Config]) -> Finals:
        """The configurations measured again, interleaved, with the vendor's library if there is one.

        Raises WorkerDied where that takes the worker down.
        """
        allowed = FINAL_SECONDS + 2 * self.task.timeout * (len(configs) + 1)
        return Finals.from_json(self._ask({"finals": list(configs)}, allowed))

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self._worker is None:
            self._start()
        assert self._worker is not None
        if not self._ready:
            self._opening(lambda worker: worker.receive(START_TIMEOUT))
            self._ready = True
        try:
            reply = self._worker.ask(request, seconds)
        except TunerError:  # it is gone; or it answered, but what state it is in is not known
            self._stop()
            raise
        if not reply.pop("healthy"):  # a fault that outlives its kernel; the next one gets a new process
            self._stop()
        return reply

    def _start(self) -> dict[str, Any]:
        """Start a worker; what it says of its device."""
        file = self._products.fileno()
        self._worker, self._ready = Process("tuner.worker", share=[file]), False
        return self._opening(lambda worker: worker.ask({**self.task.to_json(), "products": file}, START_TIMEOUT))

    def _opening(self, ask: Callable[[Process], dict[str, Any]]) -> dict[str, Any]:
        """A worker's reply before it can measure. Raises DeviceError where none comes, which is no configuration's
        fault."""
        assert self._worker is not None
        try:
            return ask(self._worker)
        except WorkerDied as died:
            self._stop()
            raise DeviceError(f"{self.task.device}: the process that holds the device does not start: {died}") from None
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
