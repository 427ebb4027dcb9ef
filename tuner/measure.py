"""One configuration: build, load, verify, time. Runs in the worker process, which alone holds the device.

Kernel Tuner times: its `DeviceInterface.benchmark` drives our device through `_Backend`, and an observer collects
the samples. What it is given has been built, loaded and verified by us already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from types import SimpleNamespace
from typing import Any

from kernel_tuner.backends.backend import Backend
from kernel_tuner.core import DeviceInterface
from kernel_tuner.observers.observer import BenchmarkObserver

from tuner import source
from tuner.devices import Device, Library
from tuner.errors import ExpressionError, GeometryError, LaunchError, TrialError, WrongResult
from tuner.finals import FINAL_SECONDS, Final, Stopwatch, interleave
from tuner.space import Config, Scope, Space, Value
from tuner.verify import Workbench

REPEATS = 7
RACE = 1.5


@dataclass(frozen=True)
class Outcome:
    """What came of one configuration: times in ms, the largest error and its bound; or a reason and a log."""

    times: tuple[float, ...] = ()
    error: float = 0.0
    bound: float = 0.0
    failure: str | None = None
    log: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Outcome:
        return Outcome(tuple(data["times"]), data["error"], data["bound"], data["failure"], data["log"])


class Bench:
    """Measures configurations of one space at one size on one device."""

    def __init__(self, device: Device, space: Space, scope: Scope, repeats: int = REPEATS) -> None:
        self.device, self.space, self.scope = device, space, scope
        self.workbench = Workbench(device, space.operation, scope)
        self._timing = _Timing(device, repeats)

    def prepared(self, config: Config, workbench: Workbench | None = None) -> Callable[[], None]:
        """A launch of `config` on the workbench. Raises TrialError where it does not build, load or have a geometry."""
        try:
            bench = workbench or self.workbench
            made = source.render(self.space, config, bench.scope)
        except ExpressionError as error:
            raise GeometryError(str(error)) from None
        return bench.bind(self.device.load(self.device.build(made), made))

    def measure(self, config: Config, best_ms: float | None = None) -> Outcome:
        """Verify, then time, `config`. A configuration that fails is an Outcome too.

        Racing: where the first timed run takes more than RACE times `best_ms`, the best median so far, it is the only
        one. A run of the best configuration would have to be that much slower than its own median to be stopped.
        """
        try:
            call = self.prepared(config)
            verdict = self.workbench.verify(call)
            enough_ms = math.inf if best_ms is None else RACE * best_ms
            return Outcome(
                times=self._timing.samples(call, config, enough_ms), error=verdict.error, bound=verdict.bound
            )
        except TrialError as error:
            return Outcome(failure=error.reason, log=str(error))

    def finals(self, configs: Sequence[Config], seconds: float = FINAL_SECONDS) -> list[Final]:
        """The given configurations verified again, also with other options, and measured again, interleaved; one Final
        for each, then one for the vendor's library where there is one. One that fails now has a `failure`."""
        other = self.workbench.with_other_options()
        calls: dict[int, Callable[[], None]] = {}
        failures: dict[int, str] = {}
        for position, config in enumerate(configs):
            try:
                if other is not None and self.space.valid(config, other.scope):
                    _verify_with_options(other, self.prepared(config, other))
                call = self.prepared(config)
                self.workbench.verify(call)
                calls[position] = call
            except TrialError as error:
                failures[position] = f"{error.reason}: {error}"
        library = self._library() if calls else None
        if library is not None:
            calls[len(configs)] = library
        times = dict(zip(calls, interleave(self.device, list(calls.values()), seconds), strict=True))
        for position in range(len(configs)):
            if position in calls:  # a result that changes from run to run shows after many of them
                try:
                    self.workbench.verify(calls[position])
                except TrialError as error:
                    failures[position] = f"{error.reason} after {len(times[position])} runs: {error}"
        found = [Final(times.get(i, ()), failure=failures.get(i)) for i in range(len(configs))]
        return [*found, Final(times[len(configs)], library.name)] if library is not None else found

    def _library(self) -> Library | None:
        """The vendor's routine on the workbench, if there is one and it is right too."""
        library = self.workbench.library()
        try:
            if library is not None:
                self.workbench.verify(library)
        except TrialError:
            return None
        return library

    def healthy(self) -> bool:
        """Whether the device still answers; after an asynchronous fault it may not, until the process ends."""
        try:
            self.device.synchronize()
        except LaunchError:
            return False
        return True


