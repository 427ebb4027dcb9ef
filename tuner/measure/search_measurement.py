"""The measurement of configurations in a search: each is verified, then timed again while it may still be the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from tuner.devices.built import Built
from tuner.devices.program import Program
from tuner.errors import TrialError
from tuner.measure.contestants import Instruments
from tuner.measure.method import STANDARD, Method
from tuner.measure.results import BUILD, MEASURE, VERIFY, Outcome, check_is_own
from tuner.measure.timing.clock import START_UP_MS, StageWatch, TimedLaunch, normalised_by_input
from tuner.measure.timing.energy import INTERVALS
from tuner.measure.timing.kernel_tuner_loop import BenchmarkLoop
from tuner.measure.timing.observers import Observers
from tuner.measure.timing.race import MOST_LOOKS, Race
from tuner.measure.verify import bits
from tuner.measure.verify.bits import RunBits
from tuner.space.config import Config
from tuner.space.deployments import REPEATED


class SearchMeasurement:
    """Measures one configuration after the other, on the arrays of one workbench."""

    def __init__(self, instruments: Instruments, method: Method) -> None:
        self._with, self._method = instruments, method
        observers = Observers(method.observers, instruments.device) if method.observers else None
        self._loop = BenchmarkLoop(instruments.device, instruments.stopwatch, observers)

    def measured(self, built: Built, config: Config, best: float | None, watch: StageWatch) -> Outcome:
        """Verify and time a build of `config`. `best` is as in `Bench.measure`; `watch` has the time of the build."""
        for_time, fields = self._method.objectives == ("time",), dict[str, Any]()
        device, workbench = self._with.device, self._with.workbench
        a_digest = bits.seconds_of(device, workbench.output_bytes)
        own = workbench.bits = RunBits(a_digest, watch.seconds.get(BUILD, 0.0))
        race = Race(best if for_time else None, device.on_processor, self._method.most_batches)
        energy_race = Race(None if for_time else best)
        try:
            with watch.stage(BUILD):
                call = workbench.bind(Program(device, built))
                fields = {"figures": built.figures, "occupancy": built.occupancy}
                first = TimedLaunch(device, call)
            with watch.stage(VERIFY):
                verdict = workbench.verify(first)
            fields |= {"error": verdict.error, "bound": verdict.bound, "wrong": verdict.wrong, "bits": own.digests}
            # A single launch says little of the others where one time covers several.
            first_ms = math.inf if self._method.deployment in REPEATED else first.time_ms
            if math.isfinite(first_ms) and race.is_lost(first_ms, START_UP_MS) and not race.is_doubtful([first_ms]):
                return Outcome(times=(first.time_ms,), seconds=watch.seconds, **fields)
            with watch.stage(MEASURE):
                times = self.times(call, config, race, first_ms)
                if not self._method.race and device.sensors is not None:
                    fields["clock_mhz"] = device.sensors.clock_mhz()
                workbench.inspect()
                self._with.floor.check(median(times))
                energies = self._energies(call, median(times), energy_race)
            fields["doubtful"] = device.on_processor and race.is_lost(min(times)) and race.is_doubtful(times)
            energy_mj = median(energies) if energies else None
            fields["observed"] = self._loop.observed
            return Outcome(times=times, energy_mj=energy_mj, seconds=watch.seconds, **fields)
        except TrialError as error:
            check_is_own(error)
            return Outcome(**{**fields, "failure": error.reason, "log": str(error), "seconds": watch.seconds})

    def times(
        self, call: Callable[[], None], config: Config, race: Race, first_ms: float = math.inf
    ) -> tuple[float, ...]:
        """Time `call` and return its times in ms, normalised by input set.

        If the first run loses the race, it is repeated only while its time is doubtful (see `Race`). `first_ms` is the
        time of the earlier run that was verified, infinite if there was none.
        """
        rotation, method = self._with.workbench.rotation, self._method
        rotation.begin()
        times = [self._with.stopwatch.time(call)]
        while race.is_lost(min(times)) and race.is_doubtful(times, first_ms) and len(times) < MOST_LOOKS:
            times.append(self._with.stopwatch.time(call))
        if race.is_lost(min(times)):
            return race.counted(times)
        done = 0 if method.observers else len(times)  # observers see all runs that count
        batch = method.repeats if method.observers else STANDARD.repeats
        while done < method.repeats and not race.is_behind(times):
            count = min(batch, method.repeats - done)
            times += self._loop.times(call, config, count)
            done += count
        input_sets = rotation.used
        while race.is_open(normalised_by_input(times, input_sets), method.repeats):
            rotation.begin()
            times += self._loop.times(call, config, method.repeats)
            input_sets = input_sets + rotation.used
        return normalised_by_input(times, input_sets)

    def _energies(self, call: Callable[[], None], time_ms: float, race: Race) -> tuple[float, ...]:
        """The energy of one run in mJ, once for each interval; empty if the method does not measure it."""
        if not self._method.wants_energy:
            return ()
        return self._with.energy_meter.measure(call, time_ms, lambda found: _goes_on(found, race))


def _goes_on(energies: Sequence[float], race: Race) -> bool:
    """Whether the energy meter measures another interval of a configuration."""
    if not energies:
        return True
    if race.is_lost(min(energies)):
        return False
    return len(energies) < INTERVALS or race.is_open(energies, INTERVALS)
