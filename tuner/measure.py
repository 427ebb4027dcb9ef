"""One configuration: build, load, verify, time. Runs in the worker process, which alone holds the device.

Kernel Tuner times: its `DeviceInterface.benchmark` drives our device through `_Backend`, and an observer collects
the samples. What it is given has been built, loaded and verified by us already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from types import SimpleNamespace
from typing import Any, Literal

from kernel_tuner.backends.backend import Backend
from kernel_tuner.core import DeviceInterface
from kernel_tuner.observers.observer import BenchmarkObserver

from tuner import builder, finals
from tuner.devices import Device, Library, figures
from tuner.devices.figures import NO_FIGURES, Figures
from tuner.errors import DeviceError, LaunchError, RequestError, TrialError, WrongResult
from tuner.finals import FINAL_SECONDS, Final, Finals, Stopwatch, interleave, spread
from tuner.products import Products
from tuner.space import Config, Scope, Space, Value
from tuner.verify import Workbench, check_fits

RACE = 1.5
START_UP_MS = 1.0  # what a kernel's very first run may take more than the later ones
STEADY = 0.01
MOST_BATCHES = 3

Objective = Literal["time", "energy", "edp", "registers", "shared_memory"]
OBJECTIVES: Mapping[Objective, str] = {  # and what their values are called, with their units
    "time": "time_ms",
    "energy": "energy_mj",
    "edp": "energy_delay_mj_ms",
    "registers": "registers",
    "shared_memory": "shared_memory_bytes",
}
_OF_A_RUN: tuple[Objective, ...] = ("time", "energy", "edp")


@dataclass(frozen=True)
class Method:
    """How configurations are measured: timed runs of each; caches flushed before each run or not; what is to be least,
    one or several (time in ms, energy in mJ, their product, a thread's registers, a block's shared memory in bytes),
    where the first one decides what is best; whether hopeless ones are stopped early."""

    repeats: int = 7
    cold: bool = False
    objectives: tuple[Objective, ...] = ("time",)
    race: bool = True

    @property
    def races(self) -> bool:
        """Whether a slow configuration is hopeless: it may still be the best by another measure."""
        return self.race and self.objectives == ("time",)

    @property
    def wants_energy(self) -> bool:
        return "energy" in self.objectives or "edp" in self.objectives

    @property
    def metrics(self) -> tuple[str, ...]:
        """The objectives' names, with units."""
        return tuple(OBJECTIVES[objective] for objective in self.objectives)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Method:
        return Method(**{**data, "objectives": tuple(data["objectives"])})


STANDARD = Method()


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """`time`, or several with commas between. Raises RequestError for anything else."""
    names = text.split(",")
    chosen = tuple(objective for name in names for objective in OBJECTIVES if objective == name.strip())
    if len(chosen) != len(names) or len(set(chosen)) != len(names):
        raise RequestError(
            f"--objective {text!r}: write one of {', '.join(OBJECTIVES)}, or several with commas, each once, as in "
            "time,registers"
        )
    if chosen[0] not in _OF_A_RUN:
        ordered = ",".join(objective for objective in OBJECTIVES if objective in ("time", *chosen))
        raise RequestError(
            f"--objective {text!r}: the first decides what is stored as the best; it must be one of "
            f"{', '.join(_OF_A_RUN)}, as in {ordered}"
        )
    return chosen


def objective_values(
    objectives: Sequence[Objective], time_ms: float, energy_mj: float | None, figures: Figures
) -> tuple[float, ...]:
    """What is to be least, in the units of OBJECTIVES; what is not known counts as infinite."""
    known: dict[Objective, float | None] = {
        "time": time_ms,
        "energy": energy_mj,
        "edp": None if energy_mj is None else energy_mj * time_ms,
        "registers": figures.registers,
        "shared_memory": figures.shared_memory,
    }
    values = (known[objective] for objective in objectives)
    return tuple(math.inf if value is None else float(value) for value in values)


