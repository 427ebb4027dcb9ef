"""Words of CUDA in a source for OpenCL: the message has the cure, and the cure compiles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.operations import array, written
from tuner.devices import Device
from tuner.errors import BuildError
from tuner.space.sources.source import Source

USES = {
    "atomicAdd": "atomicAdd(&y[i], 2);",
    "atomicCAS": "atomicCAS(&y[i], 0, 1);",
    "atomicExch": "y[i] = atomicExch(&y[0], i);",
    "__ldg": "y[i] = __ldg(y + 1);",
    "__popc": "y[i] = __popc(i);",
    "__expf": "y[i] = __expf(1.0f);",
    "__threadfence": "__threadfence();",
}


def compiled(device: Device, body: str, before: str = "") -> None:
    text = f"{before}\n__kernel void f(__global int *y) {{ int i = get_global_id(0); {body} }}"
    device.compiler.compile(Source(text, ("f",), ()))


@pytest.mark.slow
@pytest.mark.parametrize("word", USES)
def test_the_definition_that_a_message_gives_makes_the_kernel_compile(word: str, opencl: Device) -> None:
    with pytest.raises(
        BuildError, match=f"; {word} is CUDA's: under #ifdef __OPENCL_VERSION__ write `#define "
    ) as error:
        compiled(opencl, USES[word])
    definition = re.search("`(#define [^`]+)`", str(error.value))
    assert definition is not None
    compiled(opencl, USES[word], definition[1])


@pytest.mark.parametrize(
    ("extension", "body", "message"),
    [
        ("cl_khr_fp16", "half h = i; y[i] = h * h;", "lacks cl_khr_fp16.*vload_half.*see docs/types.md"),
        (
            "cl_khr_subgroups",
            "y[i] = sub_group_reduce_add(i);",
            r"subgroups need a device .*-cl-std=CL3.0\]}`; see docs/",
        ),
    ],
)
def test_what_a_device_lacks_is_named_once_with_the_way_out(
    opencl: Any, extension: str, body: str, message: str
) -> None:
    if extension in opencl.context.devices[0].extensions:
        pytest.skip(f"this device has {extension}")
    with pytest.raises(BuildError, match=message) as error:
        compiled(opencl, f"{body} {body}")
    assert str(error.value).count("see docs/types.md") == 1


@pytest.mark.slow
def test_a_sum_of_floats_by_an_atomic_has_a_message_with_line_and_cure_that_adds(
    opencl: Device, tmp_path: Path
) -> None:
    from pyopencl import array as opencl_array

    kernel = (
        '#include "portable.h"\nKERNEL void f(GLOBAL float *y, GLOBAL const float *x, int n) {\n atomicAdd(y, *x); }'
    )
    arguments = [array("y", "float32", [1], "inout"), array("x", "float32", [1])]
    geometry = {"grid": ["n"], "block": [64]}
    for number, before in enumerate(("", "#define atomicAdd(p, v) atomic_add(p, v)\n")):
        file = written(tmp_path, before + kernel, arguments, "y + 64 * n * x", "opencl", **geometry)
        message = rf"error: f\.cu:{3 + number}:2\b.*; .*for float,? (write )?`float atomicAdd"
        with pytest.raises(BuildError, match=message) as error:
            tuner.load(file, 10, device=opencl)
    cure = re.search("`(float [^`]+)`", str(error.value))
    assert cure is not None
    file = written(tmp_path, f"{cure[1]}\n{kernel}", arguments, "y + 64 * n * x", "opencl", **geometry)
    y, x = (opencl_array.to_device(opencl.queue, np.full(1, value, np.float32)) for value in (2.0, 0.5))
    tuner.load(file, 10, device=opencl)(y, x)
    assert y.get() == 2 + 64 * 10 * 0.5


def test_other_words_of_cuda_are_told_once_and_names_of_the_users_own_are_not(opencl: Device) -> None:
    body = (
        "y[i] = fmaxf(1, 2) + fmaxf(i, 2) + threadIdx.x + __shfl_xor_sync(-1, i, 1) + make_float4(1, 2, 3, 4).x + mine;"
    )
    with pytest.raises(BuildError) as error:
        compiled(opencl, body)
    told = [line.partition("; ")[2] for line in str(error.value).splitlines() if "undeclared" in line]
    assert [cure.partition(": ")[2][:22] for cure in told] == [
        "write fmax, which both", "", '#include "portable.h"', "OpenCL C has no equiva", "OpenCL C writes (float", "",
    ]  # fmt: skip
