"""Options, and answers that an output cannot hold: what a kernel is verified with besides its default problem."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import RequestError
from tuner.measure.benchmark import Bench
from tuner.space.parsing import Size

C = "void f(TYPE *y, const TYPE *x, OPTION s, int n) { for (int i = 0; i < n; i++) y[i] = BODY; }"


def scaled(folder: Path, body: str, a: float, dtype: str = "float32", option: str = "float32") -> Path:
    words = {"float32": "float", "float64": "double", "int32": "int"}
    code = C.replace("BODY", body).replace("TYPE", words[dtype]).replace("OPTION", words[option])
    arguments = [array("y", dtype, ["n"], "out"), array("x", dtype, ["n"]), {"name": "s", "dtype": option}]
    return written(folder, code, arguments, "s * x", options={"s": a})


@pytest.mark.slow
@pytest.mark.parametrize("a", [0.0, 1.0, 2.0, 0.5, -1.0, 0.01])
def test_a_kernel_that_ignores_its_option_is_refused_whatever_the_default(
    a: float, host: Device, tmp_path: Path
) -> None:
    assert failure(scaled(tmp_path, "s * x[i]", a), host) is None
    found = failure(scaled(tmp_path, f"{a}f * x[i]", a), host) or ""
    assert found.startswith("wrong result: with s="), found


@pytest.mark.slow
@pytest.mark.parametrize("a", [0, 1, 5])
def test_a_whole_option_is_varied_too_and_a_constant_is_told_apart(a: int, host: Device, tmp_path: Path) -> None:
    assert failure(scaled(tmp_path, "s * x[i]", a, "int32", "int32"), host) is None
    found = failure(scaled(tmp_path, f"{a} * x[i]", a, "int32", "int32"), host) or ""
    assert found.startswith(f"wrong result: with s={a + (2 if a < 2 else 1)}: y["), found
    assert found.endswith(f"; if s is always {a}, write `value: {a}` at its argument in place of the option"), found


@pytest.mark.slow
def test_a_reference_that_other_values_of_an_option_break_says_with_which(tmp_path: Path, tune: Tune) -> None:
    code = "void f(int *y, const int *x, int s, int n) { for (int i = 0; i < n; i++) y[i + s] = x[i]; }"
    arguments = [array("y", "int32", ["n"], "out"), array("x", "int32", ["n"]), {"name": "s", "dtype": "int32"}]
    file = written(tmp_path, code, arguments, {"config": {"a": 1}}, options={"s": 0})
    done = tune(file, "100")
    assert done.status == 2
    assert "reference: config a=1, with s=2: writes outside: " in done.err
    assert "give an argument that may have only one a `value:`" in done.err
    value = {"name": "s", "dtype": "int32", "value": 0}
    assert tune(written(tmp_path, code, [*arguments[:2], value], {"config": {"a": 1}}), "100").status == 0


def failure(file: Path, device: Device) -> str | None:
    """Why the kernel fails in the final round, where options are varied."""
    space = catalog.load(str(file))
    (final,) = Bench(device, space, scope_of(space, device, "100")).finals([{"a": 1}], 0.1).candidates
    return final.failure


@pytest.mark.slow
def test_a_record_of_another_option_is_not_exact_where_the_code_depends_on_it(tmp_path: Path, tune: Tune) -> None:
    code = C.replace("BODY", "(S == 2 && a == 1 ? 7 : S) * x[i]").replace("TYPE", "float").replace(", OPTION s", "")
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    knobs = {"parameters": {"a": [1, 2]}, "derived": {"S": "s"}}
    file = written(tmp_path, code, arguments, "s * x", options={"s": 1}, **knobs)
    assert tune(file, "100").status == 0
    assert tuner.load(file, 100).match == "exact"
    other = tune(file, "100", "--set", "s=2", "--json", "--results", tmp_path / "other")
    assert (other.json["failed"], other.json["best"]["config"]) == ({"wrong result": 1}, {"a": 2})
    kernel = tuner.load(file, 100, options={"s": 2})
    assert (kernel.match, kernel.config) == ("nearest_size", {"a": 2})
    told_of = r"at n=100, s=2 on .*; .* measured on .* at n=100, s=1; tune it"
    with pytest.raises(RequestError, match=told_of):
        tuner.load(file, 100, options={"s": 2}, strict=True)
    told = tune("best", file, "100", "--set", "s=2").out.splitlines()
    assert (" at 100, s=2 on " in told[0], told[1].endswith(" at n=100, s=1:")) == (True, True)
    assert tune(file, "200", "--set", "s=2").status == 0
    told = tune("best", file, "200").out.splitlines()
    assert (" at 200, s=1 on " in told[0], told[1].endswith(" at n=200, s=2:")) == (True, True)


@pytest.mark.slow
def test_what_is_of_another_option_says_so(tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = scaled(tmp_path, "s * x[i]", 2.0)
    default, other = (tune("record", file, "100", *more, "--json") for more in ((), ("--set", "s=3")))
    assert (Path(default.json["file"]).is_file(), Path(other.json["file"]).is_file()) == (True, True), other.err
    assert default.json["file"].replace("f-100-", "f-100-s=3-") == other.json["file"]
    assert ("at n=100 on" in default.err, "at n=100, s=3 on" in other.err) == (True, True)


@pytest.mark.slow
def test_an_option_that_loses_its_digits_is_seen(tmp_path: Path, tune: Tune) -> None:
    assert tune(scaled(tmp_path, "s * x[i]", 2.0, "float64", "float64"), "100", "--device", "host").status == 0
    rounded = scaled(tmp_path, "(float)s * x[i]", 2.0, "float64", "float64")
    done = tune(rounded, "100", "--device", "host")
    assert done.status == 1
    assert "with s=2.6" in done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "told"),
    [("x * 100", "gives 300 for y[", ), ("0 * x - 1", "gives -1 for y["), ("x / 0.0", "gives inf for y[")],
)  # fmt: skip
def test_an_answer_that_the_output_cannot_hold_is_no_fault_of_the_kernel(
    reference: str, told: str, tmp_path: Path, tune: Tune
) -> None:
    code = "void f(unsigned char *y, const unsigned char *x, int n) { for (int i = 0; i < n; i++) y[i] = x[i] * 100; }"
    fill = {"fill": {"choice": [3]}}
    file = written(tmp_path, code, [array("y", "uint8", ["n"], "out"), array("x", "uint8", ["n"], **fill)], reference)
    done = tune(file, "100", "--device", "host")
    assert done.status in (1, 2)
    assert told in done.err
    assert "a uint8, which holds 0 to 255; clip it, or declare a wider dtype" in done.err
    assert " failed: " not in done.err


@pytest.mark.parametrize("size", [(3, 4), [3, 4], "3x4", {"rows": 3, "columns": 4}])
def test_several_sizes_are_given_in_any_form(size: Size, tmp_path: Path) -> None:
    code = "void f(float *y, const float *x, int n) { for (int i = 0; i < 12; i++) y[i] = 2 * x[i]; }"
    arguments = [array(name, "float32", ["rows", "columns"], role) for name, role in (("y", "out"), ("x", "in"))]
    sizes = {"rows": None, "columns": None, "n": 1}
    file = written(tmp_path, code, arguments, "2 * x", sizes=sizes, extent=["rows"])
    kernel = tuner.load(file, size, device="host")
    x, y = np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32)
    kernel(y, x)
    assert (y == 2).all()