@dataclass(frozen=True)
class Outcome:
    """What came of one configuration: times in ms, the largest error and its bound, energy of a run where that was
    asked for; or a reason and a log. `figures` and `occupancy` are of the build, where there is one."""

    times: tuple[float, ...] = ()
    error: float = 0.0
    bound: float = 0.0
    energy_mj: float | None = None
    failure: str | None = None
    log: str = ""
    figures: Figures = NO_FIGURES
    occupancy: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Outcome:
        values = {**data, "times": tuple(data["times"]), "figures": Figures.from_json(data["figures"])}
        return Outcome(**values)


def check(device: Device, space: Space, scope: Scope, method: Method) -> None:
    """Raise DeviceError where a Bench would not fit the device, or the device does not know what `method` asks for."""
    check_fits(device, space.operation, scope)
    if method.wants_energy and (device.sensors is None or device.sensors.energy_mj() is None):
        raise DeviceError(f"--objective {','.join(method.objectives)}: {device.name} does not say what energy it uses")
    for objective in method.objectives:
        if objective not in _OF_A_RUN and objective not in device.compiler.tells:
            told = " and ".join(device.compiler.tells) or "nothing of the kind"
            raise DeviceError(
                f"--objective {objective}: the compiler for {device.id} does not tell it; it tells {told}"
            )


class Bench:
    """Measures configurations of one space at one size on one device."""

    def __init__(
        self, device: Device, space: Space, scope: Scope, method: Method = STANDARD, products: Products | None = None
    ) -> None:
        """Raises DeviceError where the problem does not fit the device."""
        self.device, self.space, self.scope, self.method = device, space, scope, method
        self.workbench = Workbench(device, space.operation, scope, products=products)
        self._timing = _Timing(device, method)

    def prepared(self, config: Config, workbench: Workbench | None = None) -> tuple[Callable[[], None], dict[str, Any]]:
        """A launch of `config` on the workbench, and the fields of its Outcome that the build gives.

        Raises TrialError where it does not build, load or have a geometry.
        """
        bench = workbench or self.workbench
        made, built = builder.build(self.device.compiler, self.space, config, bench.scope)
        occupancy = figures.occupancy(built.figures, made.geometry, bench.scope.limits)
        call = bench.bind(self.device.load(built, made))
        return call, {"figures": built.figures.launched(made.geometry), "occupancy": occupancy}

    def measure(self, config: Config, best_ms: float | None = None) -> Outcome:
        """Verify, then time, then verify again, `config`. A configuration that fails is an Outcome too.

        Racing: `best_ms` is the best median so far (infinite before the first). Where the run that is verified, or the
        one after it, takes more than RACE times as long, that is its only time: a run of the best configuration would
        have to be that much slower than its own median to be stopped. Repeats adapt: where more than a quarter of the
        times lie below `best_ms` and they spread by more than STEADY, as many again are taken, up to MOST_BATCHES
        times. Without `best_ms` there is neither.
        """
        known: dict[str, Any] = {}
        try:
            call, known = self.prepared(config)
            first = _First(self.device, call)
            verdict = self.workbench.verify(first)
            known |= {"error": verdict.error, "bound": verdict.bound}
            hopeless_ms = math.inf if best_ms is None else RACE * best_ms
            if first.time_ms > hopeless_ms + START_UP_MS:
                return Outcome(times=(first.time_ms,), **known)
            times = self._timing.samples(call, config, hopeless_ms, best_ms)
            if len(times) > 1:
                self.workbench.verify_after(len(times))
            return Outcome(times=times, energy_mj=self._energy(call, median(times)), **known)
        except TrialError as error:
            return Outcome(**{**known, "failure": error.reason, "log": str(error)})

    def _energy(self, call: Callable[[], None], time_ms: float) -> float | None:
        return finals.energy(self.device, call, time_ms) if self.method.wants_energy else None

    def finals(self, configs: Sequence[Config], seconds: float = FINAL_SECONDS, with_library: bool = True) -> Finals:
        """The given configurations verified again, also with other options, and measured again, interleaved with one
        another and with the vendor's library. One that fails now has a `failure`."""
        other = self.workbench.with_other_options()
        calls: dict[int, Callable[[], None]] = {}
        failures: dict[int, str] = {}
        for position, config in enumerate(configs):
            try:
                if other is not None and self.space.valid(config, other.scope):
                    _verify_with_options(other, self.prepared(config, other)[0])
                call, _ = self.prepared(config)
                self.workbench.verify(call)
                calls[position] = call
            except TrialError as error:
                failures[position] = f"{error.reason}: {error}"
        library = self._library() if calls and with_library else None
        if library is not None:
            calls[len(configs)] = library
        seen = interleave(self.device, list(calls.values()), seconds, self.method.cold)
        times = dict(zip(calls, seen.times, strict=True))
        used = {position: self._energy(call, median(times[position])) for position, call in calls.items()}
        for position in range(len(configs)):
            if position in calls:  # a result that changes from run to run shows after many of them
                try:
                    self.workbench.verify(calls[position])
                except TrialError as error:
                    failures[position] = f"{error.reason} after {len(times[position])} runs: {error}"
        last = len(configs)
        return Finals(
            candidates=[
                Final(times.get(i, ()), failure=failures.get(i), energy_mj=used.get(i)) for i in range(len(configs))
            ],
            library=Final(times[last], library.name, energy_mj=used[last]) if library is not None else None,
            clock_mhz=median(seen.clocks) if seen.clocks else None,
            throttled=sorted(seen.throttled),
        )

    def _library(self) -> Library | None:
        """The vendor's routine on the workbench, if there is one, and it runs and is right too."""
        try:
            library = self.workbench.library()
            if library is not None:
                self.workbench.verify(library)
        except Exception:
            return None
        return library

    def healthy(self) -> bool:
        """Whether the device still answers; after an asynchronous fault it may not, until the process ends."""
        try:
            self.device.synchronize()
        except LaunchError:
            return False
        return True


