"""A tolerance that cannot tell a lower precision is refused, or named where a single number is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import SpaceError
from tuner.measure.answers.referee import Referee
from tuner.measure.verify import input_sets, precision
from tuner.space import dtypes
from tuner.space.answers.cache import ReferenceCache
from tuner.space.dtypes import DTYPES
from tuner.space.values.rounded import narrower, rounded

SUM = """
void f(real *y, const real *x, int n) {
    for (int row = 0; row < rows; row++) {
        real sum = 0;
        for (int i = 0; i < n; i++) sum += x[(long)row * n + i];
        y[row] = sum;
    }
}
"""
C_TYPES = {"float32": "float", "float64": "double", "float16": "_Float16"}


def sums(folder: Path, rows: int, tolerance: Any, dtype: str = "float32", **more: Any) -> Path:
    """Writes the sums of rows of n numbers."""
    reference = more.pop("reference", "sum(x, axis=1)")
    fill = {"fill": more.pop("fill")} if "fill" in more else {}
    arguments = [array("y", dtype, [rows], "out"), array("x", dtype, [rows, "n"], **fill)]
    code = SUM.replace("real", C_TYPES.get(dtype, "float")).replace("rows", str(rows))
    keys = {} if tolerance is None else {"tolerance": tolerance}
    return written(folder, code, arguments, reference, **{**keys, **more})


def verdict(file: Path, device: Device, size: str) -> precision.PrecisionVerdict:
    space = catalog.load(str(file))
    scope, referee = scope_of(space, device, size), Referee(device, space, ReferenceCache())
    return precision.check(referee, scope, input_sets.draw(referee, scope, 0))


@pytest.mark.slow
def test_a_sum_whose_tolerance_hides_halves_says_so_in_its_record_and_at_the_end(tune: Tune, tmp_path: Path) -> None:
    file = sums(tmp_path, 1, "4 * n * epsilon")
    done = tune(file, "1000000", "--device", "host", "--json")
    assert done.status == 0, done.err
    record = tune("best", file, "1000000", "--device", "host", "--json").json["record"]
    assert "inputs rounded to TF32 of y" in record["accepted_mutants"]
    assert "the tolerance would also accept " in done.err
    assert "inputs rounded to TF32 of y" in done.err
    assert any("inputs rounded to TF32 of y" in warning for warning in done.json["warnings"])
    tight = sums(tmp_path, 1, "8 * epsilon * sqrt(n * (32 + log2(n)))")  # the bound of a tree, as the page has it
    assert tune(tight, "1000", "--device", "host").status == 0
    assert tune("best", tight, "1000", "--device", "host", "--json").json["record"]["accepted_mutants"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tolerance", "size", "fill", "kind"),
    [
        ("1024 * n * epsilon", "20000", {"uniform": [-1, 1]}, "an output rounded"),
        (0.03, "1000", {"uniform": [0, 1]}, "an output of inputs that are rounded"),
    ],
)
def test_where_several_elements_are_compared_such_a_tolerance_ends_the_run(
    tolerance: Any, size: str, fill: Any, kind: str, tune: Tune, tmp_path: Path
) -> None:
    file = sums(tmp_path, 40, tolerance, fill=fill)
    done = tune(file, size, "--device", "host")
    assert (done.status, done.out) == (2, "")
    assert f"error: {file}: operation.tolerance: y: {kind} to TF32 would be accepted" in done.err
    word = "rounded_inputs" if "inputs" in kind else "rounded_outputs"
    assert f"or write `accept: [{word}]` if that is intended" in done.err
    done = tune(sums(tmp_path, 40, tolerance, fill=fill, accept=[word]), size, "--device", "host")
    assert done.status == 0, done.err
    assert f"{word.removeprefix('rounded_')} rounded to TF32 of y" in done.err


LADDER = {
    "float64": ["float32"],
    "float32": ["TF32", "bfloat16"],
    "float16": ["bfloat16"],
    "bfloat16": ["scaled e4m3"],
    "complex128": ["float32"],
    "complex64": ["TF32", "bfloat16"],
}


@pytest.mark.parametrize("dtype", LADDER)
def test_each_type_is_rounded_one_step_down(dtype: str, host: Device, tmp_path: Path) -> None:
    code = "void f(void *y, const void *x, int n) { (void)y, (void)x, (void)n; }"
    arguments = [array("y", dtype, ["n"], "out"), array("x", dtype, ["n"])]
    found = verdict(
        written(tmp_path, code, arguments, "2 * x", tolerance=1, accept=["rounded_inputs", "rounded_outputs"]),
        host,
        "999",
    )
    assert found.accepted == [
        *(f"outputs rounded to {name} of y" for name in LADDER[dtype]),
        *(f"inputs rounded to {name} of y" for name in LADDER[dtype]),
    ]
    tight = verdict(written(tmp_path, code, arguments, "2 * x", tolerance={"rtol": "epsilon"}), host, "999")
    assert (tight.accepted, tight.untried) == ([], [])
    with pytest.raises(SpaceError, match="would be accepted") as refusal:
        verdict(written(tmp_path, code, arguments, "2 * x", tolerance=1), host, "999")
    advised = {"ulp": int(str(refusal.value).partition("{ulp: ")[2][0])}
    assert verdict(written(tmp_path, code, arguments, "2 * x", tolerance=advised), host, "999").accepted == []


def test_rounding_is_to_the_nearest_and_ties_to_even() -> None:
    numbers = np.array(
        [1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11 - 2**-20, 1.5, 0, np.inf, -np.inf, 2.0**-130], np.float32
    )
    found = rounded(numbers, DTYPES["float32"], 10)
    assert found.tolist() == [1, 1 + 2**-9, -1 - 2**-10, 1.5, 0, np.inf, -np.inf, 2.0**-130]
    assert np.isnan(rounded(np.array([np.nan], np.float32), DTYPES["float32"], 10)).all()
    halves = np.random.default_rng(1).standard_normal(1000).astype(np.float16)
    through = halves.astype(DTYPES["bfloat16"].numpy).astype(np.float16)
    assert np.array_equal(rounded(halves, DTYPES["float16"], 7), through)
    assert [step.name for step in narrower(dtypes.of(np.dtype("complex64")))] == LADDER["complex64"]
    assert narrower(DTYPES["int32"]) == narrower(DTYPES["float8_e4m3fn"]) == ()


def test_few_elements_are_no_proof_against_a_tolerance(host: Device, tmp_path: Path) -> None:
    code = "void f(float *y, const float *x, int n) { (void)y, (void)x, (void)n; }"
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    for size, bound in (("2", 2.0**-11), ("2000", 2.0**-10)):  # the largest error of numbers below 1.5 is 2**-11
        file = written(tmp_path, code, arguments, "x", tolerance=bound)
        if size == "2":
            assert verdict(file, host, size).accepted[0] == "outputs rounded to TF32 of y"
            continue
        with pytest.raises(SpaceError, match="rounded to TF32 would be accepted"):
            verdict(file, host, size)


def test_a_default_tolerance_of_halves_is_named_and_ends_nothing(host: Device, tmp_path: Path) -> None:
    file = sums(tmp_path, 40, None, "float16", reference="sum(x, axis=1)")
    assert "outputs rounded to bfloat16 of y" in verdict(file, host, "7").accepted


def test_what_rounding_does_not_change_is_not_named(host: Device, tmp_path: Path) -> None:
    found = verdict(sums(tmp_path, 4, 0.1, fill={"integers": [-4, 4]}), host, "10")
    assert (found.accepted, found.untried) == ([], [])


SLOW = """
import time
def expected(x):
    time.sleep({seconds})
    return x.astype("float64").sum(axis=1)
