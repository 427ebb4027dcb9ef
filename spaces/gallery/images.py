"""References for kernels on images."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def resampled(image: Array, oh: int, ow: int) -> Array:
    """The image at oh x ow, in float64: between the four pixels around a place, each counts by how near it is."""
    above, below, down = _between(oh, image.shape[0])
    left, right, across = _between(ow, image.shape[1])
    pixels, down = image.astype(np.float64), down[:, np.newaxis]
    columns = pixels[:, left] * (1 - across) + pixels[:, right] * across
    resampled: Array = columns[above] * (1 - down) + columns[below] * down
    return resampled


def _between(outputs: int, pixels: int) -> tuple[Array, Array, Array]:
    """For each output, the pixel before its place, the one behind it, and its distance from the first."""
    place = np.clip((np.arange(outputs) + 0.5) * pixels / outputs - 0.5, 0, pixels - 1)
    before = place.astype(np.int64)
    return before, np.minimum(before + 1, pixels - 1), place - before
