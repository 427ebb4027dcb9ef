"""Choose the fewest builds that cover all sizes, and the most representative sizes.

Choosing builds is the set cover problem: a build covers the sizes at which it is within the limit. The greedy heuristic
takes the build that covers the most of the remaining weight, again and again. It needs at most H(n) times the fewest
builds (V. Chvatal, A Greedy Heuristic for the Set-Covering Problem, Mathematics of Operations Research 4, 1979).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tuner.classes import dataclass
from tuner.space.config import Config, ConfigKey
from tuner.space.size_lists import WeightedSize

MOST_CENTRAL = 16  # sizes chosen by Kuehn and Hamburger's heuristic, which is slow for more
ALIGNED, APART = 8, 3.0  # divisor of an aligned size; distance between an aligned and an unaligned size
Pair = tuple[str, ConfigKey]  # a kernel by name, and a configuration
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class SizedBuild:
    """A configuration of a kernel as compiled for a size. `code` is equal at two sizes if one build serves both."""

    pair: Pair
    code: tuple[str, ...] = ()

    @property
    def config(self) -> Config:
        """The configuration."""
        return {name: value for name, _, value in self.pair[1]}


def choose(times: Sequence[Mapping[SizedBuild, float]], weights: Sequence[float], within: float) -> list[SizedBuild]:
    """Choose few builds, so that each size has one that takes at most `within` times its best.

    `times` has, for each size, the times of the builds that were measured there, `weights` the weight of the size.
    """
    limits = [within * min(row.values()) for row in times]
    reach: dict[SizedBuild, set[int]] = {}
    for size, row in enumerate(times):
        for build, value in row.items():
            if value <= limits[size]:
                reach.setdefault(build, set()).add(size)

    def gain(build: SizedBuild) -> tuple[float, float]:
        new = reach[build] & left
        return sum(weights[size] for size in new), -sum(times[size][build] / limits[size] for size in new)

    chosen: list[SizedBuild] = []
    left = {*range(len(times))}
    while left:
        chosen.append(max(reach, key=gain))
        left -= reach[chosen[-1]]
    for build in reversed(list(chosen)):  # later builds may have made an earlier one redundant
        others = set().union(*(reach[other] for other in chosen if other is not build))
        if reach[build] <= others:
            chosen.remove(build)
    return chosen


def spread_out(sizes: Sequence[WeightedSize]) -> list[WeightedSize]:
    """Order the sizes so that the first ones represent all.

    The next size is the one that most reduces the weighted distance of all sizes to the nearest one before, in
    magnitude and alignment (A. A. Kuehn and M. J. Hamburger, A Heuristic Program for Locating Warehouses, Management
    Science 9, 1963). After MOST_CENTRAL sizes, it is the farthest one.
    """
    numbers = np.array([[*size.sizes.values()] for size in sizes])
    points = np.hstack([np.log(numbers), APART * (numbers % ALIGNED == 0)])
    weights = np.array([size.weight for size in sizes])
    order: list[int] = []
    near, rest = np.full(len(sizes), np.inf), np.ones(len(sizes), bool)
    for count in range(len(sizes)):
        if count < MOST_CENTRAL:
            totals = [_distances(points, i) for i in map(int, np.flatnonzero(rest))]
            sums = [float((weights * np.minimum(near, apart)).sum()) for apart in totals]
            chosen = int(np.flatnonzero(rest)[int(np.argmin(sums))])
        else:
            chosen = int(np.argmax(np.where(rest, near, -1.0)))
        order.append(chosen)
        rest[chosen] = False
        near = np.minimum(near, _distances(points, chosen))
    return [sizes[position] for position in order]


def _distances(points: Array, position: int) -> Array:
    distances: Array = np.sqrt(((points - points[position]) ** 2).sum(axis=1))
    return distances


def are_alike(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether the same sizes are multiples of 8 in both, because kernels read aligned rows in another way."""
    return all((one[name] % ALIGNED == 0) == (other[name] % ALIGNED == 0) for name in one)
