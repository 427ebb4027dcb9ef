"""A sparse matrix in CSR form, and a vector to multiply it with."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def matrix(rng: np.random.Generator, rows: int, width: int, entries: int) -> dict[str, Array]:
    """A matrix of `rows` x `width` with `entries` entries, in rows of very different lengths.

    Half of the entries fall on the first eighth of the rows. Columns are uniform and ascend within a row, where one may
    repeat: k of them divide the width as k + 1 exponential steps divide their sum. Values have random sign, magnitude
    0.5 to 1.5.
    """
    dense, first = rng.binomial(entries, 0.5), -(-rows // 8)
    lengths = rng.multinomial(entries - dense, np.full(rows, 1 / rows))
    lengths[:first] += rng.multinomial(dense, np.full(first, 1 / first))
    starts = np.concatenate(([0], np.cumsum(lengths)))
    ends = np.cumsum(lengths + 1)  # of the steps of each row, one more than it has entries
    reached = np.zeros(ends[-1] + 1)
    rng.standard_exponential(out=reached[1:])
    np.cumsum(reached, out=reached)
    begin = reached[np.concatenate(([0], ends[:-1]))]
    scale = width / (reached[ends] - begin)
    places = np.delete(reached[1:], ends - 1)  # the last step of a row leads to its end
    places -= np.repeat(begin, lengths)
    places *= np.repeat(scale, lengths)
    values = 2 * rng.random(entries, np.float32) - 1
    values += np.copysign(np.float32(0.5), values)
    return {
        "starts": starts.astype(np.int32),
        "columns": np.minimum(places.astype(np.int32), width - 1),
        "values": values,
    }


def product(starts: Array, columns: Array, values: Array, x: Array) -> Array:
    """The product of the matrix and x, in float64."""
    products = values.astype(np.float64) * x.astype(np.float64)[columns]
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return np.bincount(row, weights=products, minlength=len(starts) - 1)
