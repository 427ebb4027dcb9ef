"""Stages whose blocks share the depth of a tile: every way in which many splits meet."""

from __future__ import annotations

import pytest

import tuner
from helpers.spaces import scope_of, sized
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.built import build
from tuner.devices.program import Program
from tuner.measure.workbench import Workbench
from tuner.space.config import Value
from tuner.space.instance import Instance

DEEP = (70, 45, 1100, 2)  # deep enough for 24 splits, and a multiple of no tile
SMALLER = (40, 30, 300, 1)  # for a processor
SMALL_TILES: dict[str, dict[str, Value]] = {
    "sgemm/14_split_k": {},
    "hgemm/12_split_k": {"block_k": 32, "block_m": 64, "block_n": 64, "warp_m": 32, "warp_n": 64},
    "sgemm/16_stream_k": {},
    "gemm16/mma_any": {},
    "gemm16_nt/mma_any": {},
    "gemm16_nt/wgmma_split": {},
    "gemm16_nt/wgmma_turned": {"block_n": 64, "consumers": 1},
}


def right(kernel: str, device: Device, size: tuple[int, ...] = DEEP, **values: Value) -> None:
    space = catalog.load(kernel)
    scope = scope_of(space, device, sized(space, size), alpha=1.5, beta=-0.75)
    config = {**space.default, **SMALL_TILES.get(kernel, {}), **values}
    assert space.valid(config, scope)
    bench = Workbench(device, space, scope)
    built = build(device.compiler, Instance(space, config, scope))
    bound = bench.bind(Program(device, built))
    bench.verify(bound)
    bench.verify(bound)  # the semaphores are as they were


@pytest.mark.slow
def test_an_odd_number_of_splits_meets_in_pairs_on_opencl(opencl: Device) -> None:
    right("sgemm/14_split_k", opencl, SMALLER, splits=11, meet=1, BM=32)


@pytest.mark.slow
def test_slices_of_a_block_meet_on_opencl(opencl: Device) -> None:
    right("sgemm/14_split_k", opencl, SMALLER, splits=5, slices=4, BM=32)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("splits", "together", "meet", "slices"),
    [
        (24, 1, 0, 1), (24, 1, 1, 1), (5, 5, 0, 1), (8, 8, 0, 1), (16, 4, 0, 1), (24, 8, 0, 1),
        (4, 1, 0, 2), (8, 1, 0, 4), (4, 2, 0, 4), (8, 2, 0, 2),
    ],
)  # fmt: skip
def test_splits_meet_on_cuda(splits: int, together: int, meet: int, slices: int, cuda: Device) -> None:
    right("sgemm/14_split_k", cuda, splits=splits, together=together, meet=meet, slices=slices)


@pytest.mark.gpu
@pytest.mark.parametrize(("splits", "together", "meet"), [(16, 1, 0), (16, 1, 1), (6, 6, 0), (8, 8, 0)])
def test_splits_of_halves_meet_on_cuda(splits: int, together: int, meet: int, cuda: Device) -> None:
    right("hgemm/12_split_k", cuda, splits=splits, together=together, meet=meet)


@pytest.mark.gpu
@pytest.mark.parametrize("size", [DEEP, (1500, 2100, 24, 2), (1, 1, 1, 1)])
@pytest.mark.parametrize(
    "values",
    [
        {"blocks": 132}, {"blocks": 128, "spared": 4, "stages": 3, "cp_async": 2},
        {"blocks": 264, "BM": 64, "WM": 16, "WN": 256, "spared": 4},
        {"blocks": 528, "BM": 64, "BN": 128, "WM": 32, "WN": 128},
    ],
)  # fmt: skip
def test_blocks_share_tiles_on_cuda(size: tuple[int, ...], values: dict[str, Value], cuda: Device) -> None:
    right("sgemm/16_stream_k", cuda, size, **values)


HALVES = (70, 45, 1096, 2)  # the same for the TMA, which takes rows of multiples of 16 bytes


