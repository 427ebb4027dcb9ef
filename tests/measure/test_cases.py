"""Inputs decide the conditions of a kernel, or it is said that they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.kernels import outcome_of
from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.workbench import Workbench
from tuner.space.dtypes import DTYPES, spelling
from tuner.space.values import filling


def masked(folder: Path, dtype: str, value: str, reference: str = "where(mask, x, 0)", fill: Any = None) -> Path:
    """A kernel that writes `value`; `v` is the element of x, `m` that of the mask."""
    element = f"float v = x[i]; {spelling(dtype, 'c')} m = mask[i]; y[i] = {value};"
    code = f"void f(float *y, const float *x, const {spelling(dtype, 'c')} *mask, int n) {{\n"
    mask = array("mask", dtype, ["n"], **({} if fill is None else {"fill": fill}))
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"]), mask]
    return written(folder, f"{code}for (int i = 0; i < n; i++) {{ {element} }} }}", arguments, reference)


def missed(file: Path, device: Device, size: str = "500") -> list[str]:
    """What is said of the reference's conditions."""
    space = catalog.load(str(file))
    return Workbench(device, space, scope_of(space, device, size)).missed_cases


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int8", "bool"])
def test_a_kernel_that_ignores_a_mask_of_whole_numbers_is_wrong(dtype: str, tmp_path: Path, host: Device) -> None:
    assert outcome_of(catalog.load(str(masked(tmp_path, dtype, "m ? v : 0"))), host, "500") is None
    assert outcome_of(catalog.load(str(masked(tmp_path, dtype, "v"))), host, "500") == "wrong result"
    assert missed(tmp_path / "f.yaml", host) == []


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_whole_numbers_are_0_in_one_of_two_sets_and_else_as_far_from_it_as_can_be_told(dtype: str) -> None:
    first, second = (filling.standard(DTYPES[dtype], (90_000,), seed, 0).array() for seed in (1, 0))
    numbers = set(range(0 if dtype == "uint8" else -8, 9))
    assert (set(first.tolist()), set(second.tolist())) == (numbers - {0}, numbers)
    assert (second == 0).mean() == pytest.approx(1 / 9, abs=0.01)


@pytest.mark.slow
def test_a_command_says_which_condition_no_input_decides(tmp_path: Path, tune: Tune) -> None:
    file = masked(tmp_path, "float32", "v", "where(mask != 0, x, 0)")
    said = (
        "reference: `mask != 0` is true for every element of these inputs, so a kernel that ignores it passes; "
        "give mask a `fill:` such as {choice: [0, 1]} that makes it both true and false"
    )
    done = tune(file, "500", "--device", "host")
    assert (done.status, done.err.count(said)) == (0, 1)
    assert tune("run", file, "500", "--device", "host").err.count(said) == 1
    done = tune(
        masked(tmp_path, "float32", "v", "where(mask != 0, x, 0)", {"choice": [0, 1]}), "500", "--device", "host"
    )
    assert (done.status, "reference:" in done.err, "wrong result" in done.err) == (1, False, True)


@pytest.mark.parametrize(
    ("reference", "names"),
    [
        ("where(mask, x, 0)", ["`mask` is true"]),
        ("where((x > 0) & ~(mask > 9), x, 0)", ["`mask > 9` is false"]),
        ("where(x * mask > 100, 0, x * (x > 0))", ["`x * mask > 100` is false"]),
        ("where(arange(n) < n, x, mask)", []),
        ("x * (n > 0) * (max(x) < 9)", []),
        ("x * mask", []),
    ],
)
def test_each_condition_on_arrays_counts_however_it_is_written(
    reference: str, names: list[str], tmp_path: Path, host: Device
) -> None:
    found = missed(masked(tmp_path, "float32", "v", reference), host)
    assert len(found) == len(names)
    for name, sentence in zip(names, found, strict=True):
        assert f"reference: {name} for every element of these inputs" in sentence


def test_of_a_few_elements_nothing_is_concluded(tmp_path: Path, host: Device) -> None:
    assert missed(masked(tmp_path, "float32", "v"), host, "15") == []


@pytest.mark.slow
def test_a_kernel_that_dies_of_a_zero_is_told_what_integers_hold(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "check.py").write_text("def expected(d, n):\n    return {'y': 7 // d.clip(1)}\n")
    code = "void f(int *y, const int *d, int n) { for (int i = 0; i < n; i++) y[i] = 7 / d[i]; }"

    arguments = [array("y", "int32", ["n"], "out"), array("d", "int32", ["n"])]
    file = written(tmp_path, code, arguments, {"python": "check.py:expected"})
    hint = "SIGFPE; an integer was divided by 0: d has no `fill:`, so some elements are 0; if no caller passes zeros"
    for verb in ([], ["run"]):
        assert hint in tune(*verb, file, "100").err


def test_a_divisor_that_is_zero_is_named(tmp_path: Path, host: Device) -> None:
    (sentence,) = missed(masked(tmp_path, "int32", "v", "x // 2 + 7 % mask"), host)
    assert "reference: divides by `mask`, which is 0 for some elements of these inputs" in sentence
    assert "give mask a `fill:` without zeros, such as {integers: [1, 8]}" in sentence
    assert missed(masked(tmp_path, "int32", "v", "7 // mask", {"integers": [1, 8]}), host) == []


