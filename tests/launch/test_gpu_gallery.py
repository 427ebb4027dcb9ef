"""Kernels of several steps, of scratch and of every kind of argument, launched in every way: `pytest -m gpu -n 0`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.answers import python_calls
from tuner.measure.verify.comparison import compare
from tuner.measure.workbench import Workbench
from tuner.space.answers import derivation
from tuner.space.values.elements import held

pytestmark = pytest.mark.gpu

PROBLEMS = {
    "sum": "100003",
    "scan": "100003",
    "scan_lookback": "100003",
    "scan_bulk": "1000003",
    "separable_convolution": "200x301",
    "convolution_constant": "201x167",
    "split_k": "130x70x300",
    "histogram_parts": "100003",
    "expdist": "301x207",
    "texture": "200x300",
    "tma_copy": "100x256",
    "tma_wgmma": "130x72x320",
    "transpose_part": "100x57",
}


def called(cupy: Any, kernel: tuner.Kernel, arrays: list[Any]) -> None:
    kernel(*arrays)
    kernel(*arrays, stream=cupy.cuda.Stream(non_blocking=True))


def bound(cupy: Any, kernel: tuner.Kernel, arrays: list[Any]) -> None:
    call = kernel.bind(*arrays)
    for _ in range(3):
        call()


def captured(cupy: Any, kernel: tuner.Kernel, arrays: list[Any]) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        call = kernel.bind(*arrays)
        stream.begin_capture()
        kernel(*arrays)
        call()
        graph = stream.end_capture()
    for _ in range(3):
        graph.launch(stream)
    kernel(*arrays, stream=stream)


@pytest.mark.parametrize("way", [called, bound, captured], ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_kernel_of_the_gallery_is_right_however_it_is_launched(
    name: str, way: Callable[[Any, tuner.Kernel, list[Any]], None], cuda: Device
) -> None:
    cupy = pytest.importorskip("cupy")
    space = catalog.load(f"gallery/{name}")
    scope = scope_of(space, cuda, PROBLEMS[name])
    inputs = Workbench(cuda, space, scope).inputs
    kernel = tuner.load(f"gallery/{name}", PROBLEMS[name], device=cuda)
    op, arrays = space.operation, {}
    for array, shape in kernel.shapes.items():
        contents = inputs.contents[array]
        arrays[array] = cupy.asarray(contents.array() if contents.shape == shape else np.zeros(shape, contents.dtype))
    cupy.cuda.Device().synchronize()
    way(cupy, kernel, list(arrays.values()))
    cupy.cuda.Device().synchronize()
    found = held({array: data.get() for array, data in arrays.items()})
    found |= held(derivation.values(op, scope, found, python_calls.call))
    assert inputs.answers
    for array, answer in inputs.answers.items():
        compare(array, found[array], answer, inputs.bounds[array])
