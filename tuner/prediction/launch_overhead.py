"""Launch overhead: the time of a kernel that does nothing, which differs among machines with the same device.

On some hosts a launch takes 1.7 us longer than on others with the same GPU, and so does every small kernel. Times from
several machines are therefore adjusted to one launch overhead before they are compared.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tuner.prediction.amounts import Array
from tuner.prediction.grids import Sizes


def usual(counts: Mapping[float, int]) -> float | None:
    """The launch overhead, in ms, of the most times; None if `counts` is empty.

    `counts` maps a launch overhead in ms to the number of times measured with it.
    """
    return min(counts, key=lambda launch_ms: (-counts[launch_ms], launch_ms), default=None)


def adjusted(time_ms: float, measured_ms: float | None, target_ms: float | None) -> float:
    """Replace the launch overhead `measured_ms` in `time_ms` by `target_ms`; all are in ms.

    The time is unchanged if either is unknown. It is never less than half of `time_ms`, so that a wrong overhead in a
    file has a limited effect.
    """
    return max(time_ms - (measured_ms - target_ms), time_ms / 2) if measured_ms and target_ms else time_ms


def removed(times: Array | float, measured_ms: float | None) -> Array:
    """Times without their launch overhead `measured_ms`; unchanged if that is unknown, and never less than half."""
    without: Array = np.maximum(times - (measured_ms or 0.0), times / 2)
    return without


def all_adjusted(
    times: Mapping[Sizes, float], measured_ms: float | None, target_ms: float | None
) -> dict[Sizes, float]:
    """Apply `adjusted` to the time of each size."""
    if measured_ms == target_ms or not measured_ms or not target_ms:
        return dict(times)
    return {sizes: adjusted(time_ms, measured_ms, target_ms) for sizes, time_ms in times.items()}
