"""References for kernels that meet every one with every other: in parts, because not all pairs fit into memory, and
in threads, which NumPy lets run at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
PAIRS = 1 << 17  # at a time, so that what is computed of them stays in a processor's cache


def accelerations(body: Array, softening: float) -> Array:
    """The acceleration of each body by all, n x 3. A body is its place and its mass."""
    place, mass = body[:, :3].astype(np.float64), body[:, 3].astype(np.float64)

    def of(part: slice) -> Array:
        x, y, z = (place[:, axis] - place[part, axis, np.newaxis] for axis in range(3))
        squared = x * x + y * y + z * z + softening * softening
        factor = mass / (squared * np.sqrt(squared))
        return np.stack([np.einsum("ij,ij->i", factor, distance) for distance in (x, y, z)], axis=1)

    return np.concatenate(_by_parts(of, len(body), len(body)))


def closeness(first: Array, second: Array) -> Array:
    """The sum over all pairs of exp(-distance^2 / the sum of both squared uncertainties). A point is its place and its
    uncertainty."""
    first, second = first.astype(np.float64), second.astype(np.float64)

    def of(part: slice) -> Array:
        x, y, z = (first[part, axis, np.newaxis] - second[:, axis] for axis in range(3))
        uncertain = first[part, 3, np.newaxis] ** 2 + second[:, 3] ** 2
        return np.exp(-(x * x + y * y + z * z) / uncertain).sum()

    return np.sum(_by_parts(of, len(first), len(second)))


def inside(point: Array, corner: Array) -> Array:
    """1 for each point inside the polygon, else 0. Places are whole numbers, so that all products are exact."""
    (ax, ay), (bx, by) = corner.astype(np.int64).T, np.roll(corner, -1, axis=0).astype(np.int64).T

    def of(part: slice) -> Array:
        px, py = np.hsplit(point[part].astype(np.int64), 2)
        side = (bx - ax) * (py - ay) - (px - ax) * (by - ay)
        crossed = ((ay > py) != (by > py)) & ((side > 0) == (by > ay))
        return np.count_nonzero(crossed, axis=1) % 2

    return np.concatenate(_by_parts(of, len(point), len(corner)))


def _by_parts(of: Callable[[slice], Array], count: int, others: int) -> list[Array]:
    """What `of` returns for each part of `count`; the parts have at most PAIRS pairs with `others`."""
    step = max(1, PAIRS // others)
    with ThreadPoolExecutor() as threads:
        return [*threads.map(of, (slice(first, first + step) for first in range(0, count, step)))]
