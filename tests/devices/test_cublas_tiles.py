"""What cuBLASLt's heuristics tell of a product, as tiles: the grids here are those that a profiler saw on an H100."""

import pytest

from tuner.catalog import catalog
from tuner.devices.cuda.blas.cublas_tiles import Heuristic, tiles
from tuner.devices.product import MatrixProduct
from tuner.families import products
from tuner.space.scope import Limits, Scope

UNITS = 132


def _product(family: str, *sizes: int) -> MatrixProduct:
    space = catalog.load({"sgemm": "sgemm/03_naive", "hgemm": "hgemm/01_wmma_naive"}[family])
    named = dict(zip(("M", "N", "K", "batch"), sizes, strict=True))
    scope = Scope(named, {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(compute_capability=9))
    product = products.product(space, scope)
    assert product is not None
    return product


@pytest.mark.parametrize(
    ("family", "sizes", "told", "grid", "there"),
    [
        ("sgemm", (44, 1027, 11759, 1), (20, (128, 64), 29), (8, 2, 29), 9 * 29),
        ("sgemm", (37, 992, 10845, 1), (20, (128, 64), 33), (8, 1, 33), 8 * 33),
        ("sgemm", (81, 515, 108, 38), (20, (128, 32), 1), (12, 2, 38), 3 * 5 * 38),
        ("hgemm", (503, 568, 695, 17), (24, (128, 128), 1), (16, 2, 17), 4 * 5 * 17),
        ("sgemm", (17, 3509, 5751, 1), (55, (64, 32), 9), (1, 55, 9), 55 * 9),
    ],
)
def test_only_cutlass_rounds_its_tiles_along_n_up_to_swizzle_them(
    family: str, sizes: tuple[int, ...], told: tuple[int, tuple[int, int], int], grid: tuple[int, ...], there: int
) -> None:
    found = tiles(_product(family, *sizes), Heuristic(*told, waves=0.5), UNITS)
    assert (found.blocks, found.tile_count) == (grid[0] * grid[1] * grid[2], there)


@pytest.mark.parametrize(
    ("family", "sizes", "told", "parts"),
    [
        ("sgemm", (2, 522, 578, 1), (20, (128, 32), 33), 29),  # of 20 elements, and not of 18
        ("sgemm", (64, 512, 17472, 1), (20, (128, 64), 66), 61),  # of lines, where all rows begin with one
        ("hgemm", (4, 582, 2432, 1), (23, (32, 32), 12), 10),
        ("hgemm", (2, 522, 5585, 1), (24, (32, 32), 16), 16),
    ],
)
def test_the_parts_of_sums_begin_at_aligned_elements(
    family: str, sizes: tuple[int, ...], told: tuple[int, tuple[int, int], int], parts: int
) -> None:
    assert tiles(_product(family, *sizes), Heuristic(*told, waves=0.5), UNITS).cut[2] == parts


def test_waves_tell_how_many_blocks_a_multiprocessor_runs_at_once() -> None:
    product = _product("sgemm", 128, 128 * UNITS, 512, 1)
    assert tiles(product, Heuristic(20, (128, 128), 1, waves=0.25), UNITS).at_once == 4.0
    assert tiles(product, Heuristic(66, (128, 128), 1, waves=0.25), UNITS).at_once == 1.0


def test_blocks_without_a_tile_take_the_place_of_others_only_where_all_run_at_once() -> None:
    product = _product("sgemm", 44, 1027, 11759, 1)
    all_at_once, in_turn = (tiles(product, Heuristic(20, (128, 64), 29, waves), UNITS) for waves in (0.5, 2.0))
    assert (all_at_once.dealt(UNITS), in_turn.dealt(UNITS)) == (all_at_once.blocks, in_turn.tile_count)


def test_an_algorithm_without_tiles_has_the_blocks_of_its_waves() -> None:
    found = tiles(_product("sgemm", 2, 4872, 560, 1), Heuristic(11, None, 1, waves=0.15), UNITS)
    assert (found.tile_count, found.blocks, found.cut[0]) == (20, 20, 2)


def test_variants_of_an_algorithm_without_tiles_are_told_apart() -> None:
    product = _product("sgemm", 1, 4872, 560, 1)
    one, other, same = (
        tiles(product, Heuristic(13, None, 1, 0.5, variant), UNITS).algorithm for variant in (57, 111, 57)
    )
    assert one == same != other
    tiled = {tiles(product, Heuristic(55, (32, 32), 1, 0.5, variant), UNITS).algorithm for variant in (0, 2)}
    assert tiled == {55}
