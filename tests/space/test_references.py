"""References that call NumPy's functions: what they mean, what is refused, and the broken kernels that they catch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.kernels import outcome_of
from helpers.operations import array, written
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.space import expressions
from tuner.space.expressions import array_expressions

Arrays = list[dict[str, Any]]
MATRICES = [array("y", "float32", ["n", "n"], "out"), array("x", "float32", ["n", "n"])]
VECTORS = [array("y", "int64", ["n"], "out"), array("x", "int64", ["n"])]

# what is computed: (arguments, the body of the C function, reference)
RIGHT: dict[str, tuple[Arrays, str, str]] = {
    "softmax": (
        MATRICES,
        """for (int i = 0; i < n; i++) {
            float top = x[i * n], s = 0;
            for (int j = 0; j < n; j++) top = fmaxf(top, x[i * n + j]);
            for (int j = 0; j < n; j++) s += expf(x[i * n + j] - top);
            for (int j = 0; j < n; j++) y[i * n + j] = expf(x[i * n + j] - top) / s;
        }""",
        "exp(x - max(x, axis=1, keepdims=True)) / sum(exp(x - max(x, axis=1, keepdims=True)), axis=1, keepdims=True)",
    ),
    "between": (
        MATRICES,
        "for (int i = 0; i < n * n; i++) y[i] = fminf(fmaxf(x[i], -0.5f), 0.5f);",
        "minimum(maximum(x, -0.5), 0.5)",
    ),
    "layer norm": (
        MATRICES,
        """for (int i = 0; i < n; i++) {
            double m = 0, v = 0;
            for (int j = 0; j < n; j++) m += x[i * n + j] / (double)n;
            for (int j = 0; j < n; j++) v += (x[i * n + j] - m) * (x[i * n + j] - m) / n;
            for (int j = 0; j < n; j++) y[i * n + j] = (x[i * n + j] - m) / sqrt(v + 1e-5);
        }""",
        "(x - mean(x, axis=1, keepdims=True)) / sqrt(var(x, axis=1, keepdims=True) + 1e-5)",
    ),
    "five-point stencil": (
        MATRICES,
        """for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {
            int inner = i > 0 && j > 0 && i < n - 1 && j < n - 1, k = i * n + j;
            y[k] = inner ? x[k - n] + x[k + n] + x[k - 1] + x[k + 1] - 4 * x[k] : 0;
        }""",
        "pad(x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1], 1)",
    ),
    "the largest of each row": (
        [array("y", "int32", ["n"], "out"), MATRICES[1]],
        "for (int i = 0; i < n; i++) { y[i] = 0; "
        "for (int j = 1; j < n; j++) if (x[i * n + j] > x[i * n + y[i]]) y[i] = j; }",
        "argmax(x, axis=1)",
    ),
    "running sum": (VECTORS, "long s = 0; for (int i = 0; i < n; i++) y[i] = s += x[i];", "cumsum(x)"),
    "a sum of one element": (
        [array("y", "float32", [1], "out"), array("x", "float32", ["n"])],
        "double s = 0; for (int i = 0; i < n; i++) s += x[i]; y[0] = s;",
        "sum(x)",
    ),
    "histogram": (
        [array("y", "int32", [9], "out"), array("x", "uint8", ["n"])],
        "for (int b = 0; b < 9; b++) y[b] = 0; for (int i = 0; i < n; i++) y[x[i]]++;",
        "bincount(x, minlength=9)",
    ),
    "filter": (
        [array("y", "float32", ["n"], "out"), array("x", "float32", ["n + 2"]), array("k", "float32", [3])],
        "for (int i = 0; i < n; i++) y[i] = x[i] * k[0] + x[i + 1] * k[1] + x[i + 2] * k[2];",
        "correlate(x, k, mode='valid')",
    ),
    "conversion": (
        [array("y", "int32", ["n"], "out"), array("x", "float32", ["n"])],
        "for (int i = 0; i < n; i++) y[i] = (int)(100 * (double)x[i]);",
        "astype(100 * x, 'int32')",
    ),
    "mask": (
        VECTORS,
        "for (int i = 0; i < n; i++) y[i] = x[i] > 0 && x[i] % 2 == 0 ? x[i] : -1;",
        "where((x > 0) & ~(x % 2 == 1), x, -1)",
    ),
    "products of int8": (
        [array("y", "int32", ["n", "n"], "out"), *(array(name, "int8", ["n", "n"]) for name in "xw")],
        """for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {
            y[i * n + j] = 0;
            for (int k = 0; k < n; k++) y[i * n + j] += x[i * n + k] * w[k * n + j];
        }""",
        "x @ w",
    ),
    "integers beyond 2**53": (VECTORS, "for (int i = 0; i < n; i++) y[i] = (x[i] << 58) + 1;", "x * 2**58 + 1"),
}
TYPES = {"float32": "float", "int64": "long", "int32": "int", "int8": "signed char", "uint8": "unsigned char"}


def in_c(arguments: Arrays, body: str) -> str:
    """A C function `f` of these arguments."""
    listed = ", ".join(f"{'const ' * (a['role'] == 'in')}{TYPES[a['dtype']]} *{a['name']}" for a in arguments)
    return f"#include <math.h>\nvoid f({listed}, int n) {{\n{body}\n}}\n"


@pytest.mark.slow
@pytest.mark.parametrize("what", RIGHT)
def test_a_reference_has_the_meaning_that_numpy_gives_it(what: str, host: Device, tmp_path: Path) -> None:
    arguments, body, reference = RIGHT[what]
    extra = {"tolerance": "1e-5"} if arguments[0]["dtype"] == "float32" else {}
    file = written(tmp_path, in_c(arguments, body), arguments, reference, **extra)
    assert outcome_of(catalog.load(str(file)), host, "37") is None


@pytest.mark.parametrize(
    "reference",
    [
        "bincount(x, minlength=bins)",
        "reshape(zeros((1, bins)), (bins,)) + bincount(x, minlength=9)[:bins]",
        "sum(repeat(expand_dims(x, axis=1), bins, axis=1) == broadcast_to(arange(9), (n, bins)), axis=0)",
        {"python": "check.py:counts"},
    ],
)
def test_an_option_that_the_kernel_takes_as_an_integer_is_one_in_its_reference(
    reference: Any, host: Device, tmp_path: Path
) -> None:
    (tmp_path / "check.py").write_text(
        "import numpy as np\ndef counts(x, bins):\n    return np.bincount(x, minlength=bins)\n"
    )
    body = (
        "void f(int *y, const unsigned char *x, int bins, int n) { for (int b = 0; b < bins; b++) y[b] = 0;"
        " for (int i = 0; i < n; i++) y[x[i]]++; }"
    )
    data = array("x", "uint8", ["n"], fill={"integers": [0, 8]})
    arguments = [array("y", "int32", ["bins"], "out"), data, {"name": "bins", "dtype": "int32"}]
    file = written(tmp_path, body, arguments, reference, options={"bins": 9})
    assert outcome_of(catalog.load(str(file)), host, "37") is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
def test_convolutions_of_any_size_mean_what_scipy_means(dtype: str) -> None:
    from scipy import signal

    random, large = np.random.default_rng(1), ((3000,), (1500,))
    shapes = [((5,), (3,)), ((3,), (6,)), ((5, 4), (2, 3)), ((2, 3), (5, 4)), ((3, 4, 2), (2, 2, 2))]
    for shape, other in [*shapes, *([large] if dtype == "int64" else [])]:
        x, k = (random.integers(-9, 9, extents).astype(dtype) for extents in (shape, other))
        if dtype == "complex128":
            k = k + 1j
        for function in ("correlate", "convolve"):
            for mode in ("full", "same", "valid"):
                found = expressions.parse_array(f"{function}(x, k, mode='{mode}')").evaluate({"x": x, "k": k})
                expected = getattr(signal, function)(x, k, mode=mode, method="direct")
                np.testing.assert_array_equal(found, expected, err_msg=f"{function} {mode} {shape} {other}")
                assert found.dtype == expected.dtype


@pytest.mark.parametrize("pixel", [0.5, 1e15, math.nan, math.inf])
def test_a_pixel_of_a_large_image_changes_only_the_sums_that_it_is_in(pixel: float) -> None:
    image = np.random.default_rng(1).random((160, 170))
    image[40:100, 40:100] = 0
    expected = np.array(np.lib.stride_tricks.sliding_window_view(image, (15, 16)).mean((2, 3)))
    image[20, 30] = pixel
    found = expressions.parse_array("correlate(x, k, mode='valid')").evaluate(
        {"x": image, "k": np.full((15, 16), 1 / 240)}
    )
    reached = np.zeros(found.shape, bool)
    reached[6:21, 15:31] = True
    np.testing.assert_allclose(found[~reached], expected[~reached], rtol=1e-12)
    assert (found[reached] != expected[reached]).all()


def test_an_integer_that_is_off_by_one_beyond_2_to_the_53_is_wrong(host: Device, tmp_path: Path, tune: Tune) -> None:
    body = "for (int i = 0; i < n; i++) y[i] = (x[i] << 58) + 1 + (i == n / 2);"
    file = written(tmp_path, in_c(VECTORS, body), VECTORS, "x * 2**58 + 1")
    done = tune(file, "37", "--device", "host")
    assert done.status != 0
    assert "y[18] = " in done.out + done.err
    assert outcome_of(catalog.load(str(file)), host, "37") == "wrong result"


STENCIL = """
#include "portable.h"
KERNEL void f(GLOBAL float *y, GLOBAL const float *x, int n) {
    int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 4 + threadIdx.y, k = i * n + j;
    if (i >= n || j >= n) return;
    int inner = i > 0 && j > 0 && i < n - 1 && j < n - 1;
    y[k] = inner ? x[k - n] + x[k + n] + x[k - 1] + x[k + 1] - 4 * x[k] : 0;
}
"""
HISTOGRAM = """
#include "portable.h"
KERNEL void f(GLOBAL int *y, GLOBAL const uchar *x, int n) {
    int bin = blockIdx.x * 16 + threadIdx.x, count = 0;
    for (int i = 0; i < n; i++) count += x[i] == bin;
    if (bin < 9) y[bin] = count;
}
"""
GPU: dict[str, tuple[str, Arrays, str, dict[str, Any]]] = {
    "stencil": (STENCIL, MATRICES, RIGHT["five-point stencil"][2], {"grid": ["ceil_div(n, 16)", "ceil_div(n, 4)"]}),
    "histogram": (HISTOGRAM, RIGHT["histogram"][0], RIGHT["histogram"][2], {"grid": [1]}),
}
# what is broken: (kernel, text, what it becomes)
TWINS = {
    "a border that is not zero": ("stencil", "i < n - 1 && j < n - 1", "i < n && j < n - 1"),
    "a border that is left out": ("stencil", "j > 0 &&", "j > 1 &&"),
    "one bin short": ("histogram", "bin < 9", "bin < 8"),
    "one element short": ("histogram", "i = 0; i < n", "i = 1; i < n"),
}


def on_gpu(name: str, folder: Path, text: str = "", becomes: str = "") -> Path:
    code, arguments, reference, more = GPU[name]
    assert not text or code.count(text) == 1
    block = {"block": [16, 4] if name == "stencil" else [16]}
    code = code.replace(text, becomes) if text else code
    return written(folder, code, arguments, reference, "opencl", extent=["n", "n"], **block, **more)


@pytest.mark.slow
@pytest.mark.parametrize("name", GPU)
def test_the_honest_twin_is_right_on_opencl(name: str, opencl: Device, tmp_path: Path) -> None:
    assert outcome_of(catalog.load(str(on_gpu(name, tmp_path))), opencl, "37") is None


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_twin_is_caught_on_opencl(twin: str, opencl: Device, tmp_path: Path) -> None:
    assert outcome_of(catalog.load(str(on_gpu(*TWINS[twin][:1], tmp_path, *TWINS[twin][1:]))), opencl, "37") in (
        "wrong result", "not a number", "writes outside"
    )  # fmt: skip


@pytest.mark.slow
def test_a_kernel_with_such_a_reference_is_tuned_stored_and_launched(tmp_path: Path, tune: Tune) -> None:
    file = on_gpu("histogram", tmp_path)
    done = tune(file, "1000", "--device", "opencl", "--json")
    assert (done.status, done.json["failed"]) == (0, {}), done.err
    tuner.load(str(file), 1000, device="opencl")


REFUSED = {
    "x.sum()": "is not allowed here",
    "x.real": "`x.real` is not allowed here",
    "(lambda: x)()": "is not allowed here",
    "[i for i in x]": "is not allowed here",
    "sum(x, **{'axis': 0})": "** is not allowed",
    "sum(x, 1)": "sum() is called as sum(x, axis=None, keepdims=False): write the name of axis and keepdims",
    "exp(x, axis=0)": "exp() is called as exp(x)",
    "softmux(x)": "unknown name 'softmux'",
    "summ(x)": "did you mean sum",
    "eval('x')": "unknown name 'eval'",
    "x and x": "an array has no single truth value; write where(mask, x, y), mask & other or any(mask)",
    "1 if x > 0 else 2": "an array has no single truth value",
    "zeros((2**40, 2**40))": "zeros() would have 1.21e+24 elements; at most",
    "x + ones((2**20, 1)) * ones((1, 2**20))": "the result would have 1.1e+12 elements; at most",
    "tile(x, 2**40)[:n]": "tile() would have",
    "take(ones((2**11, 2**11)), zeros((2**21,)), axis=0)": "take() would have 4.29e+09 elements",
    "ones((2**11, 2**11))[zeros((2**21,))]": "the indexed array would have 4.29e+09 elements",
    "x[[0, 0], :2]": "too many indices",
    "einsum('i,j,k->i', x, ones(2**20), ones(2**20))": "einsum() would take",
    "x + [1] * 10**9": "* needs numbers, not [1] and 1000000000",
    "x + (x, [x, 1])": "and (an array of shape (5,), [an array of shape (5,), 1])",
    "astype(x, 'object')": "unknown type; known are float16, float32",
    "bincount(x)": "bincount() counts whole numbers",
    "bincount(floor(x) * 0 - 3)": "bincount() counts numbers from 0, but one is -3; give x a fill",
    "load('x.npy')": "unknown name 'load'",
    "x / ones((2, 3))": "arrays of shapes (5,) and (2, 3) do not match",
    "where(x > 0, x, ones((2, 3)))": "(5,) and (2, 3) do not match (their extents, from the last one on, must be",
}


@pytest.mark.slow
@pytest.mark.parametrize("reference", REFUSED)
def test_what_a_reference_may_not_say_is_one_message(reference: str, tmp_path: Path, tune: Tune) -> None:
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    file = written(tmp_path, in_c(arguments, ""), arguments, reference)
    done = tune("validate", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert done.err.startswith(f"error: {file}:")
    assert "operation.reference: " in done.err
    assert REFUSED[reference] in done.err
    assert "array(" not in done.err


def test_what_numpy_thinks_of_a_reference_stays_unsaid(tmp_path: Path, tune: Tune) -> None:
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    done = tune("validate", written(tmp_path, in_c(arguments, ""), arguments, "where(isnan(mean(zeros(0))), x, 0)"))
    assert (done.status, "Warning" in done.err) == (0, False), done.err


def test_the_functions_are_listed_with_their_arguments(tune: Tune) -> None:
    text, data = tune("schema", "--functions"), tune("schema", "--functions", "--json").json
    assert "sum(x, axis=None, keepdims=False)" in text.out.splitlines()
    assert data["correlate"] == "correlate(x, k, mode='full')"
    asked = (
        "sum mean max min prod argmax cumsum exp log tanh erf sin cos floor round where clip sign transpose reshape "
    )
    asked += "concatenate roll pad take bincount sort matmul einsum astype correlate convolve ceil_div"
    assert set(asked.split()) <= data.keys()
    assert text.out.splitlines() == list(data.values())


def test_what_an_array_comes_to_may_be_as_large_as_its_type_holds() -> None:
    scope = {"x": np.full(4, 100.0)}
    value = array_expressions.value_of(expressions.parse_array("x / sqrt(2 * sum(exp(x)))").tree, scope, "")
    assert np.allclose(value, 100 / np.sqrt(2 * 4 * np.exp(100.0)))
    assert np.isnan(array_expressions.value_of(expressions.parse_array("0 * sum(x / 0.0)").tree, scope, ""))
