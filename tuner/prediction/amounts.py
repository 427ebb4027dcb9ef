"""Arrays that the time model passes between its stages: features, traits, and the quantities behind the cost terms.

An entry is a configuration of a kernel, or a routine (algorithm) of the vendor library. Every array covers many entries
at once, so that NumPy evaluates them together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Indices = np.ndarray[Any, np.dtype[np.intp]]

TERMS = 13  # cost terms of a time, without those of unaligned rows
LOAD, BLOCK = 1, 6  # indices of cost terms: the load in waves of one block per multiprocessor; the work of one block


class Features(NamedTuple):
    """The features of sizes, from which the Gaussian process computes distances.

    `shared`, [sizes, columns], is the same for all entries: the logarithms of the sizes, the alignment of rows, and the
    library's tiling (see `library_tiles`). `widths` are the numbers of columns of these three groups. `own`,
    [sizes, entries, 6], differs by entry: the logarithms of the number of tiles, of the work of a tile, of the waves of
    one block per multiprocessor, of two, and of all resident blocks, and of the rounding of the depth.
    """

    shared: Array
    widths: tuple[int, int, int]
    own: Array


class Traits(NamedTuple):
    """Execution properties of each entry, estimated from its times, each [entries].

    `slots`: multiprocessors that take blocks; `resident`: blocks that the whole device runs at once; `depth_steps`: the
    multiple to which the depth (the size that is summed over, K of a matrix product) is rounded up.
    """

    slots: Array
    resident: Array
    depth_steps: Array


class Capacity(NamedTuple):
    """The number of blocks of each grid that run together.

    `blocks`, [2, 1, grids], counts one block per multiprocessor, then all resident blocks. `persistent` is the same,
    limited to the blocks of a grid that does not grow with its tiles. `depth_steps`, [entries], is as in `Traits`.
    """

    blocks: Array
    persistent: Array
    depth_steps: Array


class Amounts(NamedTuple):
    """The quantities behind the cost terms, by size.

    `tiles`, [sizes, grids]: tiles of each grid; a routine of the library counts as a grid. `resident`, [sizes,
    routines]: the library's tiles that a multiprocessor runs at once. `means`, [4, sizes, entries]: means over the
    grids of an entry of the share of the work in one whole tile, the tiles, the output tiles to which a block
    contributes, and the blocks that share an output tile. `problem`, [4, sizes, 1]: the depth, the work, the bytes
    moved, and the bytes moved from beyond the last-level cache. `unaligned`, [2, sizes, 1, row lengths]: 1
    if rows of that length are not aligned, and 1 if they begin inside cache lines, else 0. `shared` is as in
    `Features`.

    In the result of `CostTerms.own`, each entry has different sizes, so the 1 in these shapes becomes `entries`.
    """

    tiles: Array
    resident: Array
    means: Array
    problem: Array
    unaligned: Array
    shared: Array


class Schedule(NamedTuple):
    """How the blocks of each entry run at each size.

    `waves`, [5, sizes, entries]: tiles per multiprocessor, rounded up to waves in the five ways that `cost_terms`
    describes. `tile_work`, [sizes, entries]: the work of one whole tile. `depth_rounding`, [sizes, entries]: the depth
    rounded up to whole steps, over the depth.
    """

    waves: Array
    tile_work: Array
    depth_rounding: Array