"""


@pytest.mark.slow
def test_answers_of_rounded_inputs_are_left_out_where_they_take_long(
    host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "MOST_SECONDS", 0.5)
    file = sums(tmp_path, 1, "n", reference={"python": "check.py:expected"})
    (tmp_path / "check.py").write_text(SLOW.format(seconds=0))
    assert verdict(file, host, "100").untried == []
    assert "inputs rounded to TF32 of y" in verdict(file, host, "100").accepted
    (tmp_path / "slow").mkdir()
    file = sums(tmp_path / "slow", 1, "n", reference={"python": "check.py:expected"})
    (tmp_path / "slow" / "check.py").write_text(SLOW.format(seconds=0.6))
    assert verdict(file, host, "100").untried == ["rounded_inputs of y"]


def test_a_function_that_refuses_rounded_inputs_ends_nothing(host: Device, tmp_path: Path) -> None:
    file = sums(tmp_path, 1, "epsilon * n", reference={"python": "check.py:expected"})
    (tmp_path / "check.py").write_text(
        "def expected(x):\n    assert (x != x.astype('float16')).any(), 'no floats'\n"
        "    return x.astype('float64').sum(axis=1)\n"
    )
    assert verdict(file, host, "100").untried == ["rounded_inputs of y"]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("fill", [None, {"normal": [0, 1]}, {"uniform": [0, 1]}])
def test_doubles_that_are_drawn_are_no_floats(dtype: str, fill: Any, host: Device, tmp_path: Path) -> None:
    code = "void f(void *y, const void *x, int n) { (void)y, (void)x, (void)n; }"
    drawn = array("x", dtype, ["n"], **({} if fill is None else {"fill": fill}))
    space = catalog.load(str(written(tmp_path, code, [array("y", dtype, ["n"], "out"), drawn], "x")))
    scope = scope_of(space, host, "10000")
    inputs = input_sets.draw(Referee(host, space, ReferenceCache()), scope, 0)
    numbers = inputs.contents["x"].array().view(np.float64)
    assert np.mean(numbers.astype(np.float32) == numbers) < 0.001
    if fill is None:
        assert np.abs(numbers).min() >= 0.5
        assert np.abs(numbers).max() <= 1.5
        last_bits = np.abs(numbers[np.abs(numbers) < 1]).view(np.int64) & 1
        assert last_bits.mean() == pytest.approx(0.5, abs=0.02)


def test_an_output_of_fewer_bits_than_rounded_inputs_says_nothing_about_them(host: Device, tmp_path: Path) -> None:
    """A right float16 output is off by as much as TF32 inputs make it; bfloat16 ones make it worse."""
    code = "void f(void *y, const void *x, int n) { (void)y, (void)x, (void)n; }"
    arguments = [array("y", "float16", ["n"], "out"), array("x", "float32", ["n"])]
    wide = written(tmp_path, code, arguments, "x", tolerance={"rtol": "2 * epsilon"})
    assert verdict(wide, host, "1000") == precision.PrecisionVerdict()
    wider = written(tmp_path, code, arguments, "x", tolerance={"rtol": 0.1}, accept=["rounded_inputs"])
    assert verdict(wider, host, "1000").accepted == [
        "outputs rounded to bfloat16 of y",
        "inputs rounded to bfloat16 of y",
    ]


@pytest.mark.slow
def test_a_kernel_of_doubles_that_computes_in_floats_is_wrong(tune: Tune, tmp_path: Path) -> None:
    code = "void f(double *y, const double *x, int n) { for (int i = 0; i < n; i++) y[i] = a ? x[i] : (float)x[i]; }"
    arguments = [array("y", "float64", ["n"], "out"), array("x", "float64", ["n"])]
    done = tune(written(tmp_path, code, arguments, "x", parameters={"a": [0, 1]}), "1000", "--device", "host", "--json")
    assert (done.status, done.json["failed"]) == (0, {"wrong result": 1}), done.err
    assert done.json["best"]["config"] == {"a": 1}
