"""Parameters whose values give the same code are named by `tune validate --compile`, and after a search.

So are values that do not compile.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.operations import array, written
from helpers.processes import Tune

ARGUMENTS = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
C = "void f(float *y, const float *x, int n) {{\n    for (int i = 0; i < n; i++) {{ {} }}\n}}\n"
CUDA = 'extern "C" __global__ void {} f(float *y, const float *x, int n) {{ {} }}'
COPY = "y[threadIdx.x] = a * x[threadIdx.x];"
KNOBS = {"knob": [1, 2, 4], "a": [1, 2]}
DEAD: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a value that the compiler folds": ("c", C.format("y[i] = a * x[i] + (knob > 0 ? 0 : 1);"), {}),
    "a name of a kernel": (
        "cuda",
        f"template <int knob> {CUDA.format('', COPY)}".replace('extern "C" ', ""),
        {"kernel": "f<{knob}>"},
    ),
    "an option without effect": (
        "cuda", CUDA.format("", COPY),
        {"compile_options": {"cuda": ["-DUNUSED={knob}"]}},
    ),
    "a limit that the registers do not reach": (
        "cuda", CUDA.format("", COPY),
        {"parameters": {"knob": [32, 64, 128], "a": [1, 2]}, "compile_options": {"cuda": ["-maxrregcount={knob}"]}},
    ),
    "unrolling of nothing": (
        "cuda", CUDA.format("", f"\n#pragma unroll knob\nfor (int i = 0; i < 1; i++) {COPY}"), {}
    ),
}  # fmt: skip
ALIVE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "code": ("c", C.format("y[i] = a * knob * x[i];"), {}),
    "code of one choice": ("c", C.format("y[i] = a == 2 ? knob * x[i] : x[i];"), {"default": {"knob": 1, "a": 1}}),
    "a limit that the registers reach": (
        "cuda", CUDA.format("", "float s[40]; for (int i = 0; i < 40; i++) s[i] = x[i * n]; __syncthreads(); "
                            "for (int i = 0; i < 40; i++) y[i] = s[39 - i] * a;"),
        {"parameters": {"knob": [16, 64], "a": [1, 2]}, "compile_options": {"cuda": ["-maxrregcount={knob}"]}},
    ),
    "a launch": (
        "cuda", CUDA.format("", "y[blockIdx.x] = a * x[blockIdx.x];"), {"grid": ["n // knob"]}
    ),
    "an argument": (
        "c", "void f(float *y, const float *x, int limit, int n) { y[n - 1] = a * x[limit]; }",
        {"limit": {"name": "limit", "dtype": "int32", "value": "knob"}},
    ),
}  # fmt: skip


def of(folder: Path, language: str, code: str, limit: Any = None, **more: Any) -> Path:
    launch = {} if language == "c" else {"grid": [1], "block": [64]}
    arguments = [*ARGUMENTS, limit] if limit else ARGUMENTS
    return written(folder, code, arguments, "x", language, **{"parameters": KNOBS, **launch, **more})


@pytest.mark.slow
@pytest.mark.parametrize("what", DEAD)
def test_a_parameter_whose_values_give_the_same_code_is_named(what: str, tmp_path: Path, tune: Tune) -> None:
    language, code, more = DEAD[what]
    done = tune("validate", of(tmp_path, language, code, **more), "64", "--compile", "--json")
    assert done.status == 0, done.err
    (dead,) = [warning for warning in done.json["warnings"] if "the same code" in warning]
    values = ", ".join(map(str, more.get("parameters", KNOBS)["knob"]))
    assert f"parameters.knob: {values} give the same code and the same launch with 2 choices of the other" in dead
    assert "at n=64, so they make no difference there; try a larger size, such as n=1024" in dead
    assert f"warning: {dead}\n" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("what", ALIVE)
def test_a_parameter_that_changes_anything_is_not(what: str, tmp_path: Path, tune: Tune) -> None:
    language, code, more = ALIVE[what]
    done = tune("validate", of(tmp_path, language, code, **more), "64", "--compile", "--json")
    assert done.status == 0, done.err
    assert not [warning for warning in done.json["warnings"] if "the same code" in warning]


@pytest.mark.slow
def test_values_that_do_not_compile_are_named_with_the_compilers_words(tmp_path: Path, tune: Tune) -> None:
    code = CUDA.format("", f'static_assert(knob < 3 && a != 1, "too much"); {COPY}')
    knobs, default = {"knob": [1, 2, 3, 4], "a": [1, 2, 3]}, {"knob": 1, "a": 2}
    file = of(tmp_path, "cuda", code, parameters=knobs, default=default, block=["32 * knob"])
    done = tune("validate", file, "64", "--compile", "--json")
    assert done.status == 0, done.err
    of_knob, of_a = done.json["warnings"]
    assert "parameters.knob: with the default's other values, 3, 4 cannot be compiled: " in of_knob
    assert 'error: static assertion failed with "too much"; remove what never compiles' in of_knob
    assert "parameters.a: with the default's other values, 1 cannot be compiled: " in of_a


@pytest.mark.slow
def test_a_search_names_it_at_its_end(tmp_path: Path, tune: Tune) -> None:
    code = C.format("y[i] = a * x[i] + (knob > 0 ? 0 : 1);")
    file = of(tmp_path, "c", code, parameters={"knob": [1, 4], "a": [1]})
    done = tune(file, "64", "--repeats", "3", "--json")
    assert done.status == 0, done.err
    message = "parameters.knob: 1, 4 give the same code and the same launch with one choice of the other parameters"
    assert message in done.err
    assert any(message in warning for warning in done.json["warnings"])


@pytest.mark.slow
def test_opencl_is_told_by_its_text(tmp_path: Path, tune: Tune) -> None:
    text = "__kernel void f(__global float *y, __global const float *x, int n) {{ {} }}"
    body = "if (get_global_id(0) < n) y[get_global_id(0)] = x[get_global_id(0)];\n#if knob > 0\n#endif\n"
    file = written(
        tmp_path, text.format(body), ARGUMENTS, "x", "opencl", parameters={"knob": [1, 2]}, grid=[1], block=[64]
    )
    done = tune(file, "64", "--device", "opencl", "--repeats", "3", "--json")
    assert done.status == 0, done.err
    assert "parameters.knob: 1, 2 give the same code" in done.err
