"""References for kernels that meet every one with every other: in parts, because not all pairs fit into memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
PAIRS = 1 << 17  # at a time, so that what is computed of them stays in a processor's cache


def accelerations(body: Array, softening: float) -> Array:
    """The acceleration of each body by all, n x 3. A body is its place and its mass."""
    place, mass = body[:, :3].astype(np.float64), body[:, 3].astype(np.float64)
    result = np.empty(place.shape)
    for part in _parts(len(body), len(body)):
        x, y, z = (place[:, axis] - place[part, axis, np.newaxis] for axis in range(3))
        squared = x * x + y * y + z * z + softening * softening
        factor = mass / (squared * np.sqrt(squared))
        result[part] = np.stack([np.einsum("ij,ij->i", factor, distance) for distance in (x, y, z)], axis=1)
    return result


def closeness(first: Array, second: Array) -> Array:
    """The sum over all pairs of exp(-distance^2 / the sum of both squared uncertainties). A point is its place and its
    uncertainty."""
    first, second, result = first.astype(np.float64), second.astype(np.float64), np.zeros(())
    for part in _parts(len(first), len(second)):
        x, y, z = (first[part, axis, np.newaxis] - second[:, axis] for axis in range(3))
        uncertain = first[part, 3, np.newaxis] ** 2 + second[:, 3] ** 2
        result += np.exp(-(x * x + y * y + z * z) / uncertain).sum()
    return result


def inside(point: Array, corner: Array) -> Array:
    """1 for each point inside the polygon, else 0. Places are whole numbers, so that all products are exact."""
    (ax, ay), (bx, by) = corner.astype(np.int64).T, np.roll(corner, -1, axis=0).astype(np.int64).T
    result = np.empty(len(point), dtype=np.int64)
    for part in _parts(len(point), len(corner)):
        px, py = np.hsplit(point[part].astype(np.int64), 2)
        side = (bx - ax) * (py - ay) - (px - ax) * (by - ay)
        crossed = ((ay > py) != (by > py)) & ((side > 0) == (by > ay))
        result[part] = np.count_nonzero(crossed, axis=1) % 2
    return result


def _parts(count: int, others: int) -> Iterator[slice]:
    """All of `count`, in parts that have at most PAIRS pairs with `others`."""
    step = max(1, PAIRS // others)
    return (slice(first, first + step) for first in range(0, count, step))
