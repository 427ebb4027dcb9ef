"""Recorded spaces, as Kernel Tuner and others write them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from helpers.records import RTX, SPACE, config
from tuner.space.config import Value
from tuner.tuning.recordings import recording
from tuner.tuning.recordings.recording import Entry, Recording

PARAMETERS: dict[str, tuple[Value, ...]] = {"block_size_x": (32, 64, 128), "tile": (1, 2, 4), "layout": ("row", "col")}


def entry(key: tuple[Value, ...]) -> Entry:
    x, tile, layout = key
    if (x, tile) == (128, 4):
        return Entry(None, failure="compile")
    time_ms = 1 + abs(float(x) - 64) / 64 + abs(float(tile) - 2) + (layout == "row") / 2
    return Entry(time_ms, (time_ms, time_ms), extra={"compile_time": 12.5})


RECORDED = Recording(
    "vector_add", "a device", PARAMETERS, {key: entry(key) for key in itertools.product(*PARAMETERS.values())}, [10, 20]
)


def cache_of(folder: Path, times: dict[int, float | None], **header: Any) -> Path:
    """A Kernel Tuner cache of these tiles."""
    entries = {
        tuple(config(tile).values()): Entry(t, (t, t) if t else (), None if t else "compile")
        for tile, t in times.items()
    }
    plain = Recording("sgemm_tiled_1xn", RTX, SPACE.parameters, entries, [4096, 4096])
    file = folder / "cache.json"
    recording.write(file, replace(plain, **header))
    return file


def t4(measurements: Any, **more: Any) -> bytes:
    configuration = config(8)
    return json.dumps({"results": [{"configuration": configuration, "measurements": measurements, **more}]}).encode()
