"""What a launch takes, which differs among machines with the same device.

A kernel that does nothing takes 2 us longer on one H100 than on another, and so does a small kernel. Times that several
machines have measured are therefore compared as if one of them had measured all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Key = TypeVar("Key")


def least(launches: Iterable[float | None]) -> float | None:
    """The least of these times of a launch, in ms; None where none is told."""
    return min((launch_ms for launch_ms in launches if launch_ms), default=None)


def moved(time_ms: float, there: float | None, here: float | None) -> float:
    """A time in ms that was measured where a launch took `there`, as it would be where one takes `here`, and no less
    than that. Where either is not told, it stays as it is."""
    return max(time_ms - (there - here), here) if there and here else time_ms


def all_moved(times: Mapping[Key, float], there: float | None, here: float | None) -> dict[Key, float]:
    """Each of these times, moved."""
    if there == here or not there or not here:
        return dict(times)
    return {key: moved(time_ms, there, here) for key, time_ms in times.items()}
