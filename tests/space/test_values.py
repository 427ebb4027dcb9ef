"""Arguments whose value the space file gives: scalars, and arrays such as shapes and strides."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers.processes import Tune
from tuner.devices import Device
from tuner.errors import SpaceError

POLYNOMIAL = """\
title: a polynomial of each element
operation:
  sizes: {n: }
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
    - {name: square, dtype: int32, value: n * n}
    - {name: c, dtype: float64, shape: [2, 2], role: in, value: [1, 2.5, -n, n % 2 == 0]}
  reference: 1 + 2.5 * x - n * x * x + (n % 2 == 0) * x * x * x + n * n
kernel: polynomial
languages: [c]
parameters: {unroll: [1, 2]}
"""

POLYNOMIAL_C = """
void polynomial(float *y, const float *x, int n, int square, const double (*c)[2]) {
    for (int i = 0; i < n; i++) {
        y[i] = c[0][0] + x[i] * (c[0][1] + x[i] * (c[1][0] + x[i] * c[1][1])) + square;
    }
}
"""


@pytest.fixture
def polynomial(tmp_path: Path) -> Path:
    (tmp_path / "polynomial.c").write_text(POLYNOMIAL_C)
    (tmp_path / "polynomial.yaml").write_text(POLYNOMIAL)
    return tmp_path / "polynomial.yaml"


@pytest.mark.slow
def test_values_reach_the_kernel(polynomial: Path, tune: Tune) -> None:
    done = tune(polynomial, "1000", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {}


def test_a_launch_is_given_only_the_arrays_that_have_no_value(polynomial: Path, host: Device) -> None:
    x, y = np.linspace(-1, 1, 1000, dtype=np.float32), np.empty(1000, np.float32)
    launch = tuner.load(str(polynomial), 1000, device=host).bind(y, x)
    gc.collect()  # the values outlive the Kernel: memory as large as theirs is put to other uses
    others = [np.full(nbytes, 0xFF, np.uint8) for nbytes in range(32, 200) for _ in range(8)]
    launch()
    assert others
    np.testing.assert_allclose(y, 1 + 2.5 * x - 1000 * x**2 + x**3 + 1e6, rtol=1e-6)


def test_a_value_that_does_not_fit_at_a_size_is_one_message(polynomial: Path, host: Device, tune: Tune) -> None:
    done = tune(polynomial, "50000")
    assert done.status == 2
    expected = "argument square: `n * n` is 2500000000 at n=50000, and does not fit its int32; try a smaller size"
    assert expected in done.err
    assert "Traceback" not in done.err
    done = tune("validate", polynomial, "50000")
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert (
        "`n * n` is 2500000000, which does not fit int32; declare a wider dtype, or try a smaller size, at n=50000"
        in done.err
    )
    with pytest.raises(SpaceError, match="argument square: "):
        tuner.load(str(polynomial), 50000, device=host)(np.empty(50000, np.float32), np.ones(50000, np.float32))


ENDLESS_WITHOUT = """\
title: a loop whose step is a value
operation:
  sizes: {n: }
  extent: [1]
  arguments:
    - {name: y, dtype: float32, shape: [1], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
    - {name: step, dtype: int32, shape: [1], role: in, value: n}
  reference: 0 * y + 1
kernel: steps
languages: [opencl]
parameters: {unused: [1]}
"""

ENDLESS_WITHOUT_C = """
__kernel void steps(__global float *y, __global const float *x, int n, __global const int *step) {
    float sum = 0.0f;
    for (int i = 0; i < n; i += step[0]) {
        sum += x[i] * x[i];
    }
    y[0] = 1.0f + 1e-30f * sum;
}
"""


@pytest.mark.slow
def test_builders_launch_with_the_values_too(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "steps.cl").write_text(ENDLESS_WITHOUT_C)
    (tmp_path / "steps.yaml").write_text(ENDLESS_WITHOUT)
    done = tune(tmp_path / "steps.yaml", "100", "--device", "opencl", "--json")
    assert done.status == 0, done.err
