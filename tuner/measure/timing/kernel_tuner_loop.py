"""Kernel Tuner's benchmark loop: its `DeviceInterface.benchmark` times our devices.

The loop drives a device through `_Backend`, and an observer collects the times. Kernels are built, loaded and verified
before.
"""

import contextlib
from collections.abc import Callable, Mapping
from statistics import median
from types import SimpleNamespace
from typing import Any

from tuner.devices import Device
from tuner.errors import LaunchError
from tuner.measure.timing.clock import Stopwatch
from tuner.measure.timing.hidden import Hidden
from tuner.measure.timing.observers import Observers, plain
from tuner.space.config import Value

with Hidden():  # the loop uses neither
    from kernel_tuner.backends.backend import Backend
    from kernel_tuner.core import DeviceInterface
    from kernel_tuner.observers.observer import BenchmarkObserver


class _TimeObserver(BenchmarkObserver):  # type: ignore[misc]  # kernel_tuner has no types
    """Collects the time of each iteration in ms."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        self.times: list[float] = []

    def before_start(self) -> None:
        pass

    def after_finish(self) -> None:
        self.times.append(self._stopwatch.finish())

    def get_results(self) -> dict[str, Any]:
        return {"time": median(self.times), "times": self.times}


class _Backend(Backend):  # type: ignore[misc]  # as above
    """One of our devices as a Kernel Tuner backend. Its `func` is a call that launches a kernel."""

    units: Mapping[str, str] = {"time": "ms"}

    def __init__(self, device: Device, stopwatch: Stopwatch) -> None:
        self._device, self._stopwatch = device, stopwatch
        self.observers = [_TimeObserver(stopwatch)]
        self.name, self.max_threads = device.name, device.limits.max_threads
        self.is_continuous = False  # whether runs follow one another, and arrays stay as they leave them

    def start_event(self) -> None:
        if self.is_continuous:
            self._stopwatch.timer.start()
        else:
            self._stopwatch.start()

    def stop_event(self) -> None:
        self._stopwatch.timer.stop()

    def kernel_finished(self) -> bool:
        return self._stopwatch.timer.finished()

    def synchronize(self) -> None:
        self._device.synchronize()

    def run_kernel(self, func: Callable[[], None], gpu_args: Any, threads: Any, grid: Any, stream: Any = None) -> None:
        func()

    def _unused(self, *_: Any) -> Any:
        raise AssertionError("the workbench does this before Kernel Tuner times the kernel")

    compile = ready_argument_list = refresh_memory = _unused
    memset = memcpy_dtoh = memcpy_htod = _unused


class BenchmarkLoop(DeviceInterface):  # type: ignore[misc]  # as above
    """Kernel Tuner's benchmark loop on one of our devices.

    The constructor of DeviceInterface would open a device, so this one only sets the attributes that `benchmark` reads.
    """

    def __init__(self, device: Device, stopwatch: Stopwatch, observers: Observers | None = None) -> None:
        self.dev, self._stopwatch = _Backend(device, stopwatch), stopwatch
        others = [] if observers is None else observers.each
        self.dev.observers += others
        self.benchmark_observers = self.dev.observers
        self.prologue_observers: list[Any] = []
        self.continuous_observers: list[Any] = [
            o.continuous_observer for o in others if hasattr(o, "continuous_observer")
        ]
        self.use_nvml = self.use_tegra = False
        self.observed: dict[str, Any] = {}  # what the observers found in the latest runs

    def benchmark_continuous(self, *arguments: Any) -> None:
        """Run for observers that watch a second of runs, whose outputs are not compared."""
        self.dev.is_continuous = True
        try:
            super().benchmark_continuous(*arguments)
        finally:
            self.dev.is_continuous = False

    def times(self, call: Callable[[], None], params: Mapping[str, Value], repeats: int) -> list[float]:
        """Times in ms of `repeats` launches, one after the other. Raises LaunchError or WrongResult."""
        if not repeats:
            return []
        self.iterations = repeats
        observer = self.dev.observers[0]
        observer.times = []  # a call that ended in an error leaves its times
        deployed = self._stopwatch.expect(call)
        instance = SimpleNamespace(name="kernel", threads=(1, 1, 1), grid=(1, 1, 1), params=params)
        with contextlib.redirect_stdout(None):  # it prints an error before raising it
            result = self.benchmark(deployed, None, instance, verbose=False, objective="time")
        if "__error__" in result:
            raise LaunchError("the device refused the launch", "too many resources")
        if len(self.dev.observers) > 1:
            self.observed = plain({name: value for name, value in result.items() if name not in ("time", "times")})
        return list(observer.times)
