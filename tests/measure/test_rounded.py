"""Options and sizes as the kernel gets them: rounded to the dtype of the argument that takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import RequestError, SpaceError
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.space.default import first_valid
from tuner.torch.signature import Signature

HALVES = "static float value(_Float16 s) { return s; }"
UPPER = "static float value(unsigned short s) { union { unsigned u; float f; } x = {(unsigned)s << 16}; return x.f; }"
E5M2 = """static float value(unsigned char s) {
    union { unsigned short u; _Float16 f; } x = {(unsigned short)(s << 8)};
    return x.f;
}"""
REAL = "#include <complex.h>\nstatic double value(WORD s) { return creal(s); }"
WORDS = {
    "float16": ("_Float16", HALVES),
    "bfloat16": ("unsigned short", UPPER),
    "float32": ("float", REAL),
    "float64": ("double", REAL),
    "float8_e5m2": ("unsigned char", E5M2),
    "complex64": ("float _Complex", REAL),
}
X_AND_Y = [array("y", "float64", ["n"], "out"), array("x", "float64", ["n"])]


def scaled(folder: Path, dtype: str, reference: Any = "s * x", factor: str = "value(s)", **more: Any) -> Path:
    """The doubles y = s x, where the option s is an argument of `dtype`."""
    word, value = WORDS[dtype]
    code = f"""{value.replace("WORD", word)}
        void f(double *y, const double *x, {word} s, int n) {{
            for (int i = 0; i < n; i++) y[i] = {factor} * x[i];
        }}
        void correct(double *y, const double *x, {word} s, int n) {{
            for (int i = 0; i < n; i++) y[i] = value(s) * x[i];
        }}"""
    arguments = [*X_AND_Y, {"name": "s", "dtype": dtype}]
    return written(folder, code, arguments, reference, **{"options": {"s": 0.5}, **more})


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*WORDS])
def test_a_reference_computes_with_the_number_that_the_kernel_gets(
    dtype: str, tmp_path: Path, tune: Tune, host: Device
) -> None:
    file = scaled(tmp_path, dtype)
    done = tune(file, "1000", "--device", "host")  # the finals use other numbers
    assert done.status == 0, done.err
    space = catalog.load(str(file))
    for s in (0.65, 1e-9 if dtype != "float8_e5m2" else -3.3):
        scope = scope_of(space, host, "1000", s=s)
        assert Bench(host, space, scope, Method(repeats=1)).measure(first_valid(space, scope)).failure is None, s


@pytest.mark.slow
@pytest.mark.parametrize("form", ["python", "kernel", "config"])
def test_so_do_references_of_every_form(form: str, tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "check.py").write_text("def expected(x, s):\n    assert type(s) is float\n    return s * x\n")
    forms = {"python": "check.py:expected", "kernel": "correct", "config": {"a": 1}}
    file = scaled(tmp_path, "float32", {form: forms[form]}, parameters={"a": [1, 2]}, default={"a": 1})
    done = tune(file, "1000", "--device", "host", "--set", "s=0.65")
    assert done.status == 0, done.err


@pytest.mark.slow
def test_restrictions_derived_values_grids_and_tolerances_do_so_too(tmp_path: Path, tune: Tune) -> None:
    assert (int(0.7 * 10), int(float(np.float32(0.7)) * 10)) == (7, 6)
    more = {
        "derived": {"TENTHS": "int(s * 10)"},
        "restrictions": ["int(s * 10) == 6", "s < 0.7"],
        "tolerance": {"y": {"atol": "1e-9 if s < 0.7 else 0"}},
    }
    factor = "(TENTHS == (int)(s * 10.0) ? value(s) : 0)"
    done = tune(scaled(tmp_path, "float32", factor=factor, **more), "1000", "--device", "host", "--set", "s=0.7")
    assert done.status == 0, done.err


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "opencl"])
def test_the_chosen_type_decides(language: str, tmp_path: Path, tune: Tune) -> None:
    if language == "c":
        code = "void f(double *y, const double *x, REAL s, int n) { for (int i = 0; i < n; i++) y[i] = s * x[i]; }"
        more: dict[str, Any] = {}
    else:
        code = """__kernel void f(__global double *y, __global const double *x, REAL s, int n) {
            int i = get_global_id(0);
            if (i < n) y[i] = s * x[i];
        }"""
        more = {"block": [64], "grid": ["ceil_div(n, 64)"]}
    more |= {"types": {"REAL": ["float32", "float64"]}, "options": {"s": 0.5}}
    file = written(tmp_path, code, [*X_AND_Y, {"name": "s", "dtype": "REAL"}], "s * x", language, **more)
    for chosen in ("float32", "float64"):
        done = tune(file, "1000", "--type", f"REAL={chosen}", "--set", "s=0.65")
        assert done.status == 0, done.err


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_gpu_gets_the_number_that_its_reference_computes_with(dtype: str, tmp_path: Path, tune: Tune) -> None:
    code = """#include <cuda_fp16.h>
        #include <cuda_bf16.h>
        __global__ void f(double *y, const double *x, REAL s, int n) {
            int i = blockIdx.x * 64 + threadIdx.x;
            if (i < n) y[i] = (double)FACTOR * x[i];
        }"""
    more: dict[str, Any] = {"block": [64], "grid": ["ceil_div(n, 64)"], "options": {"s": 0.5}}
    more |= {"types": {"REAL": ["float16", "bfloat16", "float32", "float64"]}}
    factor = "s" if dtype == "float64" else "(float)s"
    arguments = [*X_AND_Y, {"name": "s", "dtype": "REAL"}]
    file = written(tmp_path, code.replace("FACTOR", factor), arguments, "s * x", "cuda", **more)
    done = tune(file, "1000", "--device", "cuda", "--type", f"REAL={dtype}", "--set", "s=0.65")
    assert done.status == 0, done.err


@pytest.mark.slow
def test_a_scalar_may_take_an_option_as_its_value(tmp_path: Path, tune: Tune) -> None:
    code = "void f(double *y, const double *x, float t, int n) { for (int i = 0; i < n; i++) y[i] = t * x[i]; }"
    arguments = [*X_AND_Y, {"name": "t", "dtype": "float32", "value": "s"}]
    file = written(tmp_path, code, arguments, "s * x", options={"s": 0.65})
    done = tune(file, "1000", "--device", "host")
    assert done.status == 0, done.err


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["t * x", {"python": "check.py:expected"}, {"kernel": "correct"}])
def test_a_reference_may_use_a_scalar_that_is_computed(reference: Any, tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "check.py").write_text("def expected(x, t):\n    return t * x\n")
    correct = (
        "void correct(double *y, const double *x, float t, int n) { for (int i = 0; i < n; i++) y[i] = t * x[i]; }"
    )
    arguments = [*X_AND_Y, {"name": "t", "dtype": "float32", "value": "1 - s / n"}]
    code = (
        "#ifndef a\n#define a 1\n#endif\n"
        + correct
        + correct.replace("void correct", "void f").replace("t *", "(a ? t : 1 - 0.65f / n) *")
    )
    file = written(tmp_path, code, arguments, reference, options={"s": 0.65}, parameters={"a": [1, 0]})
    done = tune(file, "1000", "--device", "host", "--json")
    assert (done.status, done.json["failed"], done.json["best"]["config"]) == (0, {"finals": 1}, {"a": 1}), done.err
    assert "with s=" in done.err


@pytest.mark.slow
def test_an_option_that_no_argument_takes_stays_as_it_is(tmp_path: Path, tune: Tune) -> None:
    code = "void f(double *y, const double *x, int n) { for (int i = 0; i < n; i++) y[i] = S * x[i]; }"
    right = written(tmp_path, code, X_AND_Y, "s * x", options={"s": 0.65}, derived={"S": "s"})
    assert tune(right, "1000", "--device", "host").status == 0
    (tmp_path / "f.c").write_text(code.replace("S *", "(float)S *"))
    assert tune(right, "1000", "--device", "host").status == 1


@pytest.mark.slow
@pytest.mark.parametrize("s", [0, 0.25, 1, 5, 10, 1.25])
def test_a_kernel_that_rounds_an_option_of_doubles_fails_whatever_the_default(
    s: float, tmp_path: Path, tune: Tune
) -> None:
    factor = "(a == 0 ? s : a == 1 ? (float)s : (double)(_Float16)s)"
    file = scaled(tmp_path, "float64", factor=factor, options={"s": s}, parameters={"a": [0, 1, 2]})
    done = tune(file, "1000", "--device", "host", "--json")
    assert (done.status, done.json["failed"], done.json["best"]["config"]) == (0, {"finals": 2}, {"a": 0}), done.err
    assert "with s=" in done.err


@pytest.mark.slow
def test_a_size_is_rounded_in_a_reference_but_arrays_have_its_extent(tmp_path: Path, tune: Tune) -> None:
    code = "void f(double *y, const double *x, int m, _Float16 n) { for (int i = 0; i < m; i++) y[i] = x[i] * n; }"
    arguments = [*X_AND_Y, {"name": "m", "dtype": "int32", "value": "n * 1"}, {"name": "n", "dtype": "float16"}]
    file = written(tmp_path, code, arguments, "x * n")
    text = file.read_text().replace("  - name: n\n    dtype: int32\n", "", 1)
    file.write_text(text)
    done = tune(file, "2049", "--device", "host")
    assert done.status == 0, done.err
    assert tuner.load(file, 2049, device="host").shapes == {"y": (2049,), "x": (2049,)}


@pytest.mark.slow
def test_what_is_stored_has_the_number_as_it_was_given(tmp_path: Path, tune: Tune) -> None:
    file = scaled(tmp_path, "float32")
    done = tune(file, "1000", "--device", "host", "--set", "s=0.65", "--json")
    assert done.status == 0, done.err
    assert tune("best", file, "1000", "--device", "host", "--set", "s=0.65", "--json").json["options"] == {"s": 0.65}
    again = tune(file, "1000", "--device", "host", "--set", "s=0.65")
    assert "1 measured before" in again.err
    kernel = tuner.load(file, 1000, options={"s": 0.65}, device="host", strict=True)
    assert (kernel.match, kernel.record and kernel.record.options) == ("exact", {"s": 0.65})
    x, y = np.ones(1000), np.empty(1000)
    for launch in (lambda: kernel(y, x), lambda: kernel(y, x, s=0.65), kernel.bind(y, x, s=0.65)):
        y[:] = 0
        launch()
        assert np.all(y == float(np.float32(0.65)))


def test_an_option_on_which_code_depends_may_be_given_in_any_way_that_is_rounded_alike(tmp_path: Path) -> None:
    file = scaled(tmp_path, "float32", factor="S", derived={"S": "s"}, options={"s": 0.65})
    kernel = tuner.load(file, 1000, device="host")
    x, y = np.ones(1000), np.empty(1000)
    kernel(y, x, s=float(np.float32(0.65)))
    assert np.all(y == float(np.float32(0.65)))
    with pytest.raises(RequestError, match="it is fixed when the kernel is loaded"):
        kernel(y, x, s=0.651)


def test_a_shape_that_follows_from_an_option_is_that_of_the_number_in_the_kernel(tmp_path: Path) -> None:
    code = (
        "void f(double *y, const double *x, float s, int n) { for (int i = 0; i < (int)(s * 10.0); i++) y[i] = x[i]; }"
    )
    arguments = [array("y", "float64", ["int(s * 10)"], "out"), X_AND_Y[1], {"name": "s", "dtype": "float32"}]
    file = written(tmp_path, code, arguments, "x[0:int(s * 10)]", options={"s": 0.7})
    assert tuner.load(file, 100, device="host").shapes["y"] == (6,)
    signature = Signature.of(catalog.load(str(file)).operation)
    assert signature.result_shapes([(100,)], {"s": 0.7}) == [(6,)]


@pytest.mark.slow
def test_kernels_of_a_family_may_take_an_option_in_different_types(tmp_path: Path) -> None:
    def kernel(dtype: str, parity: int) -> str:
        (folder := tmp_path / dtype).mkdir()
        more = {"derived": {"S": "s"}, "options": {"s": 0.65}, "restrictions": [f"n % 2 == {parity}"]}
        return str(scaled(folder, dtype, factor="S", **more))

    family = [kernel("float64", 0), kernel("float32", 1)]
    for kernels in (family, family[::-1]):
        handle = tuner.dispatch(kernels, device="host")
        for n, expected in ((1000, 0.65), (1001, float(np.float32(0.65)))):
            x, y = np.ones(n), np.empty(n)
            handle(y, x)
            assert np.all(y == expected)


LOOP = "{ for (int i = 0; i < n; i++) y[i] = t * x[i]; }"


def test_an_option_that_arguments_of_two_types_take_is_refused(tmp_path: Path) -> None:
    code = f"void f(double *y, const double *x, float s, double t, int n) {LOOP}"
    taken = [{"name": "s", "dtype": "float32"}, {"name": "t", "dtype": "float64", "value": "s"}]
    file = written(tmp_path, code, [*X_AND_Y, *taken], "s * x", options={"s": 0.65})
    told = r"f.yaml:\d+: .*t takes the option s as float64, and s as float32, .*one dtype, or an option for each"
    with pytest.raises(SpaceError, match=told):
        catalog.load(str(file))


def test_a_default_that_the_argument_cannot_hold_is_refused(tmp_path: Path) -> None:
    code = f"void f(double *y, const double *x, int t, int n) {LOOP}"
    file = written(tmp_path, code, [*X_AND_Y, {"name": "t", "dtype": "int32"}], "t * x", options={"t": 0.5})
    with pytest.raises(SpaceError, match=r"options.t: 0.5 does not fit the argument t, which is int32; write another"):
        catalog.load(str(file))


def test_an_option_that_a_scalar_takes_as_its_value_must_fit_it(tmp_path: Path) -> None:
    code = f"void f(double *y, const double *x, int t, int n) {LOOP}"
    arguments = [*X_AND_Y, {"name": "t", "dtype": "int32", "value": "s"}]
    file = written(tmp_path, code, arguments, "s * x", options={"s": 1})
    with pytest.raises(RequestError, match=r"option s = 0.5 does not fit the kernel's int32"):
        tuner.load(file, 1000, options={"s": 0.5}, device="host")
