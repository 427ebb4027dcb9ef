"""What a `tolerance:` and `derive:` accept and refuse, on every kind of device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.kernels import outcome_of
from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.benchmark import Bench
from tuner.measure.bound import bound
from tuner.measure.method import Method
from tuner.space.chosen_types import defaults
from tuner.space.dtypes import DTYPES
from tuner.space.scope import Limits, Scope
from tuner.space.sources import rendering
from tuner.space.values.elements import Held

TYPES = {"float32": "float", "float64": "double", "int32": "int", "uint8": "unsigned char", "int64": "long"}
BEFORE = {"c": "#include <math.h>\n#define GLOBAL\n#define KERNEL\n", "opencl": '#include "portable.h"\n'}
WRONG = {"wrong result", "not a number"}


def vectors(dtype: str, fill: Any = "arange") -> list[dict[str, Any]]:
    return [array("y", dtype, ["n"], "out"), array("x", dtype, ["n"], fill=fill)]


def kernel(folder: Path, language: str, dtype: str, body: str, reference: Any = "x", **more: Any) -> Path:
    """Writes a kernel of one thread, whose output `y` is computed from `x` by `body`, and its space."""
    arguments, code = more.pop("arguments", None) or vectors(dtype), more.pop("code", function("f", dtype, body))
    more |= {"block": [1], "grid": [1]} if language == "opencl" else {}
    return written(folder, BEFORE[language] + code, arguments, reference, language, **more)


def function(name: str, dtype: str, body: str) -> str:
    return f"KERNEL void {name}(GLOBAL {TYPES[dtype]} *y, GLOBAL const {TYPES[dtype]} *x, int n) {{\n{body}\n}}\n"


COPY = "for (int i = 0; i < n; i++) y[i] = x[i];\n"
# what is allowed: (type, tolerance, what is just inside, what is just outside)
EDGES: dict[str, tuple[str, Any, str, str]] = {
    "a bare number": ("float32", 0.01, "y[7] += 0.009f;", "y[7] += 0.011f;"),
    "an absolute error that grows with the size": ("float32", {"atol": "1e-4 * n"}, "y[7] -= 9e-3f;", "y[7] -= 2e-2f;"),
    "of one output": ("float32", {"y": 0.01}, "y[7] += 0.009f;", "y[7] += 0.011f;"),
    "a relative error": ("float32", {"rtol": 1e-3}, "y[7] += 0.0069f;", "y[7] += 0.0071f;"),
    "the sum of both": ("float64", {"y": {"atol": 1, "rtol": 0.1}}, "y[70] += 7.9;", "y[70] += 8.1;"),
    "units in the last place": (
        "float32", {"ulp": 4}, "((GLOBAL int *)y)[7] += 4;", "((GLOBAL int *)y)[7] += 5;",
    ),
    "the wider of ulp and atol": (
        "float32", {"ulp": 4, "atol": 0.1}, "y[7] += 0.09f;", "y[7] += 0.11f;",
    ),
    "a fraction of the elements": ("float32", {"wrong": 0.02}, "y[3] = y[9] = 5.5f;", "y[3] = y[9] = y[4] = 5.5f;"),
    "a fraction that are further off": (
        "float64", {"atol": 0.5, "wrong": 0.01}, "y[5] += 0.4; y[3] = 9;", "y[5] += 0.6; y[3] = 9;",
    ),
    "integers are exact": ("int32", None, "", "y[7] += 1;"),
    "integers within an absolute error": ("int32", 2, "y[7] += 2; y[8] -= 2;", "y[7] -= 3;"),
    "bytes within an absolute error": ("uint8", {"atol": 2}, "y[0] += 2; y[99] -= 2;", "y[0] -= 1;"),
    "integers within a relative error": ("int64", {"rtol": 0.1}, "y[70] += 7;", "y[70] += 8;"),
    "a fraction of integers": ("int32", {"wrong": 0.01}, "y[70] = 0;", "y[70] = y[71] = 0;"),
    "an element that nobody has written, within the fraction": (
        "float32", {"wrong": 0.1}, "", "((GLOBAL int *)y)[7] = -1;",
    ),
}  # fmt: skip

# One source for all: OpenCL compiles it once, and then the kernel that is launched.
FUNCTIONS = "".join(
    function(f"{name}_{position}", dtype, COPY + body)
    for position, (dtype, _, *bodies) in enumerate(EDGES.values())
    for name, body in zip(("inside", "outside"), bodies, strict=True)
)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "opencl"])
@pytest.mark.parametrize("what", EDGES)
def test_a_tolerance_accepts_what_is_inside_and_nothing_outside(
    what: str, language: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    dtype, tolerance, inside, outside = EDGES[what]
    position = [*EDGES].index(what)
    device: Device = request.getfixturevalue({"c": "host"}.get(language, language))
    more = {} if tolerance is None else {"tolerance": tolerance}
    failures = {}
    for name, body in (("inside", inside), ("outside", outside)):
        if language == "opencl":
            more |= {"code": FUNCTIONS, "kernel": f"{name}_{position}"}
        file = kernel(tmp_path, language, dtype, COPY + body, **more)
        failures[name] = outcome_of(catalog.load(str(file)), device, "100")
    assert failures["inside"] is None
    assert failures["outside"] in WRONG


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "opencl"])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
def test_an_element_that_is_left_out_is_wrong_whatever_may_be(
    dtype: str, language: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    device: Device = request.getfixturevalue({"c": "host"}.get(language, language))
    file = kernel(tmp_path, language, dtype, COPY.replace("i < n", "i < n - 1"), tolerance={"wrong": 0.1})
    assert outcome_of(catalog.load(str(file)), device, "100") in WRONG


@pytest.mark.slow
def test_where_the_reference_is_not_finite_so_is_what_is_right(host: Device, tmp_path: Path) -> None:
    reference = "where(x > 50, x / (x - x), where(x > 20, (x - x) / (x - x), x))"
    body = "for (int i = 0; i < n; i++) y[i] = i > 50 ? BIG : i > 20 ? NAN : x[i];"
    for big, is_right in (("INFINITY", True), ("-INFINITY", False), ("1e38f", False)):
        file = kernel(tmp_path, "c", "float32", body.replace("BIG", big), reference, tolerance={"rtol": 0.1})
        assert (outcome_of(catalog.load(str(file)), host, "100") is None) == is_right, big


@pytest.mark.slow
def test_the_record_says_how_many_elements_are_wrong(tune: Tune, tmp_path: Path) -> None:
    file = kernel(tmp_path, "c", "float32", COPY + "y[3] = y[9] = 5.5f;", tolerance={"wrong": 0.02})
    done = tune(file, "100", "--device", "host")
    assert done.status == 0, done.err
    assert "2 elements are wrong, as the tolerance allows" in done.out
    record = tune("best", file, "100", "--device", "host", "--json").json["record"]
    assert (record["wrong"], record["skipped_mutants"]) == (2, ["replaced of y"])
    assert "2 elements are wrong" in tune("run", file, "100", "--device", "host").out


def test_a_wrong_result_names_its_first_element_and_dumps_no_array(tune: Tune, tmp_path: Path) -> None:
    body = COPY + "y[3] = y[9] = y[4] = 5.5f;"
    done = tune(kernel(tmp_path, "c", "float32", body, tolerance={"rtol": 1e-3, "wrong": 0.02}), "100")
    assert done.status == 1
    told = "3 of 100 elements are off by more than 0.001 |answer|, by up to 833 times that; 2 may be"
    assert f"y[3] = 5.5, 3 expected; {told}" in done.err
    assert "array" not in done.err


def test_a_wrong_result_tells_how_far_its_elements_are_off(tune: Tune, tmp_path: Path) -> None:
    def told(dtype: str, body: str, **more: Any) -> str:
        folder = tmp_path / f"{dtype}{len([*tmp_path.iterdir()])}"
        folder.mkdir()
        arguments = vectors(dtype, "permutation")
        return tune(kernel(folder, "c", dtype, COPY + body, arguments=arguments, **more), "100").err

    body = "y[3] += 1; y[90] += 2;"
    assert "2 of 100 elements are off by more than 0, by up to 2\n" in told("int32", body)
    assert "2 of 100 elements are off by more than 9.4e-05, by up to 2\n" in told("float32", body)
    assert "elements are off" not in told("int32", body, tolerance=2)  # what is told may be declared
    assert "2 of 100 elements are off by more than 9.4e-05\n" in told("float32", "y[3] += 1; y[90] = NAN;")


def test_the_error_of_a_relative_tolerance_is_counted_in_bounds(host: Device, tmp_path: Path) -> None:
    def measured(tolerance: Any) -> tuple[float, float]:
        space = catalog.load(str(kernel(tmp_path, "c", "float32", COPY + "y[50] += 1;", tolerance=tolerance)))
        outcome = Bench(host, space, scope_of(space, host, "100"), Method(repeats=1)).measure({"a": 1})
        assert outcome.failure is None, outcome.log
        return outcome.error, outcome.bound

    assert measured(4) == (1.0, 4.0)
    error, bound = measured({"rtol": 0.1})
    assert (round(error, 6), bound) == (0.2, 1.0)


@pytest.mark.parametrize("depth", [128, 4096])
@pytest.mark.parametrize("real", ["float16", "bfloat16"])
def test_a_product_in_16_bits_may_be_rounded_once_but_its_partial_sums_may_not(real: str, depth: int) -> None:
    operation, dtype = catalog.load("gemm16/mma_any").operation, DTYPES[real]
    random, parts = np.random.default_rng(depth), 16
    a, b = (random.choice([-1, 1], shape) * random.uniform(0.5, 1.5, shape) for shape in ((64, depth), (depth, 64)))
    a, b = (x.astype(dtype.numpy).astype(np.float32) for x in (a, b))
    terms = [x @ y for x, y in zip(np.split(a, parts, axis=1), np.split(b, parts), strict=True)]
    answer = a.astype(float) @ b.astype(float)
    sizes = {"M": 64, "N": 64, "K": depth, "batch": 1}
    scope = Scope(sizes, {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(), {**defaults(operation), "real": real})
    limits = bound(operation, scope, "C", dtype, Held(answer)).limits(answer)

    def is_right(sums: Any) -> bool:
        return bool((np.abs(sums.astype(dtype.numpy).astype(float) - answer) <= limits).all())

    one_wrong = sum(terms)
    one_wrong[5, 7] += 2 * limits[5, 7] + np.float32(dtype.epsilon) * abs(answer[5, 7])
    assert is_right(sum(terms))
    assert not is_right(sum(term.astype(dtype.numpy).astype(np.float32) for term in terms))
    assert not is_right(sum(terms[1:]))
    assert not is_right(a[:, 1:] @ b[1:])
    assert not is_right(one_wrong)


PARTIALS = """
const int middle = n / 2;
y[SWAP] = y[1 - SWAP] = 0;
for (int i = 0; i < middle; i++) y[SWAP] += x[i];
for (int i = middle; i < n; i++) y[1 - SWAP] += x[i];
"""
DERIVED = {  # what a kernel does to its partial sums: whether it is right
    "": True,
    "y[0] += x[n - 1];": False,
    "((GLOBAL int *)y)[1] = -1;": False,
}


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "opencl"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("end", DERIVED)
def test_what_is_derived_is_compared_instead_of_outputs_whose_layout_varies(
    end: str, dtype: str, language: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    device: Device = request.getfixturevalue({"c": "host"}.get(language, language))
    arguments = [array("y", dtype, [2], "out"), array("x", dtype, ["n"])]
    more: dict[str, Any] = {
        "derive": {"total": "sum(y)"},
        "tolerance": {"total": {"atol": "n * epsilon", "rtol": 1e-6}},
    }
    body = PARTIALS.replace("SWAP", "a") + end
    file = kernel(tmp_path, language, dtype, body, "sum(x)", arguments=arguments, parameters={"a": [0, 1]}, **more)
    space = catalog.load(str(file))
    for swap in (0, 1):
        assert (outcome_of(space, device, "101", {"a": swap}) is None) == DERIVED[end]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_an_output_that_only_derived_values_read_must_be_written(dtype: str, host: Device, tmp_path: Path) -> None:
    arguments = [array("y", dtype, [2], "out"), array("x", dtype, ["n"])]
    body = "y[0] = 0; for (int i = 0; i < n; i++) y[0] += x[i];"
    file = kernel(tmp_path, "c", dtype, body, "sum(x)", arguments=arguments, derive={"total": "sum(y)"})
    assert outcome_of(catalog.load(str(file)), host, "101") in WRONG


@pytest.mark.slow
def test_a_derived_value_may_read_inputs_so_that_a_solution_is_checked_by_its_residual(
    host: Device, tmp_path: Path
) -> None:
    for factor, is_right in (("0.5f", True), ("0.51f", False)):
        body = f"for (int i = 0; i < n; i++) y[i] = {factor} * x[i];"
        more: dict[str, Any] = {"derive": {"twice": "2 * y"}, "tolerance": {"rtol": 1e-6}}
        file = kernel(tmp_path, "c", "float32", body, {"twice": "x"}, arguments=vectors("float32", None), **more)
        assert (outcome_of(catalog.load(str(file)), host, "100") is None) == is_right


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "negative": ({"tolerance": -1}, "operation.tolerance: atol `-1` is -1; it must be a number >= 0"),
    "negative at a size": (
        {"tolerance": {"y": {"rtol": "n - 2000"}}}, "rtol `n - 2000` is -1900; it must be a number >= 0",
    ),
    "unknown term": (
        {"tolerance": {"y": {"rtoll": 1}}}, "operation.tolerance.y.rtoll: unknown name 'rtoll'; did you mean rtol",
    ),
    "unknown output": ({"tolerance": {"z": 1}}, "operation.tolerance.z: unknown name 'z'"),
    "terms and outputs": (
        {"tolerance": {"rtol": 1e-5, "y": {"atol": 1}}},
        "operation.tolerance.rtol: terms and outputs cannot be mixed; write the terms of each output, as in "
        "`y: {rtol: 1e-5}`",
    ),
    "terms and an unknown term": ({"tolerance": {"rtol": 1e-5, "atoll": 1}}, "unknown name 'atoll'; did you mean atol"),
    "nothing is compared": (
        {"tolerance": 1e-5, "reference": "none"},
        "operation.tolerance: `reference: none` compares nothing, so a tolerance has no effect; remove one of them",
    ),
    "not a number": ({"tolerance": float("nan")}, "unknown name 'nan'"),
    "infinite": ({"tolerance": float("inf")}, "unknown name 'inf'"),
    "no fraction": ({"tolerance": {"wrong": 2}}, "operation.tolerance.wrong: wrong `2` is 2; it must be a fraction"),
    "an array": ({"tolerance": {"atol": "x"}}, "operation.tolerance.atol: `x`: unknown name 'x'"),
    "empty": ({"tolerance": {}}, "operation.tolerance: an empty mapping; write an expression, or some of atol"),
    "a list": ({"tolerance": {"y": [1]}}, "operation.tolerance: y: [1] is not an expression"),
    "too deep": ({"tolerance": {"y": {"atol": {"a": 1}}}}, "operation.tolerance.y.atol: a mapping"),
    "unknown mutant": ({"accept": ["ones"]}, "'ones': input should be 'zeros', 'shift', 'replaced', 'rounded_inputs'"),
    "poison": ({"accept": ["poison"]}, "operation.accept.0: 'poison': input should be 'zeros'"),
    "derives from no output": ({"derive": {"t": "sum(x)"}}, "derive.t: `sum(x)` reads no output; name one of y"),
    "derives under a name that is taken": ({"derive": {"y": "sum(y)"}}, "operation.derive.y: this name is taken"),
    "derives another shape": ({"derive": {"t": "y[1:]"}}, "derive t: `y[1:]` has shape ("),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_message(mistake: str, tune: Tune, tmp_path: Path) -> None:
    more, message = MISTAKES[mistake]
    file = kernel(tmp_path, "c", "float32", COPY, **more)
    for done in (tune("validate", file, "100"), tune(file, "100", "--device", "host")):
        assert (done.status, done.out) == (2, "")
        *before, line = done.err.splitlines()
        assert len(before) <= 1, before  # what is about to be tuned
        assert line.startswith(f"error: {file}:")
        assert message in line


def test_only_what_a_file_says_enters_its_signature(tmp_path: Path) -> None:
    def signature(**more: Any) -> str:
        return rendering.signature(catalog.load(str(kernel(tmp_path, "c", "float32", COPY, **more))))

    assert signature(tolerance={"y": 0.1}) == signature(tolerance={"atol": 0.1}) == signature(tolerance=0.1)
    assert signature(accept=["zeros"]) == signature()
    different = [{}, {"tolerance": 0.1}, {"tolerance": {"rtol": 0.1}}, {"tolerance": {"atol": 0.1, "wrong": 0.1}}]
    different.append({"derive": {"t": "y + 0"}})
    assert len({signature(**more) for more in different}) == len(different)
