"""A sparse matrix in CSR form, and a vector to multiply it with: in parts of rows, and in threads, which NumPy lets run
at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
# At most, of the rows. Threads wait for one another at each call of NumPy, and large temporary arrays leave the cache.
PARTS = 192


def matrix(rng: np.random.Generator, rows: int, width: int, entries: int) -> dict[str, Array]:
    """A matrix of `rows` x `width` with `entries` entries, in rows of very different lengths.

    Half of the entries fall on the first eighth of the rows. Columns are uniform and ascend within a row, where one may
    repeat: k of them divide the width as k + 1 exponential steps divide their sum. Values have random sign, magnitude
    0.5 to 1.5.
    """
    dense, first = rng.binomial(entries, 0.5), -(-rows // 8)
    lengths, columns, values = np.zeros(rows, np.int64), np.empty(entries, np.int32), np.empty(entries, np.float32)
    parts = _parts(rows)
    generators = dict(zip(parts, map(np.random.default_rng, rng.integers(1 << 63, size=len(parts))), strict=True))
    for count, last in ((entries - dense, rows), (dense, first)):
        shares = np.diff(np.minimum([0, *(end for _, end in parts)], last)) / last
        drawn = dict(zip(parts, rng.multinomial(count, shares), strict=True))

        def share(part: tuple[int, int], of: dict[tuple[int, int], int] = drawn, last: int = last) -> None:
            """Distribute the entries of a part among those of its rows that have any."""
            of_part = lengths[part[0] : min(part[1], last)]
            if len(of_part):
                of_part += generators[part].multinomial(of[part], np.full(len(of_part), 1 / len(of_part)))

        _in_threads(share, parts)
    starts = np.concatenate(([0], np.cumsum(lengths)))

    def fill(part: tuple[int, int]) -> None:
        of_part = slice(starts[part[0]], starts[part[1]])
        _fill(generators[part], lengths[slice(*part)], width, columns[of_part], values[of_part])

    _in_threads(fill, parts)
    return {"starts": starts.astype(np.int32), "columns": columns, "values": values}


def _fill(rng: np.random.Generator, lengths: Array, width: int, columns: Array, values: Array) -> None:
    """Draw the columns and values of rows of these lengths."""
    ends = np.cumsum(lengths + 1)  # of the steps of each row, one more than it has entries
    reached, is_end = np.zeros(ends[-1] + 1), np.zeros(ends[-1] + 1, bool)
    rng.standard_exponential(out=reached[1:])
    np.cumsum(reached, out=reached)
    begin = reached[np.concatenate(([0], ends[:-1]))]
    scale = width / (reached[ends] - begin)
    is_end[ends] = True  # the last step of a row leads to its end
    is_entry = ~is_end[1:]
    # The row of each entry: by sums and look-ups, because threads wait for one another while NumPy repeats elements.
    row = np.cumsum(is_end[:-1], dtype=np.int32)[is_entry]
    places = reached[1:][is_entry]
    places -= begin.take(row)
    places *= scale.take(row)
    np.minimum(places, width - 1, out=places)
    columns[:] = places
    rng.random(dtype=np.float32, out=values)
    values *= 2
    values -= 1
    values += np.copysign(np.float32(0.5), values)


def product(starts: Array, columns: Array, values: Array, x: Array) -> Array:
    """The product of the matrix and x, in float64."""
    x, result = x.astype(np.float64), np.zeros(len(starts) - 1)

    def multiply(part: tuple[int, int]) -> None:
        begin, end = starts[part[0]], starts[part[1]]
        of_rows = starts[slice(*part)] - begin
        is_empty = np.diff(starts[part[0] : part[1] + 1]) == 0
        sums = result[slice(*part)]
        products = values[begin:end] * x.take(columns[begin:end])
        sums[~is_empty] = np.add.reduceat(products, of_rows[~is_empty]) if end > begin else 0.0

    _in_threads(multiply, _parts(len(starts) - 1))
    return result


def _parts(rows: int) -> list[tuple[int, int]]:
    """The first row of each part, and the first one after it."""
    step = -(-rows // PARTS)
    return [(first, min(first + step, rows)) for first in range(0, rows, step)]


def _in_threads(of: Callable[[tuple[int, int]], None], parts: list[tuple[int, int]]) -> None:
    with ThreadPoolExecutor() as threads:
        for _ in threads.map(of, parts):
            pass