def _verify_with_options(workbench: Workbench, call: Callable[[], None]) -> None:
    try:
        workbench.verify(call)
    except WrongResult as error:
        options = ", ".join(f"{name}={value}" for name, value in workbench.scope.options.items())
        raise WrongResult(f"with {options}: {error}") from None


class _Samples(BenchmarkObserver):  # type: ignore[misc]  # kernel_tuner has no types
    """Collects the time of each iteration."""

    def __init__(self, backend: _Backend) -> None:
        self._backend = backend
        self.times: list[float] = []

    def before_start(self) -> None:
        pass

    def after_finish(self) -> None:
        self.times.append(self._backend.stopwatch.timer.milliseconds())

    def get_results(self) -> dict[str, Any]:
        times, self.times = self.times, []
        return {"time": median(times), "times": times}


class _Backend(Backend):  # type: ignore[misc]
    """One of our devices as Kernel Tuner's backend, timing `call`, a launch that has its arguments and geometry."""

    units: Mapping[str, str] = {"time": "ms"}

    call: Callable[[], None]

    def __init__(self, device: Device) -> None:
        self._device = device
        self.stopwatch = Stopwatch(device)
        self.expected_ms = math.inf
        self.observers = [_Samples(self)]
        self.name, self.max_threads = device.name, device.limits.max_threads

    def start_event(self) -> None:
        self.stopwatch.start(self.call, self.expected_ms)

    def stop_event(self) -> None:
        self.stopwatch.timer.stop()

    def kernel_finished(self) -> bool:
        return self.stopwatch.timer.finished()

    def synchronize(self) -> None:
        self._device.synchronize()

    def run_kernel(self, func: Callable[[], None], gpu_args: Any, threads: Any, grid: Any, stream: Any = None) -> None:
        func()

    def compile(self, kernel_instance: Any) -> Any:
        raise _not_used()

    def ready_argument_list(self, arguments: Any) -> Any:
        raise _not_used()

    def memset(self, allocation: Any, value: int, size: int) -> None:
        raise _not_used()

    def memcpy_dtoh(self, dest: Any, src: Any) -> None:
        raise _not_used()

    def memcpy_htod(self, dest: Any, src: Any) -> None:
        raise _not_used()

    def refresh_memory(self, device_memory: Any, host_arguments: Any, should_sync: Any) -> None:
        raise _not_used()


def _not_used() -> AssertionError:
    return AssertionError("the workbench does this before Kernel Tuner is asked to time")


class _Timing(DeviceInterface):  # type: ignore[misc]
    """Kernel Tuner's benchmark loop on our device.

    Its constructor would open a device of its own; what `benchmark` needs of it is set here instead.
    """

    def __init__(self, device: Device, repeats: int) -> None:
        self.dev = _Backend(device)
        self.iterations = repeats
        self.benchmark_observers = self.dev.observers
        self.prologue_observers: list[Any] = []
        self.continuous_observers: list[Any] = []
        self.use_nvml = self.use_tegra = False

    def samples(self, call: Callable[[], None], params: Mapping[str, Value], enough_ms: float) -> tuple[float, ...]:
        """Times in ms of `repeats` launches, each waited for, after one that only warms up unless it takes more than
        `enough_ms`: then it is the only one. Raises LaunchError."""
        self.dev.call = call
        self.dev.expected_ms = self.dev.stopwatch.time(call)
        if self.dev.expected_ms > enough_ms:
            return (self.dev.expected_ms,)
        instance = SimpleNamespace(name="kernel", threads=(1, 1, 1), grid=(1, 1, 1), params=params)
        result = self.benchmark(call, None, instance, verbose=False, objective="time")
        if "__error__" in result:
            raise LaunchError("the device refused the launch: too many resources requested")
        return tuple(result["times"])
