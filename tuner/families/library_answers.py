"""What the vendor library's heuristics said: how it tiles the products at the sizes of the time tables.

`results/FAMILY/CHIP.tiles` has the answers of one version of the library. They stand for all GPUs of one chip, that is,
of the same architecture and number of multiprocessors, such as `sm_90a_132`. To train a time model takes one answer for
each size at which the library was measured; with the file, it takes no device. A prediction asks the library that is
installed, once for each new size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tuner import paths
from tuner.devices import Device
from tuner.devices.product import Tiles
from tuner.families import model_files, products
from tuner.prediction import array_file
from tuner.prediction.grids import Sizes, scope_at
from tuner.store.lookup import Query

FORMAT, VERSION = "tuner tiles", 1
SUFFIX = ".tiles"


class Answers(NamedTuple):
    """The tiles by sizes, in the operation's order, and the library with its version."""

    library: str = ""
    tiles: Mapping[Sizes, Tiles] = {}


def path_of(queries: Sequence[Query], root: Path | None = None) -> Path | None:
    """The file of these kernels' operation on the queries' chip; None if they are not of one folder."""
    return model_files.shipped_path(queries, root, SUFFIX, of_chip=True)


def read(path: Path | None) -> Answers:
    """The answers in a file; none if it is missing or damaged."""
    try:
        if path is None:
            return Answers()
        file = array_file.read(path.read_bytes(), FORMAT, VERSION)
        arrays, library = file.arrays(0), str(file.header["library"])
        sizes, whole = np.cumsum(arrays["sizes"], axis=0).tolist(), arrays["whole"].tolist()
        tiles = {}
        for size, (count, blocks, algorithm, rows, parts), (own, at_once, columns) in zip(
            map(tuple, sizes), whole, arrays["fractions"].tolist(), strict=True
        ):
            tiles[size] = Tiles(count, own, blocks, at_once, algorithm, (rows, columns, parts))
    except (OSError, ValueError, LookupError, TypeError):
        return Answers()
    return Answers(library, tiles)


def ask(queries: Sequence[Query], sizes: Sequence[Sizes], device: Device, library: str, path: Path) -> int:
    """Ask the library of a device at these sizes, and write the answers. Returns their number."""
    query, found = queries[0], dict[Sizes, Tiles]()
    for size in sizes:
        tiles = products.tiles(query.space, scope_at(query.scope, size), device)
        if tiles is not None:
            found[size] = tiles
    write(Answers(library, found), path)
    return len(found)


def write(answers: Answers, path: Path) -> None:
    """Write a file of answers."""
    library, found = answers.library, dict(sorted(answers.tiles.items()))
    rows = [*found.values()]
    arrays = {
        "sizes": np.diff(np.array([*found], np.int64).reshape(len(found), -1), axis=0, prepend=0),
        "whole": np.array([(t.tile_count, t.blocks, t.algorithm, t.cut[0], t.cut[2]) for t in rows], np.int64),
        "fractions": np.array([(t.whole, t.at_once, t.cut[1]) for t in rows], np.float64),
    }
    paths.replace(path, array_file.packed(FORMAT, VERSION, {"library": library}, [arrays], small=True))
