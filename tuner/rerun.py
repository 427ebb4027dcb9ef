"""`tune run`: launch what the look-up gives on random data, verify it, time it beside the vendor's library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner import catalog, devices, launcher, operation
from tuner.errors import TrialError
from tuner.finals import Final, interleave
from tuner.launcher import Kernel
from tuner.space import Scope
from tuner.store import Found
from tuner.verify import Workbench


@dataclass(frozen=True)
class Rerun:
    """What came of a run. `error` is the largest error; `reason` says why it is not `verified`, with no times then."""

    kernel: str
    device: str
    found: Found
    verified: bool
    error: float | None = None
    reason: str | None = None
    time_ms: float | None = None
    spread: float | None = None
    gflops: float | None = None
    library: str | None = None
    vs_library: float | None = None


def run(kernel: str, size: str, device: str | None, options: Mapping[str, float], results: Path | None) -> Rerun:
    """Raises RequestError where the request is wrong; a kernel that fails or computes something else is a Rerun."""
    space = catalog.load(kernel)
    sizes = operation.parse_size(size, space.operation)
    settings = operation.parse_options(options, space.operation)
    opened = devices.open(devices.for_space(space, device))
    scope = Scope(sizes, settings, opened.language, opened.limits)
    found = launcher.find(space, scope, opened, results)
    bench = Workbench(opened, space.operation, scope)
    try:
        call = bench.bind(Kernel(space, scope, opened, found).function)
        verdict = bench.verify(call)
    except TrialError as error:
        return Rerun(space.name, opened.name, found, verified=False, reason=f"{error.reason}: {error}")
    library = opened.library(space.operation.library, bench.named) if space.operation.library else None
    own, *peer = (Final(times) for times in interleave(opened, [call, *([library] if library else [])]))
    return Rerun(
        kernel=space.name,
        device=opened.name,
        found=found,
        verified=True,
        error=verdict.error,
        time_ms=own.time_ms,
        spread=own.spread,
        gflops=operation.gflops(space.operation, scope, own.time_ms),
        library=library.name if library else None,
        vs_library=peer[0].time_ms / own.time_ms if peer else None,
    )
