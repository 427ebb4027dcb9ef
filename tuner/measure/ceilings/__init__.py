"""Measurement of a device's ceilings: its peak rates in practice.

All variants of a kernel are timed, and the fastest correct one gives the ceiling.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable
from statistics import median

from tuner.classes import dataclass
from tuner.devices.base import Device
from tuner.devices.ceilings import CACHES, FMA, MEMORY, TENSOR, Ceiling, Ceilings
from tuner.errors import DeviceError, TrialError
from tuner.measure.ceilings import ceiling_kernels
from tuner.measure.ceilings.ceiling_kernels import WORD, WORDS, Call, FmaKernel, MemoryKernels, TensorKernel, Variant
from tuner.measure.timing.clock import RunConditions, Stopwatch, interleave, spread
from tuner.version import VERSION

GPU_BYTES = 4 << 30  # of an array: at most about 1 % of it can stay in the last-level cache between runs
PROCESSOR_BYTES = 64 << 20
MEMORY_SHARE = 8  # an array takes at most 1 / MEMORY_SHARE of the memory
FINALISTS = 3
SCREEN_SECONDS, FINAL_SECONDS = 1.0, 2.0
LEAST_MS = 5.0  # least time of a compute run, so that the launch overhead is about 0.1 % of it


@dataclass(frozen=True)
class _Candidate:
    """A correct kernel call.

    `amount` is the bytes that it moves or the operations that it computes; `words` describes its variant.
    """

    call: Call
    amount: float
    words: str


def measure(device: Device, begun: Callable[[str], None], noted: Callable[[str], None]) -> Ceilings:
    """Measure all ceilings of a device, which must be idle.

    `begun` is called with the name of each ceiling, `noted` with a message for each variant that is wrong. A ceiling
    that no variant can measure is left out. Raises DeviceError if memory bandwidth cannot be measured.
    """
    rates = _memory(device, begun, noted)
    stopwatch = Stopwatch(device, RunConditions())

    def computing(kernel: FmaKernel | TensorKernel, words: str) -> _Candidate:
        kernel.check()
        steps = 16
        while (time_ms := stopwatch.time(kernel.call(steps))) < LEAST_MS:
            steps *= min(16, max(2, math.ceil(LEAST_MS / max(time_ms, 1e-6))))
        return _Candidate(kernel.call(steps), kernel.flops(steps), words)

    begun(FMA)
    fma = ceiling_kernels.fma_variants(device)
    rates |= _ceiling(device, FMA, fma, lambda v: computing(FmaKernel(device, v), v.words), noted)
    begun(TENSOR)
    tensor = ceiling_kernels.tensor_variants(device)
    rates |= _ceiling(device, TENSOR, tensor, lambda v: computing(TensorKernel(device, v), v.words), noted)
    return Ceilings(
        device=device.name,
        kind=device.kind,
        architecture=device.architecture,
        toolchain=device.toolchain,
        conditions=device.conditions,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
        cache=device.last_cache,
        rates=rates,
    )


def _memory(device: Device, begun: Callable[[str], None], noted: Callable[[str], None]) -> dict[str, Ceiling]:
    """The memory bandwidths. Frees their arrays afterwards."""
    begun("filling memory")
    try:
        kernels = MemoryKernels(device, _words(device))
    except TrialError as error:
        raise DeviceError(f"{device.id}: its memory cannot be measured: {error.reason}: {error}") from None
    rates: dict[str, Ceiling] = {}
    for name in MEMORY:
        begun(name)

        def candidate(variant: Variant, name: str = name) -> _Candidate:
            return _Candidate(kernels.checked(name, variant), kernels.bytes_of(name), variant.words)

        rates |= _ceiling(device, name, ceiling_kernels.memory_variants(device), candidate, noted)
    return rates


def _words(device: Device) -> int:
    """The size in words of an array that is much larger than the last-level cache, if memory permits."""
    least = PROCESSOR_BYTES if device.on_processor else GPU_BYTES
    wanted = max(least, CACHES * (device.last_cache or 0))
    nbytes = min(wanted, (device.free_memory() or device.memory) // MEMORY_SHARE)
    return max(WORDS, nbytes // WORD // WORDS * WORDS)


def _ceiling(
    device: Device,
    name: str,
    variants: Iterable[Variant],
    candidate: Callable[[Variant], _Candidate],
    noted: Callable[[str], None],
) -> dict[str, Ceiling]:
    """The ceiling under its name; empty if no variant can run."""
    candidates = []
    try:
        for variant in variants:
            try:
                candidates.append(candidate(variant))
            except TrialError as error:
                if error.reason not in ("compile", "too many resources"):  # otherwise the device lacks the instructions
                    noted(f"{device.id}: {name}: {variant.words}: {error.reason}: {error}; it is left out")
        candidates = [finalist for finalist, _ in _rated(device, candidates, SCREEN_SECONDS)[:FINALISTS]]
        finals = _rated(device, candidates, FINAL_SECONDS)
    except TrialError as error:
        noted(f"{device.id}: {name}: {error}; not measured")
        return {}
    return {name: finals[0][1]} if finals else {}


def _rated(device: Device, candidates: list[_Candidate], seconds: float) -> list[tuple[_Candidate, Ceiling]]:
    """The candidates and their rates, measured in interleaved rounds; the fastest first."""
    rounds = interleave(device, Stopwatch(device, RunConditions()), [c.call for c in candidates], seconds)
    rated = [
        (c, Ceiling(c.amount / median(times) / 1e6, spread(times), len(times), c.words))
        for c, times in zip(candidates, rounds.times, strict=True)
    ]
    return sorted(rated, key=lambda pair: -pair[1].rate)
