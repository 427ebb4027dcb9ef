"""Supervises the worker of one device: starts it, and replaces it after a kernel took it down."""

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, TypeVar

from tuner.devices import DeviceInfo, forkable_packages
from tuner.devices.compiler import Allowance
from tuner.errors import DeviceError, TunerError, WorkerDied
from tuner.measure import turns
from tuner.measure.method import STANDARD, TIMEOUT, Method
from tuner.measure.process.channel import Process
from tuner.measure.results import Finals, FoundWrong, Outcome
from tuner.measure.timing.clock import FINAL_SECONDS, LONGER
from tuner.quoting import shown
from tuner.space import launch_form, operation
from tuner.space.config import Config
from tuner.space.expressions import cases
from tuner.space.model import Space
from tuner.space.scope import Scope

T = TypeVar("T")
logger = logging.getLogger(__name__)
MOST_TURNS = 10  # of sustained seconds: two for the kernel and for each of two libraries, with what goes before them
START_TIMEOUT = 600.0  # seconds to open the device, and again to compute the reference


@dataclass(frozen=True)
class Task:
    """The problem to measure, and the method. `timeout` is in seconds per configuration."""

    space: Space
    sizes: dict[str, int]
    options: dict[str, float]
    method: Method = STANDARD
    timeout: float = TIMEOUT
    types: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What a worker needs to know besides its device."""
        return {
            "space": launch_form.to_json(self.space),
            "sizes": self.sizes,
            "options": self.options,
            "types": self.types,
            "method": asdict(self.method),
        }


def announce(space: Space, noted: Callable[[str], None]) -> None:
    """Tell the user, by `noted`, of the Python that a process is about to run because `space` names it."""
    if functions := space.operation.python_functions:
        noted(f"runs {shown(' and '.join(map(str, functions)))} of {shown(space.files[-1])}")


def uncomputed(space: Space, died: WorkerDied) -> str:
    """The message for a process that died while it computed inputs and answers."""
    what = f"the inputs and answers of {shown(space.files[-1] if space.files else space.name)}"
    if died.reason == "timeout":
        return f"{what} are not there after {START_TIMEOUT:g} s; compute them faster, or try a smaller size"
    return f"{what} cannot be computed: {explained(space, died)}"


def explained(space: Space, died: WorkerDied) -> WorkerDied:
    """The same, with what inputs of `space` have to do with it."""
    hint = cases.division_hint(operation.integers_without_fill(space.operation)) if died.signal == signal.SIGFPE else ""
    return WorkerDied(f"{died}; {hint}", died.reason, died.signal) if hint else died


class Supervisor:
    """A worker for one task after the other on one device; `close` it at the end.

    `start` and `turn_to` set `device`, which describes the open device, and `scope`, the problem on it. `missed_cases`
    are sentences about conditions that the inputs do not decide, once it is ready.
    """

    def __init__(self, task: Task, device_id: str, products: BinaryIO, follows: bool = False) -> None:
        """`products` is a temporary file for the reference's matrix products, which workers share. A worker that
        `follows` another waits for what the other leaves there, until it is told to get ready."""
        self.task, self._device_id, self._products, self._follows = task, device_id, products, follows
        self._worker: Process | None = None
        self._ready, self._getting_ready = False, threading.Lock()
        self._renewed = False
        self.missed_cases: list[str] = []
        self._killed, self._starting = False, threading.Lock()

    def start(self) -> None:
        """Start the worker, which opens the device.

        Raises DeviceError where the device cannot be used, and any TunerError that the worker reports. A failed start
        may be tried again.
        """
        file = self._products.fileno()
        with self._starting:
            if self._killed:
                raise DeviceError(f"{self._device_id}: its worker has been stopped")
            self._worker = Process("tuner.measure.process.worker", [file], self._imports())
            self._ready = self._renewed = False
        allowance = asdict(Allowance.shared(self.task.timeout))
        task = {**self.task.to_json(), "device": self._device_id, "products": file, "allowance": allowance}
        self._hand_over(task)

    def _imports(self) -> Sequence[str]:
        """What the worker imports besides, as far as it may be imported before a fork."""
        packages = forkable_packages(self._device_id)
        return [] if packages is None else [*packages, "tuner.measure.benchmark"]

    def turn_to(self, task: Task) -> None:
        """Have the worker go on with another task on the device that it has open. Raises as `start` does."""
        self.settle()
        if self._worker is not None and not self._worker.is_undisturbed():
            self.close()
        self.task = task
        if self._worker is None:
            self.start()
        else:
            self._ready = self._renewed = False
            self._hand_over(task.to_json())

    def settle(self) -> None:
        """Wait until the worker has made inputs and reference, which it is at from the first moment of a task on."""
        if self._worker is not None:
            with contextlib.suppress(TunerError):  # that it could not get ready does not matter any more
                self.get_ready()

    def _hand_over(self, task: dict[str, Any]) -> None:
        began = time.perf_counter()
        self.device = DeviceInfo.from_json(self._ask_starting({**task, "follows": self._follows}))
        logger.debug(
            "%s: %s is ready for a task after %.3f s", self._device_id, self.device.name, time.perf_counter() - began
        )
        language, limits = self.device.language, self.device.limits
        self.scope = Scope(self.task.sizes, self.task.options, language, limits, self.task.types)

    def get_ready(self) -> None:
        """Have the worker make inputs and reference, unless it has them. Any thread may call this."""
        with self._getting_ready:
            if self._worker is None:
                self.start()
            if not self._ready:
                began = time.perf_counter()
                self.missed_cases = list(self._ask_computing({"get_ready": True})["missed_cases"])
                self._ready = True
                logger.debug("%s: inputs and answers after %.3f s", self._device_id, time.perf_counter() - began)

    def measure(self, config: Config, best_ms: float | None = None) -> Outcome:
        """The Outcome of `config`, where the best so far takes `best_ms` (see `Bench.measure`).

        Raises WorkerDied where the worker died or had to be killed, EnvironmentTrouble where the machine is to blame;
        the next call starts a new one.
        """
        return self._ask(Outcome.from_json, {"measure": config, "best_ms": best_ms}, self.task.timeout)

    def finals(
        self,
        configs: Sequence[Config],
        with_library: bool = True,
        sustained: float | None = None,
        quick: bool = False,
        found_wrong: FoundWrong = lambda *_: None,
    ) -> Finals:
        """The configurations measured again, interleaved, with the vendor's library if there is one; with `quick` and
        `found_wrong`, as `Bench.finals` says. Then the best and the library back to back, for `sustained` seconds a
        turn.

        Raises WorkerDied where one of them takes the worker down.
        """
        self._renew()
        seconds = LONGER * FINAL_SECONDS + 2 * self.task.timeout * (len(configs) + 1)
        seconds += MOST_TURNS * (1 + len(configs)) * (sustained or 0.0)
        request = {
            "finals": list(configs), "with_library": with_library, "sustained": sustained,
            "quick": quick,
        }  # fmt: skip
        return self._ask(Finals.from_json, request, seconds, found_wrong)

    def library(self) -> list[float]:
        """The times of the vendor's library, as `Bench.library` says. Raises as `measure` does."""
        return self._ask(lambda reply: list(reply["times"]), {"library": True}, self.task.timeout)

    def launch_ms(self) -> float:
        """The time of a kernel that does nothing. Raises as `measure` does."""
        return self._ask(lambda reply: float(reply["ms"]), {"launch": True}, self.task.timeout)

    def verify(self, configs: Sequence[Config], found_wrong: FoundWrong = lambda *_: None) -> list[str | None]:
        """Of each configuration why it is wrong, as the finals would tell; None where it is right. `found_wrong` hears
        of them as in `finals`.

        Raises WorkerDied where one of them takes the worker down.
        """
        self._renew()
        seconds = self.task.timeout * (len(configs) + 1)
        return self._ask(lambda reply: list(reply["failures"]), {"verify": list(configs)}, seconds, found_wrong)

    def _renew(self) -> None:
        """Have the worker make the inputs and references of the finals: no configuration is to blame for them."""
        if self._worker is not None and not self._worker.is_undisturbed():
            self.close()
        self.get_ready()
        if not self._renewed:
            self._ask_computing({"renew": True})
            self._renewed = True

    def kill(self) -> None:
        """Stop the worker for good, even in the middle of a measurement. Any thread may call this."""
        with self._starting:
            self._killed = True
            worker = self._worker
        if worker is not None:
            worker.stop()

    def close(self) -> None:
        """Stop the worker. No other thread may be using it."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _ask(
        self,
        read: Callable[[dict[str, Any]], T],
        request: dict[str, Any],
        seconds: float,
        found_wrong: FoundWrong = lambda *_: None,
    ) -> T:
        if self._worker is not None and not self._worker.is_undisturbed():
            self.close()
        self.get_ready()
        worker = self._worker
        assert worker is not None
        try:
            with turns.taken(self.device.place, lambda: self._killed):
                reply = worker.ask(request, seconds, lambda news: found_wrong(news["position"], news["failure"]))
        except TunerError as error:  # the worker is gone, or its state is unknown
            logger.debug("%s: its worker is given up: %s", self._device_id, error)
            self.close()
            if isinstance(error, WorkerDied):
                raise explained(self.task.space, error) from None
            raise
        try:
            healthy, answer = reply.pop("healthy"), read(reply)
        except (LookupError, TypeError, ValueError, AttributeError):
            self.close()
            raise WorkerDied("the process running it gave an answer of another form", "crash") from None
        if not healthy:  # the fault outlives its kernel: the next configuration gets a new process
            self.close()
        return answer

    def _ask_starting(self, request: dict[str, Any]) -> dict[str, Any]:
        """The worker's reply before it can measure.

        Raises DeviceError where none comes: no configuration is to blame.
        """
        return self._ask_unblamed(request, lambda died: f"the process that holds the device does not start: {died}")

    def _ask_computing(self, request: dict[str, Any]) -> dict[str, Any]:
        """The same while the worker makes inputs and references, and runs what the space names for them."""
        return self._ask_unblamed(request, lambda died: uncomputed(self.task.space, died))

    def _ask_unblamed(self, request: dict[str, Any], blame: Callable[[WorkerDied], str]) -> dict[str, Any]:
        assert self._worker is not None
        try:
            return self._worker.ask(request, START_TIMEOUT)
        except WorkerDied as died:
            self.close()
            raise DeviceError(f"{self._device_id}: {blame(died)}") from None
        except BaseException:
            self.close()
            raise
