"""One configuration: build, load, verify, time. Runs in the worker process, which alone holds the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from tuner.devices import Device, Library, figures
from tuner.errors import DeviceError, LaunchError, TrialError, WrongResult
from tuner.measure import timing
from tuner.measure.kernel_tuner_loop import Timing
from tuner.measure.method import OF_A_RUN, STANDARD, Method, Outcome
from tuner.measure.process import compile_worker
from tuner.measure.timing import FINAL_SECONDS, Final, Finals, interleave
from tuner.measure.workbench import Workbench, check_fits
from tuner.space.model import Config, Scope, Space
from tuner.space.reference_cache import Products

RACE = 1.5
START_UP_MS = 1.0  # what a kernel's very first run may take more than the later ones


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
        self, device: Device, space: Space, scope: Scope, method: Method = STANDARD, products: Products | None = None
    ) -> None:
        """Raises DeviceError where the problem does not fit the device."""
        self.device, self.space, self.scope, self.method = device, space, scope, method
        self.workbench = Workbench(device, space.operation, scope, products=products)
        self._timing = Timing(device, method)

    def prepared(self, config: Config, workbench: Workbench | None = None) -> tuple[Callable[[], None], dict[str, Any]]:
        """A launch of `config` on the workbench, and the fields of its Outcome that the build gives.

        Raises TrialError where it does not build, load or have a geometry.
        """
        bench = workbench or self.workbench
        made, built = compile_worker.build(self.device.compiler, self.space, config, bench.scope)
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
        return timing.energy(self.device, call, time_ms) if self.method.wants_energy else None

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
