"""The contestants of the final round: verified calls that take turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.measure.sustained import sustain

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.devices.forking import Kept
    from tuner.measure.floor import Floor
    from tuner.measure.results import Sustained
    from tuner.measure.timing.clock import Stopwatch
    from tuner.measure.timing.energy import EnergyMeter
    from tuner.measure.verify.bits import RunBits
    from tuner.measure.verify.rotation import Rotation
    from tuner.measure.workbench import Workbench
    from tuner.space.values.bit_classes import Bits

INTERVALS = 2  # of the energy meter, for each contestant in turn
Call = Callable[[], None]


@dataclass(frozen=True)
class Instruments:
    """What a contestant is measured with."""

    device: Device
    workbench: Workbench
    stopwatch: Stopwatch
    floor: Floor
    energy_meter: EnergyMeter


class Contestant:
    """A verified call. Where kernels run in processes of their own, this object is in that of its kernel.

    If it `vacates` its arrays, they take memory only during its turn.
    """

    def __init__(
        self, instruments: Instruments, call: Call, vacates: bool = False, bits: RunBits | None = None
    ) -> None:
        """`bits` collects those of its outputs; None if nobody asks for them."""
        self._with, self._call, self._vacates, self._bits = instruments, call, vacates, bits

    def time(self, input_set: int) -> float:
        """The time of one run on an input set, in ms. Raises LaunchError or WrongResult."""
        workbench = self._with.workbench
        workbench.rotation.pin(input_set)
        workbench.bits = self._bits
        if not self._vacates:
            return self._with.stopwatch.time(self._call)
        workbench.occupy()
        try:
            return self._with.stopwatch.time(self._call)
        finally:
            workbench.vacate()

    def run(self) -> None:
        """Run once on any input set and compare all outputs. Raises LaunchError or WrongResult."""
        self._with.workbench.bits = self._bits
        self._with.stopwatch.time(self._call)

    def bits(self) -> Bits:
        """The digests of the outputs of all its runs so far."""
        return self._bits.digests if self._bits is not None else {}

    def inspect(self) -> None:
        """Check guards and inputs. Raises WrongResult if one has changed."""
        self._with.workbench.inspect()

    def energies(self, time_ms: float) -> tuple[float, ...]:
        """The energy of one run in mJ, once for each interval; empty if the board does not measure it.

        `time_ms` is the time of a run. Raises LaunchError or WrongResult.
        """
        return self._with.energy_meter.measure(self._call, time_ms, lambda found: len(found) < INTERVALS)

    def verify(self, time_ms: float) -> None:
        """Verify the call once more, with the guards and inputs. Raises WrongResult, also if its time is impossible."""
        self._with.floor.check(time_ms)
        self._with.workbench.bits = self._bits
        self._with.workbench.verify(self._call)

    def sustain(self, time_ms: float, others: Sequence[tuple[Call, float]], seconds: float) -> list[Sustained | None]:
        """Run this call and the `others` back to back, as `sustain` does."""
        calls = [(self._call, time_ms), *others]
        self._with.workbench.bits = None
        return sustain(self._with.device, self._with.workbench, calls, seconds)


class Turns:
    """Times contestants one at a time, all on the same inputs in each round."""

    def __init__(self, rotation: Rotation) -> None:
        self._rotation, self._input_set = rotation, 0

    def pin_inputs(self, runs: int) -> int:
        """Use one input set for the next `runs` runs and return its number. Sets alternate between calls."""
        self._input_set = self._rotation.pin_inputs(runs)
        return self._input_set

    def time(self, contestant: Kept) -> float:
        """The time of one run in ms. Raises LaunchError or WrongResult."""
        time_ms: float = contestant.ask("time", self._input_set)
        return time_ms
