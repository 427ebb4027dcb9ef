"""Arguments that are in constant memory or in global memory, as a parameter says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.arrays import on_host
from helpers.bundles import bundle
from helpers.kernels import outcome_of
from helpers.processes import Tune
from helpers.steps import given
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import SpaceError
from tuner.space.answers.reference import as_space
from tuner.space.values.forms import KernelReference

# The word of the parameter is a part of OpenCL's `__constant` and `__global`.
CODE = """\
#include "portable.h"
#define POINTER_TO(memory) IN(memory)
#define IN(memory) __##memory
#ifdef __OPENCL_VERSION__
#define WEIGHTS POINTER_TO(memory) const float *weights,
#elif in_constant
__constant__ float weights[16];
#define WEIGHTS
#else
#define WEIGHTS const float *weights,
#endif
KERNEL void apply(GLOBAL float *y, WEIGHTS GLOBAL const float *x, int n) {
    int i = blockIdx.x * threads + threadIdx.x;
    float sum = 0;
    if (i < n) {
        for (int j = 0; j < reach; j++) sum += weights[j] * x[i + j];
        y[i] = sum;
    }
}
#ifdef __CUDACC__
extern "C" __global__ void check(float *y, const float *weights, const float *x, int n) {
    for (int i = threadIdx.x; i < n; i += 32) { y[i] = 0; for (int j = 0; j < 5; j++) y[i] += weights[j] * x[i + j]; }
}
#endif
"""
FILE = """\
title: A filter in the faster memory
operation:
  sizes: {n: , width: 5}
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: weights, kind: "{memory}", dtype: float32, shape: [width], role: in}
    - {name: x, dtype: float32, shape: [n + width - 1], role: in}
    - {name: n, dtype: int32}
  reference: "correlate(x, weights, mode='valid')"
source: filter.cu
kernel: apply
languages: [cuda, opencl]
parameters: {memory: [constant, global], threads: [32]}
derived: {in_constant: memory == 'constant', reach: width}
grid_divisors: {x: [threads]}
block: [threads]
"""
BOTH = ["constant", "global"]


@pytest.fixture
def filtered(tmp_path: Path) -> Path:
    (tmp_path / "filter.cu").write_text(CODE)
    (tmp_path / "filter.yaml").write_text(FILE)
    return tmp_path / "filter.yaml"


def edited(file: Path, old: str, new: str) -> Path:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return file


def launched(device: Device, file: Path, memory: str) -> None:
    """Assert that a configuration is right in verification, and in a launch on the caller's arrays."""
    config: dict[str, Any] = {"memory": memory, "threads": 32}
    assert outcome_of(catalog.load(str(file)), device, "100", config) is None
    kernel = tuner.load(file, 100, device=device, config=config)
    x, weights = np.arange(104, dtype=np.float32), np.arange(5, dtype=np.float32)
    y, *inputs = given(device, np.zeros(100, np.float32), weights, x)
    kernel(y, *inputs)
    device.synchronize()
    np.testing.assert_array_equal(on_host(y), np.correlate(x, weights, "valid"))


@pytest.mark.slow
@pytest.mark.parametrize("memory", BOTH)
def test_a_parameter_chooses_the_address_space_in_opencl(opencl: Any, filtered: Path, memory: str) -> None:
    launched(opencl, filtered, memory)


@pytest.mark.slow
@pytest.mark.parametrize("memory", BOTH)
def test_in_cuda_a_parameter_chooses_between_a_variable_and_an_argument(
    filtered: Path, memory: str, tune: Tune, tmp_path: Path
) -> None:
    file = str(edited(filtered, "[constant, global]", f"[{memory}]"))
    (build,) = bundle(tune, tmp_path / "bundle", file, "100", "--architecture", "sm_90a")["builds"]
    weights = next(a for a in build["arguments"] if a["name"] == "weights")
    taken = build["steps"][0]["arguments"]
    if memory == "constant":
        assert (weights["kind"], weights["symbol"], taken) == ("constant", "weights", ["y", "x", "n"])
    else:
        assert ({"kind", "symbol"} & weights.keys(), taken) == (set(), ["y", "weights", "x", "n"])


@pytest.mark.slow
@pytest.mark.parametrize(("value", "status"), [("1", 2), ("0", 0)])
def test_a_numeric_knob_chooses_by_a_condition_and_only_a_variable_that_is_used_must_be_large_enough(
    filtered: Path, value: str, status: int, tune: Tune, tmp_path: Path
) -> None:
    file = edited(filtered, 'kind: "{memory}"', "kind: constant, when: in_constant == 1")
    edited(
        edited(file, "memory: [constant, global]", f"in_constant: [{value}]"), "in_constant: memory == 'constant', ", ""
    )
    where = "--architecture", "sm_90a", "--output", tmp_path / "bundle"
    done = tune("export", file, "100,width=20", "--to", "cubin", *where)
    assert done.status == status, done.err
    assert ("has 80 bytes, but the variable in the source has 64" in done.err) == (value == "1")


def test_a_reference_kernel_takes_the_argument_as_its_own_list_says(filtered: Path) -> None:
    """It has no parameters, so the condition has no value there."""
    reference = "{kernel: check, arguments: [y, weights, x, n], grid: [1], block: [32]}"
    space = catalog.load(str(edited(filtered, "\"correlate(x, weights, mode='valid')\"", reference)))
    form = space.operation.reference
    assert isinstance(form, KernelReference)
    weights = next(a for a in as_space(space, form).operation.arguments if a.name == "weights")
    assert weights.kind is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{memory}", "{memry}", "7: operation.arguments.1.kind: {memry}: there is no parameter memry; the param"),
        ("global]", "local]", "1.kind: {memory}: memory has the value 'local'; allowed: `constant` and `global`; "),
        ('"{memory}"', '"{memory}", when: threads == 32', "1.when: weights: memory chooses the kind; remove this key"),
        ('"{memory}"', "constant, when: [1, 0]", "1.when: 2 conditions; write one, with `and` or `or`"),
        ('"{memory}"', "constant, when: thread == 32", "1.when: `thread == 32`: unknown name 'thread'; did you"),
        ("role: out", "role: out, when: threads == 32", "0.when: only `kind: constant` has this key"),
        ("role: out", "role: out, kind: memory", "0.kind: 'memory': input should be 'array', 'constant', "),
    ],
)  # fmt: skip
def test_a_kind_that_nothing_can_choose_is_refused(filtered: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        catalog.load(str(edited(filtered, old, new)))
    assert message in str(caught.value)


@pytest.mark.gpu
@pytest.mark.parametrize("memory", BOTH)
def test_a_parameter_chooses_the_memory_on_a_gpu(cuda: Device, filtered: Path, memory: str) -> None:
    launched(cuda, filtered, memory)
