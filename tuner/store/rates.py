"""The rates of a run in GFLOP/s and GB/s, also as shares of the device's measured ceilings."""

from __future__ import annotations

from tuner.classes import dataclass
from tuner.devices.ceilings import CACHES, COPY, FMA, READ, TENSOR, WRITE, Ceilings
from tuner.space import chosen_types, operation
from tuner.space.computation import Operation
from tuner.space.instance import nominal
from tuner.space.model import Space
from tuner.space.scope import Scope

NEGLIGIBLE = 0.05  # share of the bytes of all arrays
_HALVES, _SINGLES = {"float16", "bfloat16"}, {"float32", "complex64"}


@dataclass(frozen=True)
class Rates:
    """The rates of a run in GFLOP/s and GB/s; None if the operation declares no `flops` or `bytes`.

    `vs_peak` and `vs_memory` are shares of the ceilings named by `peak` and `memory`; None if no ceiling applies.
    """

    gflops: float | None
    peak: str | None
    vs_peak: float | None
    gbytes: float | None
    memory: str | None
    vs_memory: float | None


def of(space: Space, scope: Scope, time_ms: float, ceilings: Ceilings | None) -> Rates:
    """The rates of a run of `time_ms` ms on a device with these ceilings."""
    op, scope = space.operation, nominal(space, scope)
    gflops, gbytes = operation.gflops(op, scope, time_ms), operation.gbytes(op, scope, time_ms)
    peak, vs_peak = _share(gflops, ceilings, _peak(op, scope))
    memory, vs_memory = _share(gbytes, ceilings, _memory(op, scope, ceilings.cache) if ceilings else None)
    return Rates(gflops, peak, vs_peak, gbytes, memory, vs_memory)


def _share(rate: float | None, ceilings: Ceilings | None, name: str | None) -> tuple[str | None, float | None]:
    """The name of a ceiling, and `rate` as a share of it; None if either is unknown."""
    if rate is None or ceilings is None or name is None or name not in ceilings.rates:
        return None, None
    return name, rate / ceilings.rates[name].rate


def _peak(op: Operation, scope: Scope) -> str | None:
    """The arithmetic ceiling that applies to these types.

    Tensor cores if any array holds float16 or bfloat16; FMA if all real and complex arrays hold FP32; else None.
    """
    types = {chosen_types.dtype(argument, scope) for argument in op.arrays}
    names = {dtype.name for dtype in types if dtype.kind in ("real", "complex")}
    return TENSOR if names & _HALVES else FMA if names and names <= _SINGLES else None


def _memory(op: Operation, scope: Scope, cache: int | None) -> str | None:
    """The bandwidth ceiling that applies: reading if few bytes are written, writing if few are read, else copying.

    None if the arrays may fit in the caches.
    """
    nbytes = operation.array_bytes(op, scope)
    if cache is not None and nbytes <= CACHES * cache:
        return None
    written = sum(operation.nbytes(argument, scope) for argument in op.arrays if argument.role != "in")
    read = sum(operation.nbytes(argument, scope) for argument in op.arrays if argument.role != "out")
    return READ if written < NEGLIGIBLE * nbytes else WRITE if read < NEGLIGIBLE * nbytes else COPY
