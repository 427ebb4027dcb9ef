"""Supervision of one device's worker: starts it, and replaces it after a kernel has crashed or hung it."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO, TypeVar

from tuner.devices import DeviceInfo, environment, forkable_packages
from tuner.devices.builds.allowance import Allowance
from tuner.errors import DeviceError, EnvironmentTrouble, ExpressionError, GeometryError, TunerError, WorkerDied
from tuner.measure import turns
from tuner.measure.answers import function_objects
from tuner.measure.process.channel import Process
from tuner.measure.process.preparation import WORKER
from tuner.measure.process.task import START_TIMEOUT, Task, explained, uncomputed
from tuner.measure.results import Finals, FoundWrong, Outcome, Repeated, Verified
from tuner.measure.rivals import Rivals
from tuner.measure.timing.clock import FINAL_SECONDS, LONGER, MAX_ROUNDS
from tuner.space.config import Config

T = TypeVar("T")
logger = logging.getLogger(__name__)
# What workers import beside the packages of their device. NumPy imports its parts when they are first used.
IMPORTS = ("tuner.measure.benchmark", "tuner.space.sources.definitions", "numpy.ma", "numpy.ctypeslib")
MOST_PERIODS = 10  # of `sustained` seconds, for the timeout: two per kernel and per library, plus warm-ups


class Supervisor:
    """A worker on one device, for one task after another. The caller must `close` it.

    `start` and `switch_to` set `device`, which describes the open device, and `scope`, the problem on it.
    `missed_cases` are warnings about conditions that the inputs do not decide, `notes` are on the method; `get_ready`
    sets both.
    """

    def __init__(self, task: Task, device_id: str, products: BinaryIO, follows: bool = False) -> None:
        """`products` is a temporary file in which workers share the reference's matrix products.

        A worker that `follows` another one reads what the other writes there, until it is told to get ready.
        """
        self.task, self._device_id, self._products, self._follows = task, device_id, products, follows
        self._worker: Process | None = None
        self._ready, self._getting_ready = False, threading.Lock()
        self._renewed = False
        self.missed_cases: list[str] = []
        self.notes: list[str] = []
        self._killed, self._starting = False, threading.Lock()
        self._compilers: dict[str, str | None] = {}  # the `name` of each chosen compiler at its first task

    @property
    def _name(self) -> str:
        """The device, for messages."""
        return self._device_id

    @property
    def compiler(self) -> str | None:
        """The name of the compiler that the task's space chooses, which must not change while the supervisor is used;
        None before its first task, and if the compiler is missing."""
        return self._compilers.get(self.task.space.compiler)

    def start(self) -> None:
        """Start the worker, which opens the device.

        Raises DeviceError if the device cannot be used, and any TunerError that the worker reports. The caller may
        retry a failed start.
        """
        file = self._products.fileno()
        with self._starting:
            if self._killed:
                raise DeviceError(f"{self._device_id}: its worker has been stopped")
            self._worker = Process(WORKER, [file], self._imports())
            self._ready = self._renewed = False
        allowance = asdict(Allowance.shared(self.task.timeout))
        task = {**self.task.to_json(), "device": self._device_id, "products": file, "allowance": allowance}
        self._hand_over(task)

    def _imports(self) -> Sequence[str]:
        """The modules that the worker imports and that may be imported before a fork."""
        packages = forkable_packages(self._device_id)
        return [] if packages is None else [*packages, *IMPORTS]

    def switch_to(self, task: Task) -> None:
        """Give the worker another task on the device that it has open. Raises as `start` does."""
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
        """Wait until the worker has computed inputs and answers, which it begins as soon as it has a task."""
        if self._worker is not None:
            with contextlib.suppress(TunerError):  # the failure no longer matters
                self.get_ready()

    def _hand_over(self, task: dict[str, Any]) -> None:
        began = time.perf_counter()
        reply = self._ask_starting({**task, "follows": self._follows, "compiler": self.compiler})
        self._compilers[self.task.space.compiler] = reply.pop("compiler")
        self.device = DeviceInfo.from_json(reply)
        logger.debug(
            "%s: %s is ready for a task after %.3f s", self._device_id, self.device.name, time.perf_counter() - began
        )
        op, language, limits = self.task.space.operation, self.device.language, self.device.limits
        self.scope = op.scope(self.task.sizes, self.task.options, language, limits, self.task.types)

    def get_ready(self) -> None:
        """Have the worker compute inputs and answers, unless it has them. Any thread may call this.

        Raises EnvironmentTrouble with the reason LOST if the device cannot be opened again, otherwise as `start` does.
        """
        with self._getting_ready:
            if self._worker is None:
                try:
                    self.start()
                except DeviceError as error:
                    raise EnvironmentTrouble(str(error), environment.LOST) from None
            if not self._ready:
                began = time.perf_counter()
                reply = self._ask_computing({"get_ready": True})
                self.missed_cases, self.notes = list(reply["missed_cases"]), list(reply["notes"])
                self._ready = True
                logger.debug("%s: inputs and answers after %.3f s", self._device_id, time.perf_counter() - began)

    def measure(self, config: Config, best: float | None = None) -> Outcome:
        """Measure `config`. `best` is the value of the best configuration so far (see `Bench.measure`).

        Raises WorkerDied if the worker died or had to be killed, and EnvironmentTrouble if the machine is to blame. The
        next call starts a new worker.
        """
        try:
            config = self.task.space.completed(config)
        except ExpressionError as error:
            return Outcome(failure=GeometryError.reason, log=str(error))
        return self._ask(Outcome.from_json, {"measure": config, "best": best}, self.task.timeout)

    def _completed(self, configs: Sequence[Config]) -> list[Config]:
        return [self.task.space.completed(config) for config in configs]

    def finals(
        self,
        configs: Sequence[Config],
        seconds: float = FINAL_SECONDS,
        with_library: bool = True,
        sustained: float | None = None,
        quick: bool = False,
        found_wrong: FoundWrong = lambda *_: None,
        rivals: Rivals | None = None,
        most_rounds: int = MAX_ROUNDS,
    ) -> Finals:
        """Measure the configurations again, as `Bench.finals` does with these arguments.

        Raises WorkerDied if one of them crashes or hangs the worker.
        """
        self.renew()
        count = len(configs) + (0 if rivals is None else len(rivals.configs))
        limit = LONGER * seconds + 2 * self.task.timeout * (count + 1)
        limit += MOST_PERIODS * (1 + count) * (sustained or 0.0)
        request = {
            "finals": self._completed(configs), "seconds": seconds, "with_library": with_library,
            "sustained": sustained, "quick": quick, "most_rounds": most_rounds,
            "rivals": None if rivals is None else rivals.to_json(),
        }  # fmt: skip
        return self._ask(Finals.from_json, request, limit, found_wrong)

    def library(self) -> list[float]:
        """The vendor library's times in ms (see `Bench.library`). Raises as `measure` does."""
        return self._ask(lambda reply: list(reply["times"]), {"library": True}, self.task.timeout)

    def launch_ms(self) -> float:
        """The launch overhead in ms. Raises as `measure` does."""
        return self._ask(lambda reply: float(reply["ms"]), {"launch": True}, self.task.timeout)

    def verify(self, configs: Sequence[Config], found_wrong: FoundWrong = lambda *_: None) -> list[Verified]:
        """Verify the configurations, as `Bench.verify` does.

        Raises WorkerDied if one of them crashes or hangs the worker.
        """
        self.renew()
        seconds, request = self.task.timeout * (len(configs) + 1), {"verify": self._completed(configs)}
        return self._ask(lambda reply: [Verified(**each) for each in reply["verified"]], request, seconds, found_wrong)

    def repeat(self, config: Config, runs: int, seconds: float | None) -> Repeated:
        """Run `config` again and again, and compare each run, as `Bench.repeat` does with these arguments.

        Raises as `measure` does. The timeout is for each part of the runs, because the worker says that it goes on.
        """
        self.renew()
        request = {"repeat": self.task.space.completed(config), "runs": runs, "seconds": seconds}
        return self._ask(lambda reply: Repeated(**reply), request, 3 * self.task.timeout)

    def renew(self) -> None:
        """Have the worker prepare the finals' inputs and answers, unless it has them; a failure is no configuration's
        fault. Raises as `measure` does."""
        if self._worker is not None and not self._worker.is_undisturbed():
            self.close()
        self.get_ready()
        if not self._renewed:
            self._ask_computing({"renew": True})
            self._renewed = True

    def relay(
        self, request: dict[str, Any], seconds: float, is_final: bool, found_wrong: FoundWrong = lambda *_: None
    ) -> dict[str, Any]:
        """The worker's reply to a request of a supervisor elsewhere, as JSON; `is_final` requests need the inputs and
        answers of the finals. Raises as `measure` does."""
        if is_final:
            self.renew()
        return self._reply(request, seconds, found_wrong)

    def kill(self) -> None:
        """Stop the worker for good, even during a measurement. Any thread may call this."""
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
        reply = self._reply(request, seconds, found_wrong)
        try:
            return read(reply)
        except (LookupError, TypeError, ValueError, AttributeError):
            self.close()
            raise WorkerDied(f"the worker of {self._name} sent a malformed reply", "crash") from None

    def _reply(self, request: dict[str, Any], seconds: float, found_wrong: FoundWrong) -> dict[str, Any]:
        """The worker's reply to a request. A worker that is not healthy afterwards is stopped: the fault would persist,
        so the next configuration gets a new process."""
        if self._worker is not None and not self._worker.is_undisturbed():
            self.close()
        self.get_ready()
        worker = self._worker
        assert worker is not None

        def heard(news: dict[str, Any]) -> None:
            if "position" in news:
                found_wrong(news["position"], news["failure"])
            else:
                self._heard(news)

        try:
            with turns.taken(self.device.place, lambda: self._killed):
                reply = worker.ask(request, seconds, heard)
        except TunerError as error:  # the worker has ended, or its state is unknown
            logger.debug("%s: worker stopped after an error: %s", self._device_id, error)
            self.close()
            if isinstance(error, WorkerDied):
                raise explained(self.task.space, error) from None
            raise
        if not reply.pop("healthy", False):
            self.close()
        return reply

    def _heard(self, news: dict[str, Any]) -> None:
        """Call the function that the worker asks for; without a question, it only says that it goes on."""
        if "call" in news and self._worker is not None:
            self._worker.answer(function_objects.answer(self.task.space.operation, news, self._worker.folder))

    def _ask_starting(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask the worker while it starts, before it can measure.

        Raises DeviceError if no reply comes: no configuration is to blame.
        """
        return self._ask_unblamed(request, lambda died: f"the worker does not start: {died}")

    def _ask_computing(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask the worker while it computes inputs and answers, which runs the space's own functions."""
        return self._ask_unblamed(request, lambda died: uncomputed(self.task.space, died))

    def _ask_unblamed(self, request: dict[str, Any], blame: Callable[[WorkerDied], str]) -> dict[str, Any]:
        assert self._worker is not None
        try:
            return self._worker.ask(request, START_TIMEOUT, self._heard)
        except WorkerDied as died:
            self.close()
            raise DeviceError(f"{self._device_id}: {blame(died)}") from None
        except BaseException:
            self.close()
            raise