HINT = "indices has no `fill:`, so its elements are -8 to 8; if they are indices, give indices a `fill:` of valid ones"


def gathering(folder: Path, reference: Any, language: str = "c", element: str = "float", **more: Any) -> Path:
    """A kernel that picks the elements of a table of `rows` elements, and a right reference for it."""
    (folder / "check.py").write_text("def expected(table, indices):\n    return table[indices]\n")
    takes = f"GLOBAL {element} *y, GLOBAL const {element} *table, GLOBAL const int *indices, int n"
    if language == "c":
        loop = "{ for (int i = 0; i < n; i++) y[i] = table[indices[i]]; }"
        code = "".join(f"void {name}({takes.replace('GLOBAL ', '')}) {loop}\n" for name in ("f", "g"))
    else:
        body = "{ int i = get_global_id(0); if (i < n) y[i] = table[indices[i]]; }"
        code = "".join(f"__kernel void {name}({takes.replace('GLOBAL', '__global')}) {body}\n" for name in ("f", "g"))
        more |= {"block": [64], "grid": ["ceil_div(n, 64)"]}
    dtype = {"float": "float32", "int": "int32"}[element]
    fills = {"table": more.pop("table", {}), "indices": more.pop("indices", {})}
    arguments = [
        array("y", dtype, ["n"], "out"),
        array("table", dtype, ["rows"], **fills["table"]),
        array("indices", "int32", ["n"], **fills["indices"]),
    ]
    return written(folder, code, arguments, reference, language, sizes={"n": None, "rows": 1000}, **more)


REFERENCES = ["table[indices]", "take(table, indices)", {"python": "check.py:expected"}]
KERNEL = {"kernel": "g", "grid": ["ceil_div(n, 64)"], "block": [64]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "language"),
    [*((reference, "c") for reference in [*REFERENCES, KERNEL]), (REFERENCES[0], "opencl"), (KERNEL, "opencl")],
)
def test_indices_without_a_fill_are_named_where_every_configuration_fails(
    reference: Any, language: str, tmp_path: Path, tune: Tune
) -> None:
    for verb in ([], ["run"]):
        done = tune(*verb, gathering(tmp_path, reference, language), "500")
        assert done.status == 1
        assert "is not written, or NaN; " in done.err
        assert f"{HINT}, such as {{integers: [0, rows - 1]}}" in done.err
    right = gathering(tmp_path, reference, language, indices={"fill": {"integers": [0, "rows - 1"]}})
    done = tune(right, "500")
    assert (done.status, "`fill:`" in done.err) == (0, False), done.err


@pytest.mark.slow
@pytest.mark.parametrize("reference", REFERENCES)
def test_indices_beyond_a_small_array_are_named_beside_the_words_of_numpy(
    reference: Any, tmp_path: Path, tune: Tune
) -> None:
    done = tune(gathering(tmp_path, reference), "500,rows=5", "--device", "host")
    assert done.status != 0
    assert "out of bounds for axis 0 with size 5" in done.err
    assert HINT in done.err


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["table[indices]", {"python": "check.py:expected"}])
def test_indices_into_integers_are_named_too(reference: Any, tmp_path: Path, tune: Tune) -> None:
    file = gathering(tmp_path, reference, element="int", table={"fill": "arange"})
    done = tune(file, "500", "--device", "host")
    assert (done.status, "wrong result" in done.err, HINT in done.err) == (1, True, True)


@pytest.mark.slow
def test_a_wrong_counter_that_cannot_be_a_wrong_index_gets_no_advice_about_indices(tmp_path: Path, tune: Tune) -> None:
    code = "void f(unsigned *hits, int n) { hits[0] += step * n; }"
    arguments = [array("hits", "uint32", ["1"], "inout")]
    file = written(tmp_path, code, arguments, {"config": {"step": 1}}, parameters={"step": [1, 2]})
    done = tune(file, "100", "--device", "host")
    assert ("1 failed: wrong result" in done.err, "`fill:`" in done.err) == (True, False), done.err


def test_negative_indices_in_a_reference_are_named_once(tmp_path: Path, host: Device) -> None:
    (sentence,) = missed(gathering(tmp_path, "table[indices]"), host, "500")
    assert "reference: `indices` is negative for some elements of these inputs, and indexes an array" in sentence
    assert "give indices a `fill:`, such as {integers: [0, 999]}" in sentence
    counted_from_the_end = {"fill": {"integers": [-8, 8]}}
    assert missed(gathering(tmp_path, "table[indices]", indices=counted_from_the_end), host, "500") == []


@pytest.mark.slow
def test_a_kernel_that_dies_of_an_index_is_told_what_integers_hold(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "check.py").write_text("def expected(x, indices):\n    return x * (indices > -9)\n")
    code = """void f(float *y, const float *x, const int *indices, int n) {
        for (int i = 0; i < n; i++) y[i] = x[i + 100000000L * (indices[i] < 0 ? indices[i] : 0)];
    }"""
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"]), array("indices", "int32", ["n"])]
    file = written(tmp_path, code, arguments, {"python": "check.py:expected"})
    for verb in ([], ["run"]):
        done = tune(*verb, file, "100", "--device", "host")
        assert ("SIGSEGV" in done.err or "SIGBUS" in done.err, HINT in done.err) == (True, True), done.err
