"""Options, inputs and terms that no output shows are found before a search, and options are then made to show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.verify import blindness
from tuner.measure.verify.blindness import Sight
from tuner.measure.workbench import Workbench

WAVE = "v * v * (x[2:] - 2 * x[1:-1] + x[:-2])"  # a wave's spatial term, of one dimension
IN_C = "v[i] * v[i] * (x[i + 2] - 2 * x[i + 1] + x[i])"
LONG = "+".join(30 * ["(1+1+1+1+1+1+1+1+1+1+1+1+1+1)"])
HUGE = {"fill": {"uniform": [1500, 4500]}}


def wave(folder: Path, term: str, reference: str, speed: Any, **more: Any) -> Path:
    """A step of a wave equation, whose kernel adds `term` to the last two states."""
    code = f"""void f(float *y, const float *x, const float *last, const float *v, float s, int n) {{
        for (int i = 0; i < n; i++) y[i] = 2 * x[i + 1] - last[i] + {term};
    }}"""
    arguments = [
        array("y", "float32", ["n"], "out"),
        array("x", "float32", ["n + 2"]),
        array("last", "float32", ["n"]),
        array("v", "float32", ["n"], **speed),
        {"name": "s", "dtype": "float32"},
    ]
    return written(folder, code, arguments, f"2 * x[1:-1] - last + {reference}", **more)


@pytest.fixture(autouse=True)
def no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, nothing stays untried."""
    monkeypatch.setattr(blindness, "MOST_SECONDS", 600.0)


def sight(file: Path, device: Device, size: str = "100") -> Sight:
    space = catalog.load(str(file))
    return Workbench(device, space, scope_of(space, device, size)).check_sight()


@pytest.mark.parametrize(
    ("options", "reference", "speed", "unseen"),
    [
        (1e-8, f"s * {WAVE}", HUGE, []),
        (0.25, f"s * {WAVE}", {}, []),
        (0.0, f"s * {WAVE}", {}, []),  # the finals verify with another one
        (1e-8, f"s * {WAVE}", {}, []),  # and with this one
        (0.25, f"1.0e-8 * s * {WAVE}", {}, ["option s", "argument v", f"term `1e-08 * s * {WAVE}`"]),
        (1e-8, f"s * {WAVE} + 1.0e-7 * x[1:-1]", HUGE, ["term `1e-07 * x[1:-1]`"]),
    ],
)
def test_what_no_output_shows_is_named_unless_the_finals_show_it(
    options: float, reference: str, speed: Any, unseen: list[str], host: Device, tmp_path: Path
) -> None:
    assert sight(wave(tmp_path, IN_C, reference, speed, options={"s": options}), host).unseen == unseen


@pytest.mark.parametrize(
    ("reference", "fill", "unseen"),
    [
        ("clip(x + last, -9, 255)", {}, ["bounds of `clip(x + last, -9, 255)`"]),
        ("clip(x + last, -9, 255)", {"normal": [0, 300]}, []),
        ("abs(x) * last", "ones", ["factor `last`"]),
        (f"abs(x)*last*({LONG})", "ones", []),  # with blanks, it is too long without a part
        ("where(x > 0, x, last)", {"uniform": [0.5, 1]}, []),
        ("s * x * last if s != 0 else x", "ones", []),  # of conditions, one branch is computed
    ],
)
def test_parts_of_an_expression_that_change_no_output_are_named(
    reference: str, fill: Any, unseen: list[str], host: Device, tmp_path: Path
) -> None:
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"]), array("last", "float32", ["n"])]
    arguments[2] |= {"fill": fill} if fill else {}
    arguments.append({"name": "s", "dtype": "float32"})
    code = "void f(float *y, const float *x, const float *last, float s, int n) {}"
    assert sight(written(tmp_path, code, arguments, reference, options={"s": 1.0}), host).unseen == unseen


