"""Launch overhead: the time of a kernel that does nothing, which differs among machines with the same device.

On some hosts a launch takes 1.7 us longer than on others with the same GPU, and so does a small kernel. Times from
several machines are therefore adjusted to one launch overhead before they are compared.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.prediction.grids import Sizes


def usual(counts: Mapping[float, int]) -> float | None:
    """The launch overhead, in ms, under which most times were measured: `counts` has the number of times by overhead.
    None where it is empty."""
    return min(counts, key=lambda launch_ms: (-counts[launch_ms], launch_ms), default=None)


def adjusted(time_ms: float, measured_ms: float | None, target_ms: float | None) -> float:
    """`time_ms`, measured under a launch overhead of `measured_ms`, as it would be under `target_ms`. It stays as it is
    where either is unknown, and never falls below half of what it was, whatever a file claims."""
    return max(time_ms - (measured_ms - target_ms), time_ms / 2) if measured_ms and target_ms else time_ms


def all_adjusted(
    times: Mapping[Sizes, float], measured_ms: float | None, target_ms: float | None
) -> dict[Sizes, float]:
    """Each of these times, adjusted."""
    if measured_ms == target_ms or not measured_ms or not target_ms:
        return dict(times)
    return {sizes: adjusted(time_ms, measured_ms, target_ms) for sizes, time_ms in times.items()}
