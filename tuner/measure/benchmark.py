"""One configuration: build, load, verify, time. Runs in the worker process, which alone holds the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from tuner.devices import Device, Library, figures
from tuner.devices.build import build
from tuner.errors import DeviceError, LaunchError, TrialError, WrongResult
from tuner.measure.kernel_tuner_loop import BenchmarkLoop
from tuner.measure.method import OF_A_RUN, STANDARD, Method
from tuner.measure.results import Final, Finals, Outcome
from tuner.measure.timing import FINAL_SECONDS, START_UP_MS, Race, Stopwatch, energy, interleave
from tuner.measure.workbench import Workbench, check_fits
from tuner.space.model import Config, Scope, Space
from tuner.space.reference_cache import ReferenceCache


def check(device: Device, space: Space, scope: Scope, method: Method) -> None:
    """Raise DeviceError where a Bench would not fit the device, or the device does not know what `method` asks for."""
    check_fits(device, space.operation, scope)
    if method.wants_energy and (device.sensors is None or device.sensors.energy_mj() is None):
        raise DeviceError(f"--objective {','.join(method.objectives)}: {device.name} does not say what energy it uses")
    for objective in method.objectives:
        if objective not in OF_A_RUN and objective not in device.compiler.tells:
            told = " and ".join(device.compiler.tells) or "nothing of the kind"
            raise DeviceError(
                f"--objective {objective}: the compiler for {device.id} does not tell it; it tells {told}"
            )


class Bench:
    """Measures configurations of one space at one size on one device."""

    def __init__(
        self,
        device: Device,
        space: Space,
        scope: Scope,
        method: Method = STANDARD,
        products: ReferenceCache | None = None,
    ) -> None:
        """Raises DeviceError where the problem does not fit the device."""
        self.device, self.space, self.scope, self.method = device, space, scope, method
        self.workbench = Workbench(device, space.operation, scope, products=products)
        self._stopwatch = Stopwatch(device, method.cold)
        self._loop = BenchmarkLoop(device, self._stopwatch, method.repeats)

    def prepared(self, config: Config, workbench: Workbench | None = None) -> tuple[Callable[[], None], dict[str, Any]]:
        """A launch of `config` on the workbench, and the fields of its Outcome that the build gives.

        Raises TrialError where it does not build, load or have a geometry.
        """
        bench = workbench or self.workbench
        source, binary = build(self.device.compiler, self.space, config, bench.scope)
        occupancy = figures.occupancy(binary.figures, source.geometry, bench.scope.limits)
        call = bench.bind(self.device.load(binary, source))
        return call, {"figures": binary.figures.launched(source.geometry), "occupancy": occupancy}

    def measure(self, config: Config, best_ms: float | None = None) -> Outcome:
        """Verify, then time, then verify again, `config`. A configuration that fails is an Outcome too.

        `best_ms` is the best median so far: see `Race`.
        """
        race, facts = Race(best_ms), dict[str, Any]()
        try:
            call, facts = self.prepared(config)
            first = _First(self.device, call)
            verdict = self.workbench.verify(first)
            facts |= {"error": verdict.error, "bound": verdict.bound}
            if race.is_lost(first.time_ms, START_UP_MS):
                return Outcome(times=(first.time_ms,), **facts)
            times = self._times(call, config, race)
            if len(times) > 1:
                self.workbench.verify_after(len(times))
            return Outcome(times=times, energy_mj=self._energy(call, median(times)), **facts)
        except TrialError as error:
            return Outcome(**{**facts, "failure": error.reason, "log": str(error)})

    def _times(self, call: Callable[[], None], config: Config, race: Race) -> tuple[float, ...]:
        """Times in ms, after a run that only warms up, unless that one decides the race: then it is the only one."""
        expected_ms = self._stopwatch.time(call)
        if race.is_lost(expected_ms):
            return (expected_ms,)
        times = self._loop.times(call, config, expected_ms)
        while race.is_open(times, self.method.repeats):
            times += self._loop.times(call, config, expected_ms)
        return tuple(times)

    def _energy(self, call: Callable[[], None], time_ms: float) -> float | None:
        return energy(self.device, call, time_ms) if self.method.wants_energy else None

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
