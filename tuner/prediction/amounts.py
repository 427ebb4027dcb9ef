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
LOAD, BLOCK = 1, 6  # the load, before those of other waves; the work of one block


class Position(NamedTuple):
    """Where sizes, which are the first axis, lie. Of all entries: their logarithms, the alignment of rows, and for a
    library that tells its tiles what `library_tiles` says of these; `lengths` are the columns of each of the three. By
    entry: the logarithms of the blocks, of the work of each, of the waves of one, of two, and of as many as run at
    once, and of what whole steps add to the depth."""

    shared: Array
    lengths: tuple[int, int, int]
    own: Array


class Traits(NamedTuple):
    """What times tell of each entry: the blocks that start at once on a device of which every multiprocessor takes one;
    those that run at once; and what the depth is rounded up to a multiple of."""

    slots: Array
    at_once: Array
    steps: Array


class Capacity(NamedTuple):
    """How many blocks of each grid start at once, and run at once: all `blocks`, and those that walk over tiles, of
    which there are no more than the grid has; and by entry the steps of its depth."""

    blocks: Array
    walked: Array
    steps: Array


class Amounts(NamedTuple):
    """What the parts of times are made of at sizes.

    By size and grid, of which a routine of the library is one: the tiles `there`; of routines how many a multiprocessor
    runs `at_once`. By what is counted, size and entry the means of the grids: the share of the work that one whole tile
    is, the tiles, the tiles of the result that a block has parts of, and how many blocks share one. Then what is of the
    operation, by entry where each has sizes of its own, else for all: the depth, the work, the bytes that move, and
    those of them that come from memory, by size; and which lengths of rows are not aligned, the last axis. And the
    `shared` place of each size, as `Position` has it.
    """

    there: Array
    at_once: Array
    means: Array
    problem: Array
    unaligned: Array
    shared: Array


class Course(NamedTuple):
    """How each entry runs at each size, the last two axes: its tiles per multiprocessor in waves, as `loads` counts
    them, means of steps; the work of one whole tile; and how many times its depth whole steps are."""

    in_waves: Array
    each: Array
    rounding: Array
