"""Rows of a mixture of experts: how many each expert has, and what it makes of them."""

from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def starts(rng: np.random.Generator, rows: int, EXPERTS: int) -> dict[str, Array]:
    """Where the rows of each expert begin, in random numbers of rows; one expert of eight has none."""
    shares = rng.exponential(size=EXPERTS) * (np.arange(EXPERTS) % 8 != 5)
    counts = rng.multinomial(rows, shares / shares.sum())
    return {"starts": np.concatenate(([0], np.cumsum(counts))).astype(np.int32)}


def products(x: Array, w: Array, starts: Array) -> dict[str, Array]:
    """The output y."""
    spans = zip(w, pairwise(starts), strict=True)
    parts = [x[begin:end].astype(np.float64) @ own.astype(np.float64) for own, (begin, end) in spans]
    return {"y": np.concatenate(parts)}
