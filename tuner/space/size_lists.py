"""Lists of sizes: parsed from the command line, from files, and from grids."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.paths import read_text
from tuner.quoting import quoted, shown
from tuner.space import parsing
from tuner.space.chosen_types import Types
from tuner.space.computation import Operation
from tuner.space.texts import size_text

MOST_SIZES = 4096
MOST_CHARACTERS = 1 << 20  # of a file
EXAMPLE = "256:8192*2 or M=1:128*2,N=4096,K=1024:4096+512"
_RANGE = re.compile(r"(\d{1,19}):(\d{1,19})([*+])(\d{1,19})")


@dataclass(frozen=True)
class WeightedSize:
    """Sizes by name, with their weight relative to other sizes."""

    sizes: dict[str, int]
    weight: float = 1.0


def parse(texts: Iterable[str], operation: Operation, types: Types | None = None) -> list[WeightedSize]:
    """The distinct sizes in `texts`, each a size or a grid. A weight is the number of mentions. Raises RequestError."""
    return distinct(WeightedSize(sizes, 1.0) for text in texts for sizes in _grid(text, operation, types))


def read(source: str, operation: Operation, types: Types | None = None) -> list[WeightedSize]:
    """The sizes in the file `source`, or of `source` itself, if it is a grid.

    A line of the file has a size or a grid, optionally followed by a weight. The weights of a repeated size are added.
    Raises RequestError, which names the line.
    """
    if not os.path.isfile(source):
        if "/" in source or source.endswith((".txt", ".csv")):
            raise RequestError(f"--sizes {quoted(source)}: there is no such file; name one, or write {EXAMPLE}")
        return parse([source], operation, types)
    try:
        lines = read_text(Path(source), MOST_CHARACTERS).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise RequestError(f"--sizes {quoted(source)}: cannot be read: {reason}") from None
    sizes_read: list[WeightedSize] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if words:
            try:
                weight = _weight(words[1:])
                sizes_read += (WeightedSize(sizes, weight) for sizes in _grid(words[0], operation, types))
            except RequestError as error:
                raise RequestError(f"{shown(source)}:{number}: {error}") from None
    if not sizes_read:
        raise RequestError(f"{shown(source)}: no size in it; write a size per line, optionally with a weight: 4096 2.5")
    return distinct(sizes_read)


def _weight(words: list[str]) -> float:
    if not words:
        return 1.0
    try:
        weight = float(words[0])
    except ValueError:
        weight = math.nan
    if len(words) > 1 or not 0 < weight < math.inf:
        raise RequestError(f"{quoted(' '.join(words))}: after a size, write nothing but its weight, a number above 0")
    return weight


def _grid(text: str, operation: Operation, types: Types | None) -> Iterator[dict[str, int]]:
    """The sizes of a grid: every combination of the values of its ranges. A text without a range is one size."""
    pieces = _RANGE.split(text)
    ranges = [_values(text, *pieces[i : i + 4]) for i in range(1, len(pieces), 5)]
    if math.prod(map(len, ranges)) > MOST_SIZES:
        raise RequestError(f"size {quoted(text)}: {math.prod(map(len, ranges))} sizes; at most {MOST_SIZES} are taken")
    if ":" in "".join(pieces[::5]):
        raise RequestError(f"size {quoted(text)}: write a range with a factor or a step, as in {EXAMPLE}")
    for values in itertools.product(*ranges):
        parts = itertools.chain.from_iterable(itertools.zip_longest(pieces[::5], map(str, values), fillvalue=""))
        yield parsing.parse_size("".join(parts), operation, types)


def _values(text: str, first: str, last: str, how: str, by: str) -> list[int]:
    low, high, change = int(first), int(last), int(by)
    if low > high or low < 1 or change < (2 if how == "*" else 1):
        raise RequestError(
            f"size {quoted(text)}: {first}:{last}{how}{by} is no range; write FIRST:LAST*FACTOR or FIRST:LAST+STEP, as "
            f"in {EXAMPLE}: FIRST from 1 to LAST, FACTOR from 2 on, STEP from 1 on"
        )
    if how == "+":
        return [*itertools.islice(range(low, high + 1, change), MOST_SIZES + 1)]
    values = [low]
    while values[-1] * change <= high:
        values.append(values[-1] * change)
    return values


def distinct(sizes: Iterable[WeightedSize]) -> list[WeightedSize]:
    """Each size once, with the sum of its weights. Raises RequestError for more than MOST_SIZES sizes."""
    weights: dict[str, WeightedSize] = {}
    for size in sizes:
        key = size_text(size.sizes)
        earlier = weights.get(key)
        weights[key] = WeightedSize(size.sizes, size.weight + (earlier.weight if earlier else 0.0))
    if len(weights) > MOST_SIZES:
        raise RequestError(f"{len(weights)} sizes; at most {MOST_SIZES} are taken")
    return list(weights.values())