def test_what_is_not_tried_is_not_taken_for_seen(host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what has no answer, nor what only the smaller tolerance of a smaller size shows, nor what takes long."""
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"]), array("v", "float32", ["2 * n"])]
    arguments.append({"name": "s", "dtype": "float32"})
    code = "void f(float *y, const float *x, const float *v, float s, int n) {}"
    more = {"options": {"s": 0.01}, "tolerance": "1.0e-9 * n"}
    file = written(tmp_path, code, arguments, "s * x + 1.0e-4 * (v[:n] - v[n:]) * x", **more)
    small, large = sight(file, host), sight(file, host, "1000000")
    assert (small.unseen, large.unseen) == ([], [])
    assert "argument v" in {*large.untried} - {*small.untried}
    monkeypatch.setattr(blindness, "MOST_SECONDS", 0.0)
    late = sight(file, host)
    assert {"option s", "argument x", "argument v"} <= {*late.untried}
    (sentence,) = late.sentences
    assert sentence.startswith("verification did not try other values of option s: the expected outputs take too long")


def growing(folder: Path, reference: str, term: str = "s", **more: Any) -> Path:
    """A kernel that grows fast with an option, as what is computed with too long a time step does."""
    code = (
        f"#include <math.h>\nvoid f(float *y, const float *x, float s, int n) {{ for (int i = 0; i < n; i++) {term}; }}"
    )
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"]), {"name": "s", "dtype": "float32"}]
    return written(folder, code, arguments, reference, options={"s": 1.0}, tolerance={"rtol": 1e-4}, **more)


def options_beside(file: Path, device: Device, is_examined: bool = False) -> Mapping[str, float] | None:
    """The options with which kernels are verified, too."""
    space = catalog.load(str(file))
    workbench = Workbench(device, space, scope_of(space, device, "100"))
    if is_examined:
        workbench.check_sight()
    other = workbench.with_other_options()
    return None if other is None else other.scope.options


def test_answers_that_are_not_finite_are_told_and_options_avoid_them(host: Device, tmp_path: Path) -> None:
    file = growing(tmp_path, "x * exp(80 * s)")
    assert options_beside(file, host) == {"s": 2 / 3}, "also if nobody has looked"
    smaller = sight(file, host)
    assert (smaller.unseen, smaller.untried, smaller.sentences) == ([], [], [])
    assert smaller.options == {"s": 2 / 3}
    file = growing(tmp_path, "x * exp(43.4 * (s + 1 / s))")
    assert options_beside(file, host) is None
    neither = sight(file, host)
    assert options_beside(file, host, is_examined=True) is None, "its own value is no other one"
    assert (neither.untried, neither.options) == (["option s"], {"s": 1.0})
    assert "other values of option s: with 1.3 and 0.667, expected outputs are NaN" in neither.sentences[0]
    assert "if s is always 1, write `value: 1` at its argument" in neither.sentences[0]
    logarithms = sight(growing(tmp_path, "s * log(x)"), host).sentences
    assert [sentence[:10] for sentence in logarithms] == ["y: about 4"], "half of the inputs are negative"


@pytest.mark.slow
def test_kernels_are_verified_with_the_option_at_which_answers_are_finite(tmp_path: Path, tune: Tune) -> None:
    right = tune(growing(tmp_path, "x * exp(80 * s)", "y[i] = x[i] * exp(80. * s)"), "100")
    assert right.status == 0, right.err
    deaf = tune(growing(tmp_path, "x * exp(80 * s)", "y[i] = x[i] * exp(80.)"), "100")
    assert (deaf.status, "wrong result: with s=0.66666" in deaf.err) == (1, True), deaf.err


@pytest.mark.slow
def test_a_kernel_without_a_tiny_term_is_refused_and_a_right_one_is_told_what_no_output_shows(
    tmp_path: Path, tune: Tune
) -> None:
    tiny = {"options": {"s": 1e-8}}
    done = tune(wave(tmp_path, "0", f"s * {WAVE}", {}, **tiny), "100")
    assert (done.status, "wrong result: with s=1.24" in done.err) == (1, True), done.err
    assert "so the finals verify with 1.24e-05, too, where outputs show it" in done.err
    file = wave(tmp_path, f"1e-12f * x[i] + s * {IN_C}", f"1.0e-12 * x[1:-1] + s * {WAVE}", {}, **tiny)
    done = tune(file, "100", "--json")
    assert done.status == 0
    (sentence,) = [warning for warning in done.json["warnings"] if "does not see" in warning]
    assert sentence.startswith("verification does not see term `1e-12 * x[1:-1]`: no output changes by more than its")
    assert "change of term `1e-12 * x[1:-1]`" in tune("best", file, "100", "--json").json["record"]["skipped_mutants"]


@pytest.mark.parametrize(("limit", "is_told"), [(8, True), (4, False)])
def test_outputs_that_are_nearly_all_equal_are_told(limit: int, is_told: bool, host: Device, tmp_path: Path) -> None:
    """None of the integers drafted for an input, 0 to 8, exceeds 8, so a kernel that writes zeros passes."""
    code = f"void f(int *y, const int *x, int n) {{ for (int i = 0; i < n; i++) y[i] = x[i] > {limit}; }}"
    arguments = [array("y", "int32", ["n"], "out"), array("x", "int32", ["n"])]
    file = written(tmp_path, code, arguments, f"where(x > {limit}, 1, 0)")
    told = [sentence for sentence in sight(file, host, "5000").sentences if "expected numbers are 0" in sentence]
    assert len(told) == is_told
