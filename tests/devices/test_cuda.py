"""What the CUDA backend knows of GPUs and their maker's library."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.cuda import peak
from tuner.errors import WrongResult
from tuner.measure.workbench import Workbench


def test_the_bound_follows_from_lanes_and_clock() -> None:
    rtx3050, h200 = peak.fp32((8, 6), 18, 1_470_000), peak.fp32((9, 0), 132, 1_980_000)
    assert rtx3050 is not None
    assert h200 is not None
    assert rtx3050.gflops == pytest.approx(6774, rel=1e-4)  # as rtx3050-batched prints it
    assert h200.gflops == pytest.approx(66_908, rel=1e-4)
    assert str(h200) == "132 multiprocessors x 128 FP32 lanes x 2 x 1.98 GHz = 66.91 TFLOP/s"
    assert peak.fp32((99, 0), 1, 1) is None
    assert h200.fastest_gflops == pytest.approx(2_141_061, rel=1e-4)  # in FP8; NVIDIA says 1,979 at a lower clock


PRODUCT = """\
title: a product that the library computes
operation:
  sizes: {{M: , N: , K: , batch: 1}}
  options: {{alpha: 1.5, beta: {beta}}}
  extent: [M]
  arguments:
    - {{name: C, dtype: {c}, shape: [batch, M, N], role: inout}}
    - {{name: A, dtype: {a}, shape: [batch, M, K], role: in}}
    - {{name: B, dtype: {a}, shape: [batch, {b}], role: in}}
    - {{name: M, dtype: int32}}
  reference: alpha * (A @ {right}) + beta * C
  tolerance: {{C: {{rtol: {rtol}, atol: {epsilon} * 16 * K}}}}
  library: gemm
kernel: f
parameters: {{a: [1]}}
"""


@pytest.mark.gpu
@pytest.mark.parametrize(("size", "beta"), [("128x256x192", 0.0), ("37x101x53,batch=3", -0.75)])
@pytest.mark.parametrize("is_transposed", [False, True], ids=["NN", "NT"])
@pytest.mark.parametrize(
    "types",
    [
        ("float32", "float32"), ("float64", "float64"), ("float16", "float32"), ("float16", "float16"),
        ("bfloat16", "float32"), ("bfloat16", "bfloat16"),
    ],
    ids="-to-".join,
)  # fmt: skip
def test_the_vendors_product_is_right_by_default_and_by_some_algorithm(
    types: tuple[str, str], is_transposed: bool, size: str, beta: float, tmp_path: Path, cuda: Device
) -> None:
    a, c = types
    words = {"b": "N, K", "right": "transpose(B, (0, 2, 1))"} if is_transposed else {"b": "K, N", "right": "B"}
    rtol, epsilon = {"bfloat16": 2**-8, "float16": 2**-10}.get(c, 0.0), 2**-52 if c == "float64" else 2**-23
    (tmp_path / "f.yaml").write_text(PRODUCT.format(a=a, c=c, beta=beta, rtol=rtol, epsilon=epsilon, **words))
    (tmp_path / "f.cu").write_text('extern "C" __global__ void f() {}')
    space = catalog.load(str(tmp_path / "f.yaml"))
    bench = Workbench(cuda, space, scope_of(space, cuda, size))
    library, right = bench.library(), 0
    assert library is not None
    bench.verify(library)
    for algorithm in bench.library_algorithms():
        assert algorithm.name.startswith("cuBLASLt ")
        with contextlib.suppress(WrongResult):  # parts of a sum may be rounded to 16 bits
            bench.verify(algorithm)
            right += 1
    assert right > 0


@pytest.mark.gpu
@pytest.mark.parametrize("size", ["100x37x53", "37x100x24,batch=3"])
@pytest.mark.parametrize("name", ["sgemm/07_tiled_1xn", "hgemm/07_mma_unrolled"])
def test_the_vendors_product_is_right(name: str, size: str, cuda: Device) -> None:
    space = catalog.load(name)
    bench = Workbench(cuda, space, scope_of(space, cuda, size, alpha=1.5, beta=-0.75))
    library = bench.library()
    assert library is not None
    bench.verify(library)
