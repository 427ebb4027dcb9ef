"""The numbers that tell of times: what their parts are made of, and where sizes lie.

An entry is a configuration of a kernel, or a routine of a library. All arrays are of many entries at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Rows = np.ndarray[Any, np.dtype[np.intp]]

PARTS = 13  # of a time, but for those of rows that are not aligned
LOAD, BLOCK, SHARES = 1, 6, 11  # the load, before those of other waves; the work of one block; tiles that blocks share


class Position(NamedTuple):
    """Where sizes, which are the first axis, lie: their logarithms, the alignment of rows; by entry the logarithms of
    the blocks, of the work of each, of the waves of one, of two, and of as many as run at once, and of what whole steps
    add to the depth; and for a library that tells its tiles what `library_tiles` says of these."""

    sizes: Array
    alignments: Array
    own: Array
    library: Array


class Traits(NamedTuple):
    """What times tell of each entry: the blocks that start at once on a device of which every multiprocessor takes one;
    those that run at once; and what the depth is rounded up to a multiple of."""

    slots: Array
    at_once: Array
    steps: Array


class Amounts(NamedTuple):
    """What the parts of times are made of at sizes, which are the first axis: these; by grid the tiles; of those that
    part the depth of tiles, the tiles of the result; by entry the mean of the tiles, and that of the share of the work
    that one whole tile is; by routine of the library its tiles, and how many a multiprocessor runs at once. The depth,
    the work, the bytes that move, and the alignments of rows, which are a last axis, are by entry where each has sizes
    of its own, else for all. And where sizes lie for the library, as `ToldTiles.places` has it."""

    sizes: Array
    there: Array
    shared: Array
    tiles: Array
    share: Array
    library: Array
    at_once: Array
    depth: Array
    work: Array
    moved: Array
    alignments: Array
    places: Array


class Course(NamedTuple):
    """How each entry runs at each size, the last two axes: its tiles per multiprocessor in waves, as `loads` counts
    them, means of steps; the work of one whole tile; and how many times its depth whole steps are."""

    in_waves: Array
    each: Array
    rounding: Array
