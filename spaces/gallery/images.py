"""References for kernels on images: line by line, so that what is computed fits into a processor's cache, and in
threads, which NumPy lets run at once."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
RUNS = 64  # at most, of lines that one thread computes


def resampled(image: Array, oh: int, ow: int) -> Array:
    """The image at oh x ow, in float64: between the four pixels around a place, each counts by how near it is."""
    above, below, down = _between(oh, image.shape[0])
    left, right, across = _between(ow, image.shape[1])
    result = np.empty((oh, ow))

    def line(number: int) -> Array:
        """A line of the image at the width of the result."""
        return image[number, left] * (1 - across) + image[number, right] * across

    def run(number: int) -> None:
        lines: dict[int, Array] = {}
        for y in range(number * oh // runs, (number + 1) * oh // runs):
            around = int(above[y]), int(below[y])
            lines = {each: lines[each] if each in lines else line(each) for each in around}
            upper, lower = (lines[each] for each in around)
            np.add(upper * (1 - down[y]), lower * down[y], out=result[y])

    runs = min(RUNS, oh)
    with ThreadPoolExecutor() as threads:
        for _ in threads.map(run, range(runs)):
            pass
    return result


def _between(outputs: int, pixels: int) -> tuple[Array, Array, Array]:
    """For each output, the pixel before its place, the one behind it, and its distance from the first."""
    place = np.clip((np.arange(outputs) + 0.5) * pixels / outputs - 0.5, 0, pixels - 1)
    before = place.astype(np.int64)
    return before, np.minimum(before + 1, pixels - 1), place - before
