"""References for kernels on images: in parts of few lines, in memory that a thread uses again, and in threads, which
NumPy lets run at once. Threads wait for one another at each call of NumPy, so that a part has more than one line."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
RUNS = 64  # at most, of parts that one thread computes
LINES = 16  # of the result in a part


def resampled(image: Array, oh: int, ow: int) -> Array:
    """The image at oh x ow, in float64: between the four pixels around a place, each counts by how near it is."""
    above, below, down = _between(oh, image.shape[0])
    left, right, across = _between(ow, image.shape[1])
    result, of_left, of_right = np.empty((oh, ow)), 1 - across, across
    most = 2 + max(int(below[min(oh, y + LINES) - 1] - above[y]) for y in range(0, oh, LINES))  # lines for a part

    def run(number: int) -> None:
        pixels, at_width = np.empty((most, ow), image.dtype), np.empty((2, most, ow))
        both = np.empty((2, LINES, ow))
        for y in range(number * parts // runs * LINES, min(oh, (number + 1) * parts // runs * LINES), LINES):
            part = slice(y, min(oh, y + LINES))
            first, last = above[part][0], below[part][-1] + 1
            needed = last - first
            for places, weight, target in ((left, of_left, at_width[0]), (right, of_right, at_width[1])):
                np.take(image[first:last], places, axis=1, out=pixels[:needed], mode="clip")
                np.multiply(pixels[:needed], weight, out=target[:needed])
            lines = np.add(at_width[0, :needed], at_width[1, :needed], out=at_width[0, :needed])
            around = both[:, : part.stop - y]
            for places, weight, target in ((above, 1 - down, around[0]), (below, down, around[1])):
                np.take(lines, places[part] - first, axis=0, out=target, mode="clip")
                target *= weight[part, np.newaxis]
            np.add(*around, out=result[part])

    parts = -(-oh // LINES)
    runs = min(RUNS, parts)
    with ThreadPoolExecutor() as threads:
        for _ in threads.map(run, range(runs)):
            pass
    return result


def _between(outputs: int, pixels: int) -> tuple[Array, Array, Array]:
    """For each output, the pixel before its place, the one behind it, and its distance from the first."""
    place = np.clip((np.arange(outputs) + 0.5) * pixels / outputs - 0.5, 0, pixels - 1)
    before = place.astype(np.int64)
    return before, np.minimum(before + 1, pixels - 1), place - before
