"""The roofline that a kernel lies under: which of the device's ceilings bounds it, and how near it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.devices.ceilings import COPY

if TYPE_CHECKING:
    from tuner.devices.ceilings import Ceilings
    from tuner.store.rates import Rates


@dataclass(frozen=True)
class Roofline:
    """The ceilings that bound a kernel of this arithmetic intensity, in FLOP per byte: `memory` and `peak` are names of
    ceilings with their rates in GB/s and GFLOP/s; `attainable` is the lower bound of the two in GFLOP/s.

    `in_cache`: the caches may hold all arrays, so memory may not bound them. (Williams, Waterman, Patterson: Roofline,
    CACM 2009.)
    """

    intensity: float
    memory: tuple[str, float]
    peak: tuple[str, float]
    in_cache: bool

    @property
    def attainable(self) -> float:
        return min(self.peak[1], self.intensity * self.memory[1])

    @property
    def ridge(self) -> float:
        """The intensity above which arithmetic is the bound."""
        return self.peak[1] / self.memory[1]

    @property
    def is_of_memory(self) -> bool:
        """Whether memory is the bound."""
        return self.intensity < self.ridge

    @property
    def bound(self) -> str:
        """The name of the ceiling that is the bound."""
        return self.memory[0] if self.is_of_memory else self.peak[0]

    def share(self, rates: Rates) -> float:
        """The part of what is attainable that a run of these rates reaches."""
        return (rates.gflops or 0.0) / self.attainable


def of(rates: Rates | None, ceilings: Ceilings | None) -> Roofline | None:
    """The roofline above a run of these rates; None where its work or the ceilings are not known."""
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
    """Why there is none, and what to do, as a sentence."""
    if ceilings is None:
        return "The ceilings of the device were not measured; on it, `tune devices --measure` measures them."
    if rates is None:
        return "The kernel is not known here, so nothing counts its work."
    missing = [f"`{key}:`" for key, rate in (("flops", rates.gflops), ("bytes", rates.gbytes)) if not rate]
    if missing:
        return f"The work is not counted: the operation has no {' and no '.join(missing)}."
    return "No ceiling was measured for arithmetic on the types of this kernel."
