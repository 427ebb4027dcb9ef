"""A reference by a kernel or a configuration that is itself wrong is named, and condemns nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tuner
from helpers.operations import array, written
from helpers.processes import Done, Tune
from tuner import paths
from tuner.tuning.progress import Quiet

C = """
void f(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = 2 * x[i] SMALL;
    MORE
}
"""
NAIVE_C = "void naive(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = i == 7 ? 0 : 2 * x[i]; }"
GPU = """
#include "portable.h"
KERNEL void f(GLOBAL float *y, GLOBAL const float *x, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i] SMALL;
    if (i == 7) { MORE }
}
"""
NAIVE_GPU = """
#include "portable.h"
KERNEL void naive(GLOBAL float *y, GLOBAL const float *x, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = i == 7 ? 0 : 2 * x[i];
}
"""
ROUNDED = "* (1 + 1e-7f * a)"  # so that no two configurations have the same bits
DEVICES = {"c": "host", "opencl": "opencl", "cuda": "cuda"}


class Steps(Quiet):
    """What a run tells of its steps, and its messages."""

    def __init__(self) -> None:
        self.steps, self.notes = list[str](), list[str]()
        super().__init__(self.notes.append)

    def begun(self, step: str) -> None:
        self.steps.append(step)


def space(folder: Path, more: str, reference: Any = None, language: str = "c", **keys: Any) -> Path:
    """Writes a kernel of six configurations, `a` from 1 to 6, of which 1 gives the answers; `more` is its fault."""
    code = (C if language == "c" else GPU).replace("MORE", more).replace("SMALL", ROUNDED)
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    geometry = {} if language == "c" else {"block": [64], "grid_divisors": {"x": [64]}}
    keys = {"parameters": {"a": [1, 2, 3, 4, 5, 6]}, "tolerance": 1e-4, **keys}
    return written(folder, code, arguments, reference or {"config": {"a": 1}}, language, **geometry, **keys)


def tuned(tune: Tune, file: Path, language: str = "c", *more: str) -> Done:
    return tune(file, "1000", "--device", DEVICES[language], *more)


def check_doubted(done: Done, tune: Tune, file: Path, *parts: str) -> None:
    assert (done.status, done.out) == (1, ""), done.err
    for part in ("f: the reference is doubtful: ", "nothing is stored", *parts):
        assert part in done.err
    assert tune("best", file, "1000", "--device", "host", "--json").json["record"] is None
    best = tune("best", file, "1000", "--device", "host").out
    assert "the reference is doubtful: " in best, "another search would store nothing either"
    assert "correct the kernel, or write another `reference:`" in best
    assert "again" not in best


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_configuration_that_alone_is_wrong_in_one_element_is_named(language: str, tune: Tune, tmp_path: Path) -> None:
    file = space(tmp_path, "if (a == 1) y[7] += 1;", language=language)
    for more in ((), ("--json",)):  # the second run measures nothing again
        done = tuned(tune, file, language, *more)
        assert (done.status, done.out == "") == (1, not more), done.err
        assert "f: the reference is doubtful: 5 configurations disagree with the configuration a=1, and 5" in done.err
        assert "0 others agree with it" in done.err
    data = done.json
    assert (data["best"], data["stored"]) == (None, False)
    assert any("the reference is doubtful" in warning for warning in data["warnings"])
    assert not "".join(file.read_text() for file in paths.state().glob("rejected/**/*.jsonl"))  # nobody is condemned


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_reference_kernel_that_is_wrong_is_named(language: str, tune: Tune, tmp_path: Path) -> None:
    source = tmp_path / ("naive.c" if language == "c" else "naive.cu")
    source.write_text(NAIVE_C if language == "c" else NAIVE_GPU)
    geometry = {} if language == "c" else {"grid": ["ceil_div(n, 64)"], "block": [64]}
    file = space(tmp_path, "", {"kernel": "naive", "source": source.name, **geometry}, language)
    done = tuned(tune, file, language)
    assert (done.status, done.out) == (1, ""), done.err
    assert "the reference is doubtful: 6 configurations disagree with the kernel naive, and 6" in done.err


@pytest.mark.slow
def test_a_reference_that_is_wrong_on_some_inputs_alone_is_named(tune: Tune, tmp_path: Path) -> None:
    file = space(tmp_path, "if (x[9] < 0 && a == 1) y[7] += 1;")
    check_doubted(tuned(tune, file), tune, file, "5 configurations disagree with the configuration a=1")


@pytest.mark.slow
def test_a_reference_that_is_wrong_with_other_options_alone_is_named(tune: Tune, tmp_path: Path) -> None:
    body = "for (int i = 0; i < n; i++) y[i] = b * x[i]; if (a == 1 && b != 1) y[7] += 1;"
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"]), {"name": "b", "dtype": "float32"}]
    keys: dict[str, Any] = {"options": {"b": 1}, "parameters": {"a": [1, 2, 3, 4]}}
    code = f"void f(float *y, const float *x, float b, int n) {{ {body} }}"
    file = written(tmp_path, code, arguments, {"config": {"a": 1}}, **keys)
    check_doubted(tuned(tune, file), tune, file, "3 configurations disagree with the configuration a=1")


RIGHT = {
    "a minority that is wrong alike": "if (a == 5 || a == 6) y[7] += 1;",
    "as many that are wrong alike": "if (a > 3) y[7] += 1;",
    "two camps as large as each other": "if (a == 3 || a == 4) y[7] += 1; if (a == 5 || a == 6) y[7] += 2;",
    "each wrong in its own way": "if (a != 1) y[7] += a;",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", RIGHT)
def test_wrong_configurations_accuse_no_reference(what: str, tune: Tune, tmp_path: Path) -> None:
    file = space(tmp_path, RIGHT[what])
    done = tuned(tune, file, "c", "--json")
    assert done.status == 0, done.err
    assert "doubtful" not in done.err
    assert done.json["failed"].keys() == {"wrong result"}


@pytest.mark.slow
def test_the_larger_of_two_camps_accuses_only_if_another_set_agrees(tune: Tune, tmp_path: Path) -> None:
    knobs: dict[str, Any] = {"parameters": {"a": [1, 2, 3], "k": [1, 2, 3]}, "restrictions": ["k > 1 or a == 1"]}
    done = tuned(tune, space(tmp_path, "y[7] += k == 3 ? a : -k;", {"config": {"a": 1, "k": 1}}, **knobs))
    assert done.status == 1, done.err
    assert "6 configurations disagree with the configuration a=1 k=1, and 3 of them agree" in done.err
    assert "have k=2, and no others do: if k changes what is computed" in done.err
    fixed = tmp_path / "fixed"
    fixed.mkdir()
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"], fill="arange")]
    keys: dict[str, Any] = {"parameters": {"a": [1, 2, 3, 4, 5, 6]}, "tolerance": 1e-3}
    code = C.replace("MORE", "if (a == 1) y[7] += 1; if (a == 6) y[7] += 2;").replace("SMALL", "")
    listener = Steps()
    file = written(fixed, code, arguments, {"config": {"a": 1}}, **keys)
    assert tuner.tune(str(file), 1000, progress=listener).best == {"a": 1}
    assert "testing the reference: comparing 5 configurations that disagree with it" in listener.steps
    assert "doubtful" not in "".join(listener.notes)


@pytest.mark.slow
def test_a_search_in_which_all_but_the_reference_are_wrong_alike_is_given_up(tune: Tune, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"parameters": {"a": [*range(1, 14)], "b": [1, 2]}}
    code = C.replace("MORE", "if (a == 1 && b == 1) y[7] += 1;").replace("SMALL", "")
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    file = written(tmp_path, code, arguments, {"config": {"a": 1, "b": 1}}, **keys)
    done = tune(file, "1000", "--device", "host")
    assert done.status == 1, done.err
    assert "configurations all compute the same wrong value for the same element: y[7]" in done.err
    assert "the reference is doubtful" in done.err
