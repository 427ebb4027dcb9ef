"""A small pool of configurations with a known best."""

from __future__ import annotations

import itertools

import numpy as np

from tuner.space.config import Config, Value

PARAMETERS: dict[str, tuple[Value, ...]] = {
    "block_size_x": (16, 32, 64, 128),
    "block_size_y": (1, 2, 4, 8),
    "tile": (1, 2, 3, 4),
    "pad": (False, True),
    "order": ("row", "column", "tiled"),
    "fixed": (7,),
}

VALID = [c for c in itertools.product(*PARAMETERS.values()) if int(c[0]) * int(c[1]) <= 256]


def time_of(config: Config) -> float | None:
    """Least, 1, at 64 x 4, tile 3, without padding, column; some configurations fail."""
    x, y, tile = (float(config[name]) for name in ("block_size_x", "block_size_y", "tile"))
    if x == 128 and tile == 4:
        return None
    slow = abs(np.log2(x / 64)) + abs(np.log2(y / 4)) + abs(tile - 3) / 2 + (config["order"] != "column")
    return float(1 + slow / 2 + 0.1 * bool(config["pad"]))
