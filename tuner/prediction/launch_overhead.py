"""What a launch takes, which differs among machines with the same device.

On some hosts each launch takes 1.7 us more than on others with the same GPU, and so does a small kernel. Times that
several machines have measured are therefore compared as if one of them had measured all.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.prediction.grids import Sizes


def usual(counts: Mapping[float, int]) -> float | None:
    """Of times of a launch, in ms, that with which most was measured, by these counts; None where there is none."""
    return min(counts, key=lambda launch_ms: (-counts[launch_ms], launch_ms), default=None)


def moved(time_ms: float, there: float | None, here: float | None) -> float:
    """A time in ms that was measured where a launch took `there`, as it would be where one takes `here`. Where either
    is not told, it stays as it is. None becomes less than half of what it was, whatever a file says of launches."""
    return max(time_ms - (there - here), time_ms / 2) if there and here else time_ms


def all_moved(times: Mapping[Sizes, float], there: float | None, here: float | None) -> dict[Sizes, float]:
    """Each of these times, moved."""
    if there == here or not there or not here:
        return dict(times)
    return {sizes: moved(time_ms, there, here) for sizes, time_ms in times.items()}
