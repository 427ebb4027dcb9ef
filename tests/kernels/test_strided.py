"""The strided stage: any number of dimensions, and strides that nothing writes to."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers import ROOT
from helpers.arrays import SHAPE, arrays
from helpers.kernels import broken, outcome_of
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method

# An edited kernel makes the shipped records stale until it is tuned again; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*earlier version")

FOUR_DIMENSIONS = f"""\
title: stacks of matrices, each with each
operation:
  sizes: {{p: , q: , M: , N: , K: }}
  options: {{alpha: 1.0, beta: 0.0}}
  extent: [p * q * M * N]
  arguments:
    - {{name: C, dtype: float32, shape: [p, q, M, N], role: inout}}
    - {{name: A, dtype: float32, shape: [p, 1, M, K], role: in}}
    - {{name: B, dtype: float32, shape: [q, K, N], role: in}}
    - {{name: C_shape, dtype: int32, shape: [4], role: in, value: [p, q, M, N]}}
    - {{name: C_strides, dtype: int64, shape: [4], role: in, value: [q * M * N, M * N, N, 1]}}
    - {{name: A_strides, dtype: int64, shape: [4], role: in, value: [M * K, 0, K, 1]}}
    - {{name: B_strides, dtype: int64, shape: [4], role: in, value: [0, K * N, N, 1]}}
    - {{name: dimensions, dtype: int32, value: 4}}
    - {{name: K, dtype: int32}}
    - {{name: alpha, dtype: float32}}
    - {{name: beta, dtype: float32}}
  reference: alpha * (A @ B) + beta * C if beta != 0 else alpha * (A @ B)
source: {ROOT}/kernels/sgemm/04_strided.cu
kernel: sgemm_strided
languages: [cuda, opencl]
parameters: {{block_size_x: [32, 256], index_bits: [32, 64], rank: [0, 4]}}
grid_divisors: {{x: [block_size_x]}}
block: [block_size_x]
"""


@pytest.mark.slow
@pytest.mark.parametrize("device", ["opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_strided_stage_multiplies_any_number_of_dimensions(
    device: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "four.yaml").write_text(FOUR_DIMENSIONS)
    space, opened = catalog.load(str(tmp_path / "four.yaml")), request.getfixturevalue(device)
    scope = scope_of(space, opened, "3x2x17x23x19", alpha=1.5, beta=-0.75)
    bench = Bench(opened, space, scope, Method(repeats=1))
    configs = list(itertools.product(*space.parameters.values()))
    assert len(configs) == 8
    for values in configs:
        config = dict(zip(space.parameters, values, strict=True))
        outcome = bench.measure(config)
        assert outcome.failure is None, f"{config}: {outcome.log}"


def test_the_strided_stage_computes_on_arrays_of_a_caller(opencl: Any) -> None:
    from pyopencl import array

    C, A, B = arrays()
    before = C.copy()
    given = [array.to_device(opencl.queue, x) for x in (C, A, B)]
    tuner.load("sgemm/04_strided", SHAPE, device=opencl)(*given, alpha=2.0, beta=0.5)
    np.testing.assert_allclose(given[0].get(), 2 * (A @ B) + 0.5 * before, rtol=1e-5)


@pytest.mark.slow
def test_a_kernel_that_writes_into_its_strides_is_wrong(opencl: Device, tmp_path: Path) -> None:
    """The stride from one matrix to the next matters to none where there is only one."""
    last = "*C = SCALED(alpha, sum, beta, *C);"
    space = broken("04_strided", last, f"{last}\n((GLOBAL long *)A_strides)[0] = 7;", tmp_path)
    assert outcome_of(space, opencl, "20") == "writes to an input"
