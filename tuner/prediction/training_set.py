"""Choose the training data of a time model: which configurations and library algorithms, and which of their sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tuner.prediction.amounts import Array, Indices, Mask
from tuner.prediction.grids import Measured, Sizes
from tuner.prediction.library_tiles import LibraryRoutines

MOST_KERNEL_SIZES, NEAREST = 300, 200  # training sizes of a kernel, and how many of them are its most competitive ones
MOST_LIBRARY_SIZES = 1600  # training sizes of a library routine; the training time grows with the third power
# With more configurations than this, a minimal cover is modelled: each size has one within SERVES x of its best time.
MOST_CANDIDATES, SERVES = 48, 1.001
# An entry is dropped if it has at most RARE x the sizes of the most measured one, but not if it has more than ENOUGH.
# With 16 in place of 19, 38 in place of 10 of 1,800 random sizes of gemm16_nt got a choice that takes over 1.2 times as
# long as the best by regression trees, up to 1.8 times.
RARE, ENOUGH = 0.1, 19


def candidates(measured: Sequence[Measured], serves: float) -> list[int]:
    """Indices of the entries worth modelling.

    Drops rarely measured ones. Above MOST_CANDIDATES, keeps the library and a greedy minimal cover of the kernels, in
    which every size has one that takes at most `serves` times the best time there. All are kept if `serves` is
    infinite.
    """
    least = min(RARE * max((len(entry.times) for entry in measured), default=0), ENOUGH)
    enough = [number for number, entry in enumerate(measured) if len(entry.times) > least]
    if math.isinf(serves) or len(enough) <= MOST_CANDIDATES:
        return enough
    return [enough[number] for number in _cover([measured[number] for number in enough], serves)]


def by_routine(numbered: Iterable[tuple[int, Measured]], library: LibraryRoutines) -> list[tuple[int, Measured]]:
    """The kernels, then one entry for each routine of the library, which has the number of its library's entry."""
    numbered = [*numbered]
    entries = [(number, entry) for number, entry in numbered if entry.space is not None]
    for number, entry in numbered:
        if entry.space is not None:
            continue
        times: list[dict[Sizes, float]] = [{} for _ in range(library.count)]
        for sizes, time_ms in entry.times.items():
            times[library.routine(sizes)][sizes] = time_ms
        entries += [(number, replace(entry, times=each)) for each in times]
    return entries


def training_sizes(times: Array, estimated: Array) -> Mask:
    """Mark at most MOST_KERNEL_SIZES sizes of each entry, as [sizes, entries].

    `times` are the measured and `estimated` the estimated times in ms. NEAREST sizes are those at which the entry is,
    or is estimated to be, closest to the best time. The others are spread evenly over the slowdown, so that the model
    learns where the entry must not be chosen.
    """
    slowdowns = np.minimum(times, estimated) / np.nanmin(times, axis=1, keepdims=True)
    ranks = slowdowns.argsort(axis=0, kind="stable").argsort(axis=0) - NEAREST
    every = np.maximum(1.0, ((~np.isnan(times)).sum(axis=0) - NEAREST) / (MOST_KERNEL_SIZES - NEAREST))
    are_chosen: Mask = (ranks < 0) | (np.floor(ranks / every) > np.floor((ranks - 1) / every))
    return are_chosen


def spread(rows: Indices, most: int) -> Indices:
    """At most `most` of these rows, evenly spaced among them."""
    return rows[np.arange(most) * len(rows) // most] if len(rows) > most else rows


def _cover(measured: Sequence[Measured], within: float) -> list[int]:
    """Indices of the library and of a small set of kernels such that each size has one within `within` x of its best.

    The greedy algorithm finds the set (V. Chvatal, "A Greedy Heuristic for the Set-Covering Problem", 1979). Modelling
    fewer kernels also lowers the risk that one is chosen because its time was underestimated.
    """
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
