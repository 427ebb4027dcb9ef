"""Draw numbers as a line of bars, one character per bar."""

from __future__ import annotations

import math
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*#@"  # for encodings without BLOCKS


def sparkline(values: Sequence[float], width: int, levels: str) -> str:
    """Positive `values`, in order, as at most `width` bars on a logarithmic scale from the least to the largest.

    If there are more values than bars, each bar shows the last value of its share. Equal values give the lowest bar.
    """
    if not values or width < 1:
        return ""
    count = min(width, len(values))
    shown = [math.log(values[(i + 1) * len(values) // count - 1]) for i in range(count)]
    low, high = min(shown), max(shown)
    top = len(levels) - 1
    return "".join(levels[round((value - low) / (high - low) * top) if high > low else 0] for value in shown)