class _First:
    """A launch that is timed on the way, without waiting for it."""

    def __init__(self, device: Device, call: Callable[[], None]) -> None:
        self._timer, self._call = device.timer(), call

    def __call__(self) -> None:
        self._timer.start()
        self._call()
        self._timer.stop()

    @property
    def time_ms(self) -> float:
        return self._timer.milliseconds()


def _verify_with_options(workbench: Workbench, call: Callable[[], None]) -> None:
    try:
        workbench.verify(call)
    except WrongResult as error:
        options = ", ".join(f"{name}={value}" for name, value in workbench.scope.options.items())
        raise WrongResult(f"with {options}: {error}", error.reason) from None


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

    def __init__(self, device: Device, cold: bool) -> None:
        self._device = device
        self.stopwatch = Stopwatch(device, cold)
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

    def __init__(self, device: Device, method: Method) -> None:
        self.dev = _Backend(device, method.cold)
        self.iterations = method.repeats
        self.benchmark_observers = self.dev.observers
        self.prologue_observers: list[Any] = []
        self.continuous_observers: list[Any] = []
        self.use_nvml = self.use_tegra = False

    def samples(
        self, call: Callable[[], None], params: Mapping[str, Value], hopeless_ms: float, best_ms: float | None
    ) -> tuple[float, ...]:
        """Times in ms of launches, each waited for, after one that only warms up unless it takes more than
        `hopeless_ms`: then it is the only one. See `Bench.measure` for how many. Raises LaunchError."""
        self.dev.call = call
        self.dev.expected_ms = self.dev.stopwatch.time(call)
        if self.dev.expected_ms > hopeless_ms:
            return (self.dev.expected_ms,)
        instance = SimpleNamespace(name="kernel", threads=(1, 1, 1), grid=(1, 1, 1), params=params)
        times: list[float] = []
        while not times or (len(times) < MOST_BATCHES * self.iterations and _undecided(times, best_ms)):
            result = self.benchmark(call, None, instance, verbose=False, objective="time")
            if "__error__" in result:
                raise LaunchError("the device refused the launch", "too many resources")
            times += result["times"]
        return tuple(times)


def _undecided(times: Sequence[float], best_ms: float | None) -> bool:
    """Whether more samples could change what these say about being the best."""
    return best_ms is not None and spread(times) > STEADY and quantiles(times, n=4)[0] < best_ms
