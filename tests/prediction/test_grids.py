"""The tiles of a launch at any size."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tuner.catalog import catalog
from tuner.prediction.clusters import blocks_per_cluster
from tuner.prediction.grid_table import GridTable
from tuner.prediction.grids import CountedTiles, Extents, Measured, TiledGrid, scope_at
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope

SIZES = [(4096, 4096, 4096, 1), (70, 33, 95, 3), (129, 1, 94, 1), (37, 515, 92, 2), (8, 8, 8, 1)]


@pytest.mark.parametrize(
    ("name", "chosen"), [("hgemm/13_unaligned", {"sort_rows": 1, "splits": 2}), ("sgemm/16_stream_k", {"spared": 3})]
)
def test_tiles_that_are_no_product_of_powers_of_sizes_are_counted(name: str, chosen: dict[str, int]) -> None:
    space = catalog.load(name)
    (step,), config = space.steps, {**space.default, **chosen}
    scope = Scope(dict.fromkeys(space.operation.sizes, 1), dict(space.operation.options), "cuda", Limits())
    grid = TiledGrid.of(Extents(step, space), config, lambda sizes: scope_at(scope, sizes), SIZES)
    assert grid is not None
    assert not grid.agrees
    tiles = CountedTiles([replace(grid, agrees=True), grid, grid])
    assert tiles.rows.tolist() == [1, 2]
    for sizes in SIZES:
        here = scope_at(scope, sizes)
        names = space.names(config, here)
        walked = names["steps"] if "steps" in space.derived else None  # over which a fixed number of blocks walks
        blocks = walked or math.prod(extent.integer(names) for extent in step.grid)
        of_results = names["tiles"] if walked else blocks
        assert [each.tolist() for each in tiles.at(here.names)] == [[blocks, blocks], [of_results, of_results]]


def test_a_step_that_only_adds_up_what_another_one_made_of_the_inputs_is_not_counted() -> None:
    space = catalog.load("gemm16/wgmma_summed")
    scope = Scope(dict.fromkeys(space.operation.sizes, 1), dict(space.operation.options), "cuda", Limits())
    table = GridTable.of([Measured(space, dict(space.default), {}), Measured(None, {}, {})], scope, SIZES)
    assert table.owners == [0, 1]
    blocks = space.steps[0].blocks(space.names(space.default, scope_at(scope, SIZES[0])))
    assert table.grids[0].along(np.array(SIZES[0], float)).prod() == math.prod(blocks)


def test_a_product_of_what_other_steps_made_of_each_input_is_counted(tmp_path: Path) -> None:
    (tmp_path / "packed.cu").write_text(
        "KERNEL void pack(GLOBAL float *to, GLOBAL const float *from) {}\n"
        "KERNEL void multiply(GLOBAL float *C, GLOBAL const float *a, GLOBAL const float *b) {}\n"
    )
    (tmp_path / "packed.yaml").write_text("""\
title: A product of packed matrices
operation:
  sizes: {M: , N: , K: }
  arguments:
    - {name: C, dtype: float32, shape: [M, N], role: out}
    - {name: A, dtype: float32, shape: [M, K], role: in}
    - {name: B, dtype: float32, shape: [K, N], role: in}
    - {name: a, dtype: float32, shape: [M, K], role: scratch}
    - {name: b, dtype: float32, shape: [K, N], role: scratch}
  reference: A @ B
steps:
  - {kernel: pack, arguments: [a, A], grid: ["ceil_div(K, 32)", "ceil_div(M, 32)"], block: [32]}
  - {kernel: pack, arguments: [b, B], grid: ["ceil_div(N, 32)", "ceil_div(K, 32)"], block: [32]}
  - {kernel: multiply, arguments: [C, a, b], grid: ["ceil_div(N, tile)", "ceil_div(M, tile)"], block: [32]}
