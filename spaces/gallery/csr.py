"""A sparse matrix in CSR form, and a vector to multiply it with."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def matrix(rng: np.random.Generator, rows: int, width: int, entries: int) -> dict[str, Array]:
    """A matrix of `rows` x `width` with `entries` entries, in rows of very different lengths.

    Half of the entries fall on the first eighth of the rows. Columns ascend within a row, where one may repeat. Values
    have random sign and magnitude 0.5 to 1.5.
    """
    dense = rng.binomial(entries, 0.5)
    row = np.concatenate([rng.integers(0, -(-rows // 8), dense), rng.integers(0, rows, entries - dense)])
    starts = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=rows))))
    columns = np.sort(row * width + rng.integers(0, width, entries)) % width
    values = 2 * rng.random(entries, np.float32) - 1
    values += np.copysign(np.float32(0.5), values)
    return {
        "starts": starts.astype(np.int32),
        "columns": columns.astype(np.int32),
        "values": values,
    }


def product(starts: Array, columns: Array, values: Array, x: Array) -> Array:
    """The product of the matrix and x, in float64."""
    products = values.astype(np.float64) * x.astype(np.float64)[columns]
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return np.bincount(row, weights=products, minlength=len(starts) - 1)
