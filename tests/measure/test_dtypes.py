"""Every dtype of the table is filled, restored, poisoned, compared and launched, on every kind of device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tuner
from helpers.gpu_arrays import Own
from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.cuda import compiler
from tuner.measure.benchmark import Bench
from tuner.space import dtypes
from tuner.space.dtypes import DTYPES, spelling
from tuner.space.expressions import parse
from tuner.space.sources.source import Source
from tuner.space.values.tolerance import Tolerance

pytestmark = pytest.mark.usefixtures("optimized")  # the bits of numbers are tested as users get them

LANGUAGES = {"host": "c", "opencl": "opencl"}
# Copies elements by their bytes. With wrong = 1, the sign of one element in the middle is another, or a bit's value.
COPY = """
#ifdef __OPENCL_VERSION__
#define KERNEL __kernel
#define GLOBAL __global
#elif defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#define KERNEL extern "C" __global__
#define GLOBAL
#else
#define KERNEL
#define GLOBAL
#endif
KERNEL void f(GLOBAL {word} *y_, GLOBAL const {word} *x_, int n) {{
    GLOBAL unsigned char *y = (GLOBAL unsigned char *)y_;
    GLOBAL const unsigned char *x = (GLOBAL const unsigned char *)x_;
    for (int i = 0; i < n * {size}; i++) {{
        y[i] = x[i] ^ (wrong && i == (n / 3 + 1) * {size} - 1 ? {flip} : 0);
    }}
}}
"""


def word_of(name: str, language: str) -> str:
    """What a source calls the dtype. PoCL has halves in memory only."""
    word = spelling(name, language)
    return "ushort" if word == "half" else word


def copy(folder: Path, name: str, language: str, **fill: Any) -> Path:
    """The kernel that copies a vector of this dtype, and the file of its space."""
    dtype = DTYPES[name]
    code = COPY.format(
        word=word_of(name, language), size=dtype.itemsize, flip="0x80" if dtype.kind != "boolean" else "1"
    )
    arguments = [array("y", name, ["n"], "out"), array("x", name, ["n"], **fill)]
    more = {} if language == "c" else {"grid": [1], "block": [1]}
    return written(folder, code, arguments, "x", language, parameters={"wrong": [0, 1]}, tolerance="epsilon", **more)


@pytest.mark.slow
@pytest.mark.parametrize("device", LANGUAGES)
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_right_and_one_wrong_element_refused(
    name: str, device: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    opened: Device = request.getfixturevalue(device)
    space = catalog.load(str(copy(tmp_path, name, opened.language)))
    bench = Bench(opened, space, scope_of(space, opened, "301"))
    right, wrong = (bench.measure({"wrong": number}) for number in (0, 1))
    assert (right.failure, right.error) == (None, 0.0), right.log
    assert (wrong.failure, "y[100] = " in wrong.log) == ("wrong result", True), wrong.log


@pytest.mark.gpu
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_right_or_refused_and_launched_on_cuda(name: str, cuda: Device, tmp_path: Path) -> None:
    file, dtype = copy(tmp_path, name, "cuda"), DTYPES[name]
    space = catalog.load(str(file))
    bench = Bench(cuda, space, scope_of(space, cuda, "301"))
    failures = [bench.measure({"wrong": number}).failure for number in (0, 1)]
    assert failures == [None, "wrong result"]
    kernel = tuner.load(file, 6, device=cuda, config={"wrong": 0})
    values = np.array([0, 1, 1, 0, 1, 1]).astype(dtype.numpy)
    for data in [values, *([values.view(dtype.bits)] if dtype.foreign else [])]:
        y, x = Own(cuda, np.zeros_like(data)), Own(cuda, data)
        kernel(y, x)
        cuda.synchronize()
        assert y.get().tobytes() == values.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in DTYPES if name not in ("uint32", "uint64")])
def test_tensors_of_torch_are_launched(name: str, cuda: Device, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    kernel = tuner.load(copy(tmp_path, name, "cuda"), 6, device=cuda, config={"wrong": 0})
    values = torch.tensor([[0, 1, 1, 0, 1, 1], [0] * 6], dtype=torch.float32, device="cuda")
    x, y = (row.to(getattr(torch, name)) for row in values)
    kernel.bind(y, x)()
    kernel(y, x)
    torch.cuda.synchronize()
    assert (y.real if y.is_complex() else y.float()).tolist() == [0, 1, 1, 0, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bfloat16", "complex64", "bool"])
def test_a_dtype_is_tuned(name: str, tune: Tune, tmp_path: Path) -> None:
    done = tune(copy(tmp_path, name, "opencl"), "301", "--device", "opencl", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"wrong result": 1}
    assert done.json["best"]["config"] == {"wrong": 0}


@pytest.mark.slow
@pytest.mark.parametrize("device", LANGUAGES)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_every_pattern_of_bits_is_the_number_that_it_is(
    name: str, device: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    opened: Device = request.getfixturevalue(device)
    dtype = DTYPES[name]
    patterns = np.arange(np.iinfo(dtype.bits).max).astype(dtype.bits)  # all but the poison
    np.save(tmp_path / "x.npy", patterns if dtype.foreign else patterns.view(dtype.numpy))
    space = catalog.load(str(copy(tmp_path, name, opened.language, fill={"file": "x.npy"})))
    space = replace(space, operation=replace(space.operation, tolerance={"y": Tolerance(rtol=parse(0))}))
    outcome = Bench(opened, space, scope_of(space, opened, str(patterns.size))).measure({"wrong": 0})
    assert (outcome.failure, outcome.error) == (None, 0.0), outcome.log


SCALARS = """
{qualifier} void f({space} {word} *y, {space} const {word} *x, {word} one, long step, {word} nought, int n) {{
    for (int i = 0; i < n; i++) y[i] = i == 0 ? one : i == 1 ? nought : x[step * i];
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("device", LANGUAGES)
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_passed_as_a_scalar_and_launched(
    name: str, device: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    opened: Device = request.getfixturevalue(device)
    is_host = device == "host"
    qualifier, space = ("", "") if is_host else ("__kernel", "__global")
    code = SCALARS.format(word=word_of(name, opened.language), qualifier=qualifier, space=space)
    scalars = [("one", name, 1), ("step", "int64", 1), ("nought", name, 0)]
    arguments = [array("y", name, ["n"], "out"), array("x", name, ["n"])]
    arguments += [{"name": scalar, "dtype": dtype, "value": value} for scalar, dtype, value in scalars]
    more = {} if is_host else {"grid": [1], "block": [1]}
    file = written(tmp_path, code, arguments, "x", opened.language, tolerance="epsilon", **more)
    kernel = tuner.load(file, 9, device=opened)
    x = np.array([0, 1, 0, 1, 1, 0, 1, 1, 0]).astype(DTYPES[name].numpy)
    given: list[Any] = [np.zeros_like(x), x]
    if not is_host:
        from pyopencl import array as cl_arrays

        from tuner.devices.opencl.device import OpenCLDevice

        assert isinstance(opened, OpenCLDevice)
        given = [cl_arrays.to_device(opened.queue, data) for data in given]
    kernel(*given)
    y = given[0] if is_host else given[0].get()
    assert y.dtype == x.dtype
    assert y.astype(DTYPES[name].wide).tolist() == [1, 0, 0, 1, 1, 0, 1, 1, 0]


def test_a_view_of_the_bits_is_launched_where_numpy_lacks_the_type(tmp_path: Path) -> None:
    kernel = tuner.load(copy(tmp_path, "bfloat16", "c"), 5, device="host", config={"wrong": 0})
    x, y = np.arange(5, dtype=np.uint16), np.zeros(5, np.uint16)
    kernel(y, x)
    assert y.tolist() == x.tolist()
    with pytest.raises(tuner.ArgumentError, match=r"required: .* and dtype bfloat16, or a view of its bits as uint16"):
        kernel(y, x.astype(np.float16))


@pytest.mark.parametrize("name", DTYPES)
def test_the_numbers_of_the_table_are_those_of_numpy(name: str) -> None:
    dtype = DTYPES[name]
    assert dtypes.of(dtype.numpy) is dtype
    assert dtype.numpy.itemsize == dtype.itemsize
    if dtype.kind == "integer":
        about: Any = np.iinfo(dtype.numpy)
        assert (dtype.low, dtype.high) == (about.min, about.max)
    elif dtype.kind != "boolean":
        about = ml_dtypes.finfo(dtype.numpy) if dtype.foreign else np.finfo(dtype.numpy)
        assert (dtype.low, dtype.high) == (float(about.min), float(about.max))
        assert (2 * dtype.epsilon, 2.0**dtype.least_exponent) == (float(about.eps), float(about.smallest_normal))


def source(text: str, kernel: str) -> Source:
    return Source(text, (kernel,), ())


def sizes(language: str) -> str:
    """Declarations that no compiler takes unless each dtype has the size that the table says."""
    words = ((spelling(name, language), dtype.itemsize) for name, dtype in DTYPES.items())
    return "".join(f"typedef char size_{i}[sizeof({w}) == {n} ? 1 : -1];\n" for i, (w, n) in enumerate(words))


@pytest.mark.slow
def test_languages_have_the_types_that_the_table_says(host: Device, opencl: Device) -> None:
    assert host.build(source(f"{sizes('c')}void f(void) {{}}", "f")).binary
    assert opencl.build(source(f"{sizes('opencl')}__kernel void f() {{}}", "f")).binary
    headers = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"
    text = f'{headers}{sizes("cuda")}extern "C" __global__ void f() {{}}'
    assert compiler.compile_cubin(source(text, "f"), "sm_90a").binary
