"""What a model of times learns from: the entries that are needed, and of each the sizes that tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tuner.prediction.amounts import Array, Mask, Rows
from tuner.prediction.grids import Measured, Sizes
from tuner.prediction.library_tiles import ToldTiles

MOST_KNOWN, NEAREST = 400, 200  # sizes of a kernel's configuration, and of these such where it is nearest the best
MOST_OF_LIBRARY = 1600  # sizes of one of its routines: learning takes as long as their third power
# Of more configurations than this, the fewest are needed that serve all sizes: times the best there.
MOST_CANDIDATES, SERVES = 48, 1.001
# Of the sizes of what was measured most, and sizes: what was measured at fewer is known there alone.
RARE, ENOUGH = 0.1, 16


def candidates(measured: Sequence[Measured], serves: float) -> list[int]:
    """The numbers of those that were measured at enough sizes; where these are many, of the fewest with which each size
    has one that takes at most `serves` times the best there, and of the library."""
    least = min(RARE * max((len(entry.times) for entry in measured), default=0), ENOUGH)
    enough = [number for number, entry in enumerate(measured) if len(entry.times) > least]
    if math.isinf(serves) or len(enough) <= MOST_CANDIDATES:
        return enough
    return [enough[number] for number in _serving([measured[number] for number in enough], serves)]


def by_routine(numbered: Iterable[tuple[int, Measured]], told: ToldTiles) -> list[tuple[int, Measured]]:
    """The kernels, then an entry for each routine of the library."""
    numbered = [*numbered]
    found = [(number, entry) for number, entry in numbered if entry.space is not None]
    for number, entry in numbered:
        if entry.space is not None:
            continue
        parts: list[dict[Sizes, float]] = [{} for _ in range(told.routines)]
        for sizes, time_ms in entry.times.items():
            parts[told.routine(sizes)][sizes] = time_ms
        found += [(number, replace(entry, times=part)) for part in parts]
    return found


def training_sizes(times: Array, thought: Array) -> Mask:
    """Of each entry, at most MOST_KNOWN sizes, by size and entry: those where it is nearest the best, or is `thought`
    to be, in ms; and others spread evenly over how far it is, which tell where it must not be taken."""
    far = np.minimum(times, thought) / np.nanmin(times, axis=1, keepdims=True)
    ranks = far.argsort(axis=0, kind="stable").argsort(axis=0) - NEAREST
    every = np.maximum(1.0, ((~np.isnan(times)).sum(axis=0) - NEAREST) / (MOST_KNOWN - NEAREST))
    are_telling: Mask = (ranks < 0) | (np.floor(ranks / every) > np.floor((ranks - 1) / every))
    return are_telling


def spread(rows: Rows, most: int) -> Rows:
    """At most so many of these, evenly among them."""
    return rows[np.arange(most) * len(rows) // most] if len(rows) > most else rows


def _serving(measured: Sequence[Measured], within: float) -> list[int]:
    """The fewest kernels of which each size has one that is nearly the best there, as the greedy algorithm finds them
    (V. Chvatal, "A Greedy Heuristic for the Set-Covering Problem", 1979), and the library. Of more of them, one is more
    often thought to be faster than it is."""
    kernels = [number for number, entry in enumerate(measured) if entry.space is not None]
    sizes = {size: column for column, size in enumerate({size: 0 for n in kernels for size in measured[n].times})}
    times = np.full((len(kernels), len(sizes)), np.inf)
    for row, number in enumerate(kernels):
        for size, time_ms in measured[number].times.items():
            times[row, sizes[size]] = time_ms
    serves = times <= within * times.min(axis=0, initial=np.inf)
    chosen = [number for number, entry in enumerate(measured) if entry.space is None]
    while serves.any():
        best = int(np.argmax(serves.sum(axis=1)))
        chosen.append(kernels[best])
        serves[:, serves[best]] = False
    return sorted(chosen)
