"""The roofline of a kernel: the measured ceiling that bounds it, and the attainable rate.

Williams, Waterman, Patterson: Roofline: An Insightful Visual Performance Model for Multicore Architectures, CACM 2009.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.devices.ceilings import COPY

if TYPE_CHECKING:
    from tuner.devices.ceilings import Ceilings
    from tuner.store.rates import Rates


@dataclass(frozen=True)
class Roofline:
    """The memory and compute ceilings above a kernel.

    intensity: arithmetic intensity in FLOP per byte of compulsory traffic.
    memory: the name of the memory ceiling, and its bandwidth in GB/s.
    peak: the name of the arithmetic ceiling, and its rate in GFLOP/s.
    in_cache: all arrays may fit in the cache, so the memory ceiling may not apply.
    """

    intensity: float
    memory: tuple[str, float]
    peak: tuple[str, float]
    in_cache: bool

    @property
    def attainable(self) -> float:
        """The attainable rate in GFLOP/s: the lower of the two ceilings at this intensity."""
        return min(self.peak[1], self.intensity * self.memory[1])

    @property
    def ridge(self) -> float:
        """The ridge point in FLOP per byte: above it, a kernel is compute-bound."""
        return self.peak[1] / self.memory[1]

    @property
    def is_memory_bound(self) -> bool:
        """Whether the memory ceiling bounds the kernel."""
        return self.intensity < self.ridge

    @property
    def bound(self) -> str:
        """The name of the ceiling that bounds the kernel."""
        return self.memory[0] if self.is_memory_bound else self.peak[0]

    def share(self, rates: Rates) -> float:
        """The share (0 to 1) of the attainable rate that a run with these rates reaches."""
        return (rates.gflops or 0.0) / self.attainable


def of(rates: Rates | None, ceilings: Ceilings | None) -> Roofline | None:
    """The roofline above a run with these rates; None if its FLOP, its bytes or the ceilings are unknown."""
    if ceilings is None or rates is None or not rates.gflops or not rates.gbytes:
        return None
    memory = rates.memory or COPY
    peak = rates.peak
    if peak is None or memory not in ceilings.rates:
        return None
    return Roofline(
        rates.gflops / rates.gbytes,
        (memory, ceilings.rates[memory].rate),
        (peak, ceilings.rates[peak].rate),
        rates.memory is None,
    )


def why_none(rates: Rates | None, ceilings: Ceilings | None) -> str:
    """Why there is no roofline, and the next step, as a sentence."""
    if ceilings is None:
        return "The ceilings of the device were not measured; run `tune devices --measure` on it."
    if rates is None:
        return "The kernel is unknown on this machine, so its FLOP and bytes are unknown."
    missing = [f"`{key}:`" for key, rate in (("flops", rates.gflops), ("bytes", rates.gbytes)) if not rate]
    if missing:
        return f"The kernel's work is unknown: the operation has no {' and no '.join(missing)}."
    return "No arithmetic ceiling was measured for the types of this kernel."