parameters: {tile: [16, 64]}
""")
    space = catalog.load(str(tmp_path / "packed.yaml"))
    scope = Scope(dict.fromkeys(space.operation.sizes, 1), {}, "cuda", Limits())
    table = GridTable.of([Measured(space, {"tile": 64}, {})], scope, [(640, 1280, 2560)])
    tiles = [grid.along(np.array((640.0, 1280.0, 2560.0))).prod() for grid in table.grids]
    assert tiles == [80 * 20, 40 * 80, 20 * 10]


SOURCE = "KERNEL void twice(GLOBAL float *y, int n) {}"


def space_of(folder: Path, derived: str, grid: str, parameters: str = "{threads: [32]}", source: str = SOURCE) -> Space:
    """A kernel of a vector with this grid."""
    (folder / "twice.cu").write_text(source)
    file = folder / "twice.yaml"
    file.write_text(
        "title: t\noperation:\n  sizes: {n: }\n  arguments:\n    - {name: y, dtype: float32, shape: [n], role: out}\n"
        "    - {name: n, dtype: int32}\n  reference: zeros(n)\nkernel: twice\nsource: twice.cu\n"
        f"parameters: {parameters}\nderived:\n{derived}\ngrid: [{grid!r}]\nblock: [threads]\n"
    )
    return catalog.load(str(file))


@pytest.mark.parametrize(
    ("defines", "extents", "blocks"),
    [
        ("", "threads - 30, 2, 1", 4),
        ("", "3, min(threads, 2) + 1", 9),
        ("#define PAIR threads - 30\n#define WIDE (2 * PAIR)", "PAIR, WIDE", 8),
        ("#if N > 1\n#define PAIR 2\n#else\n#define PAIR 4\n#endif", "PAIR", 1),
        ("#if N > 1\n#define PAIR 2\n#else\n#define PAIR 2\n#endif", "PAIR", 2),
    ],
)
def test_the_blocks_of_a_cluster_are_the_product_of_the_extents_that_the_source_tells(
    defines: str, extents: str, blocks: int, tmp_path: Path
) -> None:
    source = f"{defines}\n__global__ void __cluster_dims__({extents}) twice(float *y, int n) {{}}"
    space = space_of(tmp_path, "  odd: n % 5", "ceil_div(n, 7)", source=source)
    assert blocks_per_cluster([(space, {"threads": 32}), (None, {})]).tolist() == [blocks, 1]


def test_a_negative_parameter_counts_as_it_is_and_a_division_by_zero_for_nothing(tmp_path: Path) -> None:
    parameters = "{threads: [32], sign: [-1]}"
    space = space_of(tmp_path, "  odd: n % 5", "ceil_div(n, 7) + odd * sign**2 + n // (n - 3) * 0", parameters)
    config, scope = {"threads": 32, "sign": -1}, Scope({"n": 1}, {}, "cuda", Limits())
    grid = TiledGrid.of(
        Extents(space.steps[0], space), config, lambda sizes: scope_at(scope, sizes), [(4,), (6,), (4096,)]
    )
    assert grid is not None
    tiles = CountedTiles([grid])
    assert tiles.at(scope_at(scope, (4096,)).names)[0].tolist() == [586 + 1]
    assert np.isnan(tiles.at(scope_at(scope, (3,)).names)).all()


def test_a_grid_whose_derived_values_double_again_and_again_is_left_out(tmp_path: Path) -> None:
    doubling = "\n".join(f"  d{i}: max(d{i - 1}, d{i - 1})" for i in range(1, 60))
    space = space_of(tmp_path, f"  d0: 1 if n % 3 else 2\n{doubling}", "ceil_div(n, 32) * d59")
    scope = Scope({"n": 1}, {}, "cuda", Limits())
    (step,) = space.steps
    assert (
        TiledGrid.of(Extents(step, space), {"threads": 32}, lambda sizes: scope_at(scope, sizes), [(4,), (6,), (7,)])
        is None
    )


def test_tiles_that_fractions_count_are_as_many_as_blocks(tmp_path: Path) -> None:
    space = space_of(tmp_path, "  odd: n % 5", "(1 + odd) * (n * 0.1 * 10)")
    scope, config = Scope({"n": 1}, {}, "cuda", Limits()), {"threads": 32}
    grid = TiledGrid.of(
        Extents(space.steps[0], space), config, lambda sizes: scope_at(scope, sizes), [(4,), (6,), (4096,)]
    )
    assert grid is not None
    assert CountedTiles([grid]).at(scope_at(scope, (32,)).names)[0].tolist() == [96]


@pytest.mark.parametrize(
    ("grid", "parted"),
    [
        ("[ceil_div(m, 128), ceil_div(k, 512)]", [1]),
        ("[min(132, ceil_div(m, 128) * ceil_div(k, 32))]", [1]),
        ("[ceil_div(m, 128), min(8, ceil_div(k, 32))]", []),  # it is cut, and still grows
        ("[ceil_div(m * k, 4096)]", []),
        ("[min(132, ceil_div(m, 128))]", []),
    ],
)
def test_factors_that_part_the_depth_are_those_of_sizes_that_no_result_has(
    grid: str, parted: list[int], tmp_path: Path
) -> None:
    (tmp_path / "sums.cu").write_text("KERNEL void sums(GLOBAL float *y, GLOBAL const float *x, int m, int k) {}")
    file = tmp_path / "sums.yaml"
    file.write_text(
        "title: t\noperation:\n  sizes: {m: , k: }\n  arguments:\n"
        "    - {name: y, dtype: float32, shape: [m], role: out}\n"
        "    - {name: x, dtype: float32, shape: [m, k], role: in}\n    - {name: m, dtype: int32}\n"
        "    - {name: k, dtype: int32}\n  reference: 'sum(x, axis=1)'\nkernel: sums\nsource: sums.cu\n"
        f"parameters: {{threads: [32]}}\ngrid: {grid}\nblock: [threads]\n"
    )
    space, scope = catalog.load(str(file)), Scope({"m": 1, "k": 1}, {}, "cuda", Limits())
    tiled = TiledGrid.of(
        Extents(space.steps[0], space), {"threads": 32}, lambda sizes: scope_at(scope, sizes), [(100, 700), (4096, 33)]
    )
    assert tiled is not None
    assert np.flatnonzero(tiled.is_depth).tolist() == parted
