"""The tiles of a launch at any size."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tuner.space import catalog
from tuner.space.scope import Limits, Scope
from tuner.store.grids import CountedTiles, TiledGrid, at

SIZES = [(4096, 4096, 4096, 1), (70, 33, 95, 3), (129, 1, 94, 1), (37, 515, 92, 2), (8, 8, 8, 1)]


@pytest.mark.parametrize(
    ("name", "chosen"), [("hgemm/13_unaligned", {"sort_rows": 1, "splits": 2}), ("sgemm/16_stream_k", {"spared": 3})]
)
def test_tiles_that_are_no_product_of_powers_of_sizes_are_counted(name: str, chosen: dict[str, int]) -> None:
    space = catalog.load(name)
    (step,), config = space.steps, {**space.default, **chosen}
    scope = Scope(dict.fromkeys(space.operation.sizes, 1), dict(space.operation.options), "cuda", Limits())
    grid = TiledGrid.of(step, space, config, lambda sizes: at(space, scope, sizes), SIZES)
    assert grid is not None
    assert not grid.agrees
    tiles = CountedTiles([replace(grid, agrees=True), grid, grid])
    assert tiles.rows == [1, 2]
    for sizes in SIZES:
        here = at(space, scope, sizes)
        names = space.names(config, here)
        walked = names["steps"] if "steps" in space.derived else None  # over which a fixed number of blocks walks
        blocks = walked or math.prod(extent.integer(names) for extent in step.grid)
        assert tiles.at(here.names).tolist() == [blocks, blocks]
