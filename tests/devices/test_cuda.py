"""What the CUDA backend knows of GPUs and their maker's library."""

from __future__ import annotations

import pytest

from helpers.spaces import scope_of
from tuner.devices import Device
from tuner.devices.cuda import peak
from tuner.measure.workbench import Workbench
from tuner.space import catalog


def test_the_bound_follows_from_lanes_and_clock() -> None:
    rtx3050, h200 = peak.fp32((8, 6), 18, 1_470_000), peak.fp32((9, 0), 132, 1_980_000)
    assert rtx3050 is not None
    assert h200 is not None
    assert rtx3050.gflops == pytest.approx(6774, rel=1e-4)  # as rtx3050-batched prints it
    assert h200.gflops == pytest.approx(66_908, rel=1e-4)
    assert str(h200) == "132 multiprocessors x 128 FP32 lanes x 2 x 1.98 GHz = 66.91 TFLOP/s"
    assert peak.fp32((99, 0), 1, 1) is None
    assert h200.fastest_gflops == pytest.approx(2_141_061, rel=1e-4)  # in FP8; NVIDIA says 1,979 at a lower clock


@pytest.mark.gpu
@pytest.mark.parametrize("size", ["100x37x53", "37x100x24,batch=3"])
@pytest.mark.parametrize("name", ["sgemm/07_tiled_1xn", "hgemm/07_mma_unrolled"])
def test_the_vendors_product_is_right(name: str, size: str, cuda: Device) -> None:
    space = catalog.load(name)
    bench = Workbench(cuda, space, scope_of(space, cuda, size, alpha=1.5, beta=-0.75))
    library = bench.library()
    assert library is not None
    bench.verify(library)
