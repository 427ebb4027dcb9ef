"""Keeps a worker process at work: starts it, builds ahead of it, and replaces it when a kernel took it down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tuner import form
from tuner.builders import Builders
from tuner.errors import BuildError, DeviceError, TunerError, WorkerDied
from tuner.finals import FINAL_SECONDS, Final
from tuner.measure import REPEATS, Outcome
from tuner.process import Process
from tuner.space import Config, Limits, Scope, Space

TIMEOUT = 60.0  # seconds for one configuration: build, verify and time
START_TIMEOUT = 600.0  # seconds to open the device and compute the reference


@dataclass(frozen=True)
class Task:
    """What a worker measures. `timeout` is in seconds, for one configuration."""

    space: Space
    sizes: dict[str, int]
    options: dict[str, float]
    device: str
    repeats: int = REPEATS
    timeout: float = TIMEOUT

    def to_json(self) -> dict[str, Any]:
        """What the worker is told."""
        return {
            "space": form.to_json(self.space),
            "sizes": self.sizes,
            "options": self.options,
            "device": self.device,
            "repeats": self.repeats,
        }


class Supervisor:
    """A worker for one task, and builders where building does not disturb measuring, as a context manager.

    Entering starts the worker and raises what kept it from starting (DeviceError, mostly). `device` then describes the
    device and `scope` is the problem on it.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._worker: Process | None = None
        self._builders: Builders | None = None

    def __enter__(self) -> Supervisor:
        ready = self._start()
        self.device: dict[str, Any] = ready["device"]
        self.scope = Scope(self.task.sizes, self.task.options, ready["language"], Limits.from_json(ready["limits"]))
        if ready["asynchronous"]:  # a device that is not the processor on which builders would run
            self._builders = Builders(self.task.space, self.scope, self.device, self.task.timeout)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop()
        if self._builders is not None:
            self._builders.close()

    def prepare(self, configs: Iterable[Config]) -> None:
        """Say what will be measured next, in order."""
        if self._builders is not None:
            self._builders.prepare(configs)

    def measure(self, config: Config, best_ms: float | None = None) -> Outcome:
        """What came of `config`, where the fastest so far takes `best_ms`.

        A worker or builder that died or had to be killed over it is a failed Outcome.
        """
        try:
            if self._builders is not None:
                self._builders.wait(config)
            reply = self._ask({"measure": config, "best_ms": best_ms}, self.task.timeout)
        except (BuildError, WorkerDied) as error:
            return Outcome(failure=error.reason, log=str(error))
        return Outcome.from_json(reply)

    def finals(self, configs: Sequence[Config]) -> list[Final]:
        """The configurations measured again, interleaved, the vendor's library last if there is one.

        Raises WorkerDied where that takes the worker down.
        """
        allowed = FINAL_SECONDS + 2 * self.task.timeout * (len(configs) + 1)
        return [Final.from_json(final) for final in self._ask({"finals": list(configs)}, allowed)["finals"]]

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self._worker is None:
            self._start()
        try:
            assert self._worker is not None
            reply = self._worker.ask(request, seconds)
        except WorkerDied:
            self._worker = None
            raise
        except TunerError:  # it answered, but what state it is in is not known
            self._stop()
            raise
        if not reply["healthy"]:  # a fault that outlives its kernel; the next one gets a new process
            self._stop()
        return reply

    def _start(self) -> dict[str, Any]:
        """Start a worker. Raises DeviceError where none can be had, which is no configuration's fault."""
        self._worker = Process("tuner.worker")
        try:
            return self._worker.ask(self.task.to_json(), START_TIMEOUT)
        except WorkerDied as died:
            self._worker = None
            raise DeviceError(f"{self.task.device}: the process that holds the device does not start: {died}") from None
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
