"""References for kernels on images: in parts, which fit into a processor's cache, and in threads, which NumPy lets run
at once."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
PIXELS = 1 << 18  # of the result, at a time


def resampled(image: Array, oh: int, ow: int) -> Array:
    """The image at oh x ow, in float64: between the four pixels around a place, each counts by how near it is."""
    above, below, down = _between(oh, image.shape[0])
    left, right, across = _between(ow, image.shape[1])
    result = np.empty((oh, ow))

    def fill(first: int) -> None:
        part = slice(first, first + step)
        lines, places = np.unique(np.concatenate([above[part], below[part]]), return_inverse=True)
        pixels = image[lines].astype(np.float64)
        columns = pixels.take(left, axis=1) * (1 - across) + pixels.take(right, axis=1) * across
        upper, lower = columns.take(np.split(places.reshape(-1), 2), axis=0)
        share = down[part, np.newaxis]
        np.add(upper * (1 - share), lower * share, out=result[part])

    step = max(1, PIXELS // ow)
    with ThreadPoolExecutor() as threads:
        for _ in threads.map(fill, range(0, oh, step)):
            pass
    return result


def _between(outputs: int, pixels: int) -> tuple[Array, Array, Array]:
    """For each output, the pixel before its place, the one behind it, and its distance from the first."""
    place = np.clip((np.arange(outputs) + 0.5) * pixels / outputs - 0.5, 0, pixels - 1)
    before = place.astype(np.int64)
    return before, np.minimum(before + 1, pixels - 1), place - before