@pytest.mark.gpu
@pytest.mark.parametrize(("together", "clusters"), [(1, 3), (1, 16), (2, 8), (4, 1), (8, 1), (8, 2)])
@pytest.mark.parametrize("kernel", [name for name in SMALL_TILES if name.startswith("gemm16")])
def test_clusters_meet_on_cuda(kernel: str, together: int, clusters: int, cuda: Device) -> None:
    right(kernel, cuda, HALVES, together=together, clusters=clusters)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("size", "values"),
    [
        ((1, 1, 1, 1), {}), ((2, 3, 5, 3), {}),  # a vector of B holds several of its rows
        ((1, 131, 4102, 2), {"splits": 8, "together": 4, "ahead": 2}),
        ((3, 60, 4101, 1), {"splits": 16, "ahead": 1}),
        ((4, 264, 2056, 2), {"splits": 2, "together": 2, "ahead": 2, "threads": 256}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kernel", ["gemm16/few_rows", "gemm16_nt/few_rows"])
def test_few_rows_that_begin_anywhere_meet_on_cuda(
    kernel: str, size: tuple[int, ...], values: dict[str, Value], cuda: Device
) -> None:
    right(kernel, cuda, size, **values)


@pytest.mark.gpu
@pytest.mark.parametrize(("kernel", "place"), [("gemm16/few_rows", (150, 36)), ("gemm16_nt/few_rows", (36, 300))])
def test_what_is_no_number_spoils_only_its_column_on_cuda(kernel: str, place: tuple[int, int]) -> None:
    """Threads load vectors across the ends of rows: here from the last number of one into the next row."""
    torch = pytest.importorskip("torch")
    space = catalog.load(kernel)
    loaded = tuner.load(kernel, sized(space, (2, 37, 301, 1)), config=dict(space.default))
    C, A, B = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in loaded.shapes.values())
    B[0][place] = float("nan")
    loaded(C, A, B)
    assert C[0].isnan().any(0).nonzero().flatten().tolist() == [36]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("size", "values"), [((2, 37, 301, 2), {}), ((3, 5, 3, 2), {}), ((1, 45, 4101, 1), {"splits": 4})]
)
@pytest.mark.parametrize("kernel", ["gemm16/few_rows", "gemm16_nt/few_rows"])
def test_an_infinity_beside_the_end_of_a_matrix_stays_one_on_cuda(
    kernel: str, size: tuple[int, ...], values: dict[str, Value]
) -> None:
    """Its last numbers fill no vector: what is beside them counts for nothing, though 0 times an infinity would not."""
    torch = pytest.importorskip("torch")
    space = catalog.load(kernel)
    loaded = tuner.load(kernel, sized(space, size), config={**space.default, **values})
    shapes = loaded.shapes.values()
    for first, second in ((float("inf"), 1.0), (1.0, float("inf")), (float("-inf"), float("inf"))):
        C, A, B = (torch.ones(shape, device="cuda", dtype=torch.float16) for shape in shapes)
        A[-1, -1, -1], B[-1, -1, -1] = first, second
        loaded(C, A, B)
        expected = A.cpu().double() @ (B.mT if "_nt" in kernel else B).cpu().double()
        assert torch.equal(C.cpu(), expected.half())


@pytest.mark.gpu
@pytest.mark.parametrize(
    "values",
    [
        {"cluster_m": 2, "cluster_n": 1, "together": 4, "clusters": 3},
        {"cluster_m": 1, "cluster_n": 2, "together": 1, "clusters": 4},
        {"cluster_m": 2, "cluster_n": 2, "together": 2, "clusters": 1, "block_m": 128, "consumers": 2},
    ],
)
@pytest.mark.parametrize(
    "kernel",
    ["gemm16/wgmma_shared", "gemm16_nt/wgmma_shared", "gemm16/wgmma_summed", "gemm16_nt/wgmma_summed"],
)
def test_blocks_that_share_what_they_fetch_meet_on_cuda(kernel: str, values: dict[str, Value], cuda: Device) -> None:
    small = {"block_m": 64, "block_n": 96, "consumers": 1, "stages": 3}
    right(kernel, cuda, (150, 216, 1096, 2), **{**small, **values})


@pytest.mark.gpu
@pytest.mark.parametrize(
    "values",
    [
        {"clusters": 17, "block_n": 224}, {"clusters": 3, "block_m": 192, "consumers": 3},
        {"together": 5, "clusters": 2}, {"together": 3, "clusters": 1},
        {"clusters": 16, "early": 1}, {"together": 2, "clusters": 4, "early": 1},
    ],
)  # fmt: skip
@pytest.mark.parametrize("kernel", ["gemm16/wgmma_summed", "gemm16_nt/wgmma_summed"])
def test_parts_that_share_nothing_are_summed_on_cuda(kernel: str, values: dict[str, Value], cuda: Device) -> None:
    alone = {"block_m": 64, "block_n": 96, "consumers": 1, "stages": 3, "cluster_m": 1, "cluster_n": 1}
    right(kernel, cuda, (150, 216, 1096, 2), **{**alone, **values})


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("kernel", "size", "values"),
    [
        ("gemm16/mma_any", DEEP, {"together": 2, "clusters": 8}),
        ("gemm16_nt/wgmma_split", HALVES, {"together": 4, "clusters": 4}),
        ("gemm16_nt/wgmma_turned", HALVES, {**SMALL_TILES["gemm16_nt/wgmma_turned"], "together": 4, "clusters": 4}),
        ("gemm16/wgmma_split", (70, 48, 1096, 2), {"together": 7}),
        ("gemm16_nt/wgmma_turned", HALVES, {**SMALL_TILES["gemm16_nt/wgmma_turned"], "together": 3, "clusters": 2}),
        ("gemm16/wgmma_shared", (250, 120, 4096, 2), {"block_n": 96, "clusters": 4}),
        ("gemm16/wgmma_summed", (250, 120, 4096, 2), {"block_n": 96, "clusters": 8, "early": 0}),
        ("gemm16/wgmma_summed", (250, 120, 4096, 2), {"block_n": 96, "clusters": 8, "early": 1}),
        ("gemm16_nt/wgmma_packed", DEEP, {"together": 2, "clusters": 4}),
        ("gemm16_nt/few_rows", (3, 45, 4100, 2), {"splits": 16, "together": 4, "ahead": 1}),
    ],
)
def test_splits_have_the_same_bits_each_time(kernel: str, size: tuple[int, ...], values: dict[str, Value]) -> None:
    torch = pytest.importorskip("torch")
    space = catalog.load(kernel)
    config = {**space.default, **values}
    loaded = tuner.load(kernel, sized(space, size), config=config, types={"real": "bfloat16"})
    arrays = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in loaded.shapes.values()]
    answers = set()
    for _ in range(50):
        arrays[0].fill_(float("nan"))
        loaded(*arrays)
        torch.cuda.synchronize()
        answers.add(arrays[0].view(torch.int16).cpu().numpy().tobytes())
    assert len(answers) == 1
