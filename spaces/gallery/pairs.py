"""References for kernels that meet every one with every other: in parts, because not all pairs fit into memory, and in
threads, which NumPy lets run at once. A thread writes into the same memory again and again: to ask the system for more
takes as long as to compute, and threads wait for one another there. They wait at each call of NumPy, too, on a virtual
machine of 16 cores some 50 us: so there are few calls, of large parts."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
PAIRS = 1 << 18  # at a time
RUNS = 64  # at most, of parts that one thread computes
Of = Callable[[slice, Array], Array]  # the results of some, given memory for five numbers of each pair


def closeness(first: Array, second: Array) -> Array:
    """The sum over all pairs of exp(-distance^2 / the sum of both squared uncertainties). A point is its place and its
    uncertainty."""
    (*place, uncertain), (*other, unsure) = (points.astype(np.float64).T.copy() for points in (first, second))
    places, others = np.array(place), np.array(other)

    def of(part: slice, room: Array) -> Array:
        apart, (squared, both) = room[:3], room[3:]
        _subtract(others, places[:, part], apart, squared)
        np.add(uncertain[part, np.newaxis] ** 2, unsure**2, out=both)
        np.negative(both, out=both)
        squared /= both
        return np.exp(squared, out=squared).sum()

    return np.sum(_by_parts(of, len(first), len(second)))


def _subtract(to: Array, of: Array, apart: Array, squared: Array) -> None:
    """Set `apart` to the distances along each axis, [axis, of, to], and `squared` to the sum of their squares."""
    np.subtract(to[:, np.newaxis], of[:, :, np.newaxis], out=apart)
    np.einsum("aij,aij->ij", apart, apart, out=squared)


def _by_parts(of: Of, count: int, others: int) -> list[Array]:
    """What `of` returns for each part of `count`; the parts have at most PAIRS pairs with `others`."""
    step = max(1, PAIRS // others)
    starts = range(0, count, step)

    def run(number: int) -> list[Array]:
        room = np.empty((5, step, others))
        mine = starts[number * len(starts) // runs : (number + 1) * len(starts) // runs]
        return [of(slice(start, start + step), room[:, : min(step, count - start)]) for start in mine]

    runs = min(RUNS, len(starts))
    with ThreadPoolExecutor() as threads:
        return [result for results in threads.map(run, range(runs)) for result in results]
