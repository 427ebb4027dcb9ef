"""The rates of a run: in GFLOP/s and GB/s, and as shares of what the device was measured to do at most."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.devices.ceilings import CACHES, COPY, FMA, READ, TENSOR, WRITE, Ceilings
from tuner.space import chosen_types, operation
from tuner.space.instance import nominal
from tuner.space.model import Operation, Space
from tuner.space.scope import Scope

LITTLE = 0.05  # of the bytes of all arrays
_HALVES, _SINGLES = {"float16", "bfloat16"}, {"float32", "complex64"}


@dataclass(frozen=True)
class Rates:
    """The rates of a run, None where they are not counted. `peak` and `memory` name the ceilings that `vs_peak` and
    `vs_memory` are the shares of; all None where no ceiling applies."""

    gflops: float | None
    peak: str | None
    vs_peak: float | None
    gbytes: float | None
    memory: str | None
    vs_memory: float | None


def of(space: Space, scope: Scope, time_ms: float, ceilings: Ceilings | None) -> Rates:
    """The rates of a run of `time_ms`, on a device of these ceilings."""
    op, scope = space.operation, nominal(space, scope)
    gflops, gbytes = operation.gflops(op, scope, time_ms), operation.gbytes(op, scope, time_ms)
    peak, vs_peak = _share(gflops, ceilings, _peak(op, scope))
    memory, vs_memory = _share(gbytes, ceilings, _memory(op, scope, ceilings.cache) if ceilings else None)
    return Rates(gflops, peak, vs_peak, gbytes, memory, vs_memory)


def _share(rate: float | None, ceilings: Ceilings | None, name: str | None) -> tuple[str | None, float | None]:
    """The name of a ceiling, and the share of it that `rate` is; None where either is unknown."""
    if rate is None or ceilings is None or name is None or name not in ceilings.rates:
        return None, None
    return name, rate / ceilings.rates[name].rate


def _peak(op: Operation, scope: Scope) -> str | None:
    """The ceiling of arithmetic: tensor cores where an array holds halves, multiply-adds where all real and complex
    ones hold FP32; None for any other type."""
    types = {chosen_types.dtype(argument, scope) for argument in op.arrays}
    names = {dtype.name for dtype in types if dtype.kind in ("real", "complex")}
    return TENSOR if names & _HALVES else FMA if names and names <= _SINGLES else None


def _memory(op: Operation, scope: Scope, cache: int | None) -> str | None:
    """The ceiling of memory, by what the arrays are for: reading where next to nothing is written, writing where next
    to nothing is read, else copying. None for arrays that the caches may hold."""
    nbytes = operation.array_bytes(op, scope)
    if cache is not None and nbytes <= CACHES * cache:
        return None
    written = sum(operation.nbytes(argument, scope) for argument in op.arrays if argument.role != "in")
    read = sum(operation.nbytes(argument, scope) for argument in op.arrays if argument.role != "out")
    return READ if written < LITTLE * nbytes else WRITE if read < LITTLE * nbytes else COPY
