"""`tuner.door.tune_kernel` takes what scripts give Kernel Tuner, and returns what they expect."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_tuner import util
from kernel_tuner.file_utils import store_output_file
from kernel_tuner.observers import BenchmarkObserver, OutputObserver
from kernel_tuner.observers.register import RegisterObserver

import tuner
from helpers.scripts_of_kernel_tuner import PARAMETERS, SCALE, add, scale, vectors
from tuner.door import run_kernel, tune_kernel
from tuner.door.results import WrongResultConfig
from tuner.errors import ExpressionError, NoConfiguration, RequestError

pytestmark = pytest.mark.slow
BEST = {"unroll": 4, "width": 0}
BEST_ALONE: dict[str, list[Any]] = {"unroll": [4], "width": [0]}
TWO: dict[str, list[Any]] = {"unroll": [1, 4], "width": [0]}


def configs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in PARAMETERS} for row in rows]


def test_the_rows_have_what_kernel_tuners_have_and_its_writer_takes_them(tmp_path: Path) -> None:
    rows, env = add(metrics={"rate": "1e-6 * 1000 / time", "double": lambda row: 2 * row["rate"]})
    assert [row["block_size_x"] for row in rows] == [32, 64]
    for row in rows:
        assert row["time"] == pytest.approx(np.mean(row["times"]))
        assert len(row["times"]) <= 7
        assert row["double"] == pytest.approx(2e-3 / row["time"])
        assert {"compile_time", "verification_time", "benchmark_time", "framework_time", "strategy_time"} < row.keys()
    assert env["best_config"] in rows
    assert env["device_name"]
    json.dumps(rows)
    store_output_file(str(tmp_path / "out.json"), rows, {"block_size_x": [32, 64]})
    stored = json.loads((tmp_path / "out.json").read_text())["results"]
    assert [result["configuration"] for result in stored] == [{"block_size_x": 32}, {"block_size_x": 64}]


def test_the_float_that_a_function_in_c_returns_is_its_time() -> None:
    rows, env = scale()
    assert len(rows) == 6
    assert {name: env["best_config"][name] for name in BEST} == BEST
    assert env["best_config"]["time"] == 1.0


def test_a_wrong_result_is_one_row_and_the_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, env = scale(body="+ (width == 1 && i == n - 1)", quiet=False)
    told = "3 of 6 configurations failed, and their rows have `__error__` in place of `time`; the first: WrongResult"
    assert told in capsys.readouterr().err
    wrong = [row for row in rows if "__error__" in row]
    assert len(wrong) == 3
    assert all(row["width"] == 1 and isinstance(row["__error__"], WrongResultConfig) for row in wrong)
    assert {name: env["best_config"][name] for name in BEST} == BEST
    store_output_file(str(tmp_path / "out.json"), rows, PARAMETERS)


def test_configurations_that_crash_hang_or_do_not_compile_are_rows() -> None:
    bad = SCALE.replace("BODY", ";\n if (width == 1) y[1 << 29] = 1; while (unroll == 8) pause(); n += 0")
    bad = bad.replace("extern", '#include <unistd.h>\n#if unroll == 1\n#error "none"\n#endif\nextern', 1)
    rows, env = scale(source=bad, parameters={"unroll": [1, 4, 8], "width": [0, 1]}, timeout=2)
    errors = {(row["unroll"], row["width"]): type(row.get("__error__")).__name__ for row in rows}
    assert errors == {
        (1, 0): "CompilationFailedConfig", (1, 1): "CompilationFailedConfig", (4, 0): "NoneType",
        (4, 1): "RuntimeFailedConfig", (8, 0): "RuntimeFailedConfig", (8, 1): "RuntimeFailedConfig",
    }  # fmt: skip
    assert env["best_config"]["time"] == 1.0
    assert any("a longer timeout allows more" in row.get("error_message", "") for row in rows)


def test_restrictions_are_texts_and_functions() -> None:
    rows, _ = scale(restrictions=["unroll * width <= 2", lambda config: config["unroll"] != 2])
    assert all(row["unroll"] * row["width"] <= 2 and row["unroll"] != 2 for row in rows)
    assert len(rows) == 3
    with pytest.raises(NoConfiguration):
        scale(restrictions=lambda config: False)
    rows, _ = scale(restrictions=lambda unroll: unroll["unroll"] == 1)  # named like a parameter
    assert {row["unroll"] for row in rows} == {1}


def test_functions_get_what_kernel_tuner_passes_and_constraints_are_taken() -> None:
    def of_values(*values: int) -> bool:
        return values[0] * values[1] < 4

    def named(width: int, unroll: int) -> bool:
        return unroll * width < 4 and unroll < 8

    parameters: dict[str, list[Any]] = {"unroll": [2, 4], "width": [1, 2]}
    for restriction in (
        of_values, [named], lambda p, q: p * q < 4, [lambda **values: values["unroll"] * values["width"] < 4],
        (lambda width, unroll: unroll - width == 1, ["width", "unroll"]),
        [util.MaxProdConstraint(2)], [(util.MaxProdConstraint(2), ["unroll", "width"])],
    ):  # fmt: skip
        rows, _ = scale(restrictions=restriction, parameters=parameters)
        assert [(row["unroll"], row["width"]) for row in rows] == [(2, 1)], restriction
    for restriction, message in (
        ([(of_values, ["height"])], "restrictions: 'height' is no parameter; allowed: unroll, width"),
        (
            [util.InSetConstraint({1})],
            "restrictions: InSetConstraint: not supported; write an expression or a function",
        ),
    ):
        with pytest.raises(RequestError, match=message):
            scale(restrictions=restriction)


def test_rows_are_of_configurations_that_are_valid_now_and_that_a_limit_allows_whatever_was_measured_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for cache in (None, tmp_path / "cache"):
        scale(cache=cache)
        for given in ({"restrictions": ["unroll != 4"]}, {"parameters": {"unroll": [1, 3], "width": [0]}}):
            rows, env = scale(cache=cache, **given)
            assert rows
            assert env["best_config"] in rows
            assert all(row["unroll"] != 4 for row in rows)
        limited = {"strategy": "random_sample", "strategy_options": {"max_fevals": 2}, "quiet": False}
        assert len(scale(cache=cache, **limited)[0]) == 2
    assert f"the 7 rows of {cache}.json stay there, but what the strategy chooses" in capsys.readouterr().err
    assert len(json.loads((tmp_path / "cache.json").read_text())["cache"]) == 7


def test_a_call_resumes_with_other_drawn_numbers_but_not_with_other_indices() -> None:
    """What was measured before has the same milliseconds of compiling again, but for one that was too noisy."""
    gather = """
    __kernel void gather(__global float *y, __global const float *x, __global const int *places) {
        int i = get_group_id(0) * block_size_x + get_local_id(0);
        if (i < 100) y[i] = x[places[i]];
    }
    """
    rng = np.random.default_rng()

    def compiled(places: Any) -> set[float]:
        x = rng.random(100, dtype=np.float32)
        arguments, expected = [np.zeros_like(x), x, places], [x[places], None, None]
        rows, _ = tune_kernel("gather", gather, 100, arguments, {"block_size_x": [32, 64]}, answer=expected, quiet=True)
        assert not any("__error__" in row for row in rows)
        return {row["compile_time"] for row in rows}

    places = np.arange(100, dtype=np.int32)
    first = compiled(places)
    assert compiled(places) & first
    assert not compiled(places[::-1]) & first


def test_an_array_that_keeps_a_part_of_what_it_held_is_not_taken_for_one_that_is_written() -> None:
    stencil = """
    __kernel void stencil(__global float *y, __global const float *x, int n) {
        int i = get_group_id(0) * block_size_x + get_local_id(0);
        if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1];
    }
    """
    x = np.random.default_rng().random(500, dtype=np.float32)
    y = np.copy(x)
    expected = np.copy(x)
    expected[1:-1] = x[:-2] + x[2:]
    arguments, parameters = [y, x, np.int32(500)], {"block_size_x": [32, 64]}
    rows, _ = tune_kernel("stencil", stencil, 500, arguments, parameters, answer=[expected, None, None], quiet=True)
    assert not any("__error__" in row for row in rows)


def test_an_array_that_accumulates_is_restored_before_each_run() -> None:
    rows, _ = scale(body="+ 0 * y[i]", answer=None, parameters=TWO)
    assert not any("__error__" in row for row in rows)
    source = SCALE.replace("y[i] =", "y[i] +=").replace("BODY", "")
    n = 100
    _, x, y = vectors(n)
    arguments = [y, x, np.int32(n)]
    rows, _ = tune_kernel("scale", source, n, arguments, TWO, answer=[y + 2 * x, None, None], lang="C", quiet=True)
    assert not any("__error__" in row for row in rows)


def test_an_objective_that_no_row_has_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows, env = scale(objective="tiem", objective_higher_is_better=True, quiet=False, parameters=BEST_ALONE)
    assert "__error__" not in rows[0]
    assert "best_config" not in env
    assert "objective 'tiem': no row has it; rows have unroll, width, time, " in capsys.readouterr().err


def test_structures_have_answers() -> None:
    """They are compared byte by byte."""
    source = 'struct S {float a; int b;}; extern "C" void f(struct S *s) { for (int i = 0; i < 10; i++) s[i].a = U; }'
    given = np.zeros(10, dtype=[("a", "f4"), ("b", "i4")])
    expected = given.copy()
    expected["a"] = 1
    rows, _ = tune_kernel("f", source, 10, [given], {"U": [1, 2]}, answer=[expected], lang="C", quiet=True)
    assert ["__error__" in row for row in rows] == [row["U"] == 2 for row in rows]


def test_an_array_in_fortrans_order_is_passed_in_the_order_of_its_memory() -> None:
    """As Kernel Tuner does: the scripts of GEMM rely on it."""
    source = """
    void columns(float *y, const float *x) {
        for (int i = 0; i < 3; i++) for (int j = 0; j < 4; j++) y[j * 3 + i] = i + x[j * 3 + i];
    }
    """
    x = np.asfortranarray(np.random.default_rng().random((3, 4), dtype=np.float32))
    y, expected = np.zeros_like(x), x + np.arange(3, dtype=np.float32)[:, None]
    once = run_kernel("columns", source, 1, [y, x], {"a": 1}, lang="C")
    assert np.array_equal(once[0], expected)
    assert np.array_equal(once[1], x)
    for options in ({}, {"verify": lambda answer, result, atol: np.allclose(answer[0], result[0], atol=atol)}):
        rows, _ = tune_kernel(
            "columns", source, 1, [y, x], {"a": [1]}, lang="C", answer=[expected, None], quiet=True, **options
        )
        assert "__error__" not in rows[0], rows[0]["error_message"]


def test_a_loose_tolerance_is_accepted() -> None:
    rows, _ = scale(atol=1e6, parameters=TWO)
    assert not any("__error__" in row for row in rows)


def total_is_right(answer: Any, result: Any, atol: float) -> bool:
    return bool(np.isclose(np.sum(answer[0]), np.sum(result[0]), atol=atol, rtol=1e-4))


def test_a_function_of_the_script_verifies() -> None:
    limit = 1e-3  # a captured value
    rows, _ = scale(body="+ (width == 1)", verify=total_is_right)
    assert {row["width"] for row in rows if "__error__" in row} == {1}
    assert {row["error_message"] for row in rows if "__error__" in row} == {
        "verify: the function returned no true value"
    }
    rows, _ = scale(
        answer=None, verify=lambda _, result: abs(result[0][0] - 2 * result[1][0]) < limit, parameters=BEST_ALONE
    )
    assert not any("__error__" in row for row in rows)


def test_inputs_that_a_kernel_does_not_declare_constant_hold_what_they_held_where_a_function_verifies() -> None:
    source = SCALE.replace("BODY", "").replace("const float", "float")
    rows, _ = scale(source=source, verify=total_is_right, parameters=TWO)
    assert not any("__error__" in row for row in rows)


class Bound(BenchmarkObserver):
    def __init__(self, file: Any) -> None:
        self.file = file

    def get_results(self) -> dict[str, Any]:
        return {}


def test_what_cannot_be_sent_to_the_worker_or_fails_in_the_script_is_one_message(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        with pytest.raises(RequestError, match="verify: the function cannot be sent"):
            scale(verify=lambda answer, result: log.write("x") > 0)
        with pytest.raises(RequestError, match="observers: Bound cannot be sent to another process: Cannot pickle"):
            scale(observers=[Bound(log)])
    with pytest.raises(ExpressionError, match=r"it raises ZeroDivisionError: .* by zero at unroll=1 width=.;"):
        scale(restrictions=lambda config: 1 // (config["unroll"] - 1) > 0)


class Runs(BenchmarkObserver):
    def __init__(self) -> None:
        self.count = 0

    def after_finish(self) -> None:
        self.count += 1

    def get_results(self) -> dict[str, Any]:
        count, self.count = self.count, 0
        return {"runs": np.int64(count), "array": np.arange(2)}


class Outputs(OutputObserver):
    def process_output(self, answer: Any, result: Any) -> None:
        pass

    def get_results(self) -> dict[str, Any]:
        return {}


def test_observers_see_every_run_and_their_results_are_in_the_rows() -> None:
    rows, env = scale(
        observers=[Runs(), lambda given: Runs()], iterations=5,
        parameters={"unroll": [4, 8], "width": [0]}, metrics={"more": "runs + 1"}, objective="more",
        objective_higher_is_better=True,
    )  # fmt: skip
    assert [(row["runs"], row["array"], row["more"]) for row in rows] == [(5, [0, 1], 6)] * 2
    assert env["best_config"]["more"] == 6
    again, _ = scale(observers=[Runs()], iterations=5, parameters={"unroll": [4, 8], "width": [0]})
    assert again[0]["runs"] == 5
    with pytest.raises(RequestError, match="Outputs sees outputs"):
        scale(observers=[Outputs()])


def test_a_source_that_is_a_function_is_called_for_each_configuration() -> None:
    called = []

    def source(config: dict[str, Any]) -> str:
        called.append(tuple(config.values()))
        return re.sub("unroll", str(config["unroll"]), SCALE).replace("BODY", "+ 1" if config["width"] == 1 else "")

    rows, env = scale(source=source)
    assert set(called) == {(u, w) for u in PARAMETERS["unroll"] for w in PARAMETERS["width"]}
    assert {row["width"] for row in rows if "__error__" in row} == {1}
    assert {name: env["best_config"][name] for name in BEST} == BEST

    def raises(config: dict[str, Any]) -> str:
        return SCALE if config["unroll"] == 1 else {}["missing"]

    with pytest.raises(
        RequestError, match=r"the function raises KeyError: 'missing' for {'unroll': [24], 'width': \d}"
    ):
        scale(source=raises)
    allowed = {"unroll": [2, 1], "width": [0]}  # the first one is excluded
    rows, _ = scale(source=raises, parameters=allowed, restrictions=["unroll == 1"], body="")
    assert len(rows) == 1
    for wrong, message in (
        (lambda config: {}["missing"], "the function raises KeyError: 'missing'"),
        (lambda config: None, "returns a NoneType"),
    ):
        with pytest.raises(RequestError, match=message):
            scale(source=wrong)


def test_problem_sizes_and_divisors_are_numbers_texts_lists_and_functions() -> None:
    source = """
    __kernel void blocks(__global int *y) {
        if (get_global_id(0) + get_global_id(1) == 0) y[0] = get_num_groups(0) * 100 + get_num_groups(1);
    }
    """

    def blocks(problem_size: Any, *divisors: Any, parameters: dict[str, list[int]]) -> int:
        """100 times the blocks in x, and those in y."""
        y = np.zeros(1, np.int32)
        seen = run_kernel("blocks", source, problem_size, [y], {n: v[0] for n, v in parameters.items()}, *divisors)[0][
            0
        ]
        rows, _ = tune_kernel(
            "blocks", source, problem_size, [y], parameters, *divisors, answer=[np.array([seen])], quiet=True
        )
        assert "__error__" not in rows[0]
        return int(seen)

    assert blocks([100, 1], parameters={"block_size_x": [32]}) == 401
    assert blocks(("count * 2", 1), [], parameters={"count": [2], "block_size_x": [32]}) == 401
    assert blocks(100, ["block_size_x/tile"], parameters={"block_size_x": [64], "tile": [2]}) == 401
    assert blocks(lambda p: (p["t"] * 100, 1), lambda p: 50, parameters={"t": [2], "block_size_x": [32]}) == 401
    assert blocks((100, 9), 50, [3], parameters={"block_size_x": [32]}) == 203
    allowed: Any = {"restrictions": ["block_size_x < 64"], "quiet": True}
    arguments, parameters = [np.zeros(1, np.int32)], {"block_size_x": [32, 64]}
    rows, _ = tune_kernel(
        "blocks", source, 100, arguments, parameters, lambda p: {32: 32}[p["block_size_x"]], **allowed
    )
    assert [row["block_size_x"] for row in rows] == [32]
    rows, _ = tune_kernel(
        "blocks", source, 100, arguments, parameters, lambda p: {32: 32}[p["block_size_x"]], quiet=True
    )
    assert [type(row.get("__error__")).__name__ for row in rows] == ["NoneType", "InvalidConfig"]
    assert re.fullmatch(
        r"grid_div_x: <lambda> of test_tune_kernel.py:\d+ raises KeyError: 64 for {'block_size_x': 64}",
        rows[1]["error_message"],
    )
    for size, divisor, message in (
        (50.0, None, "problem_size: 50.0: write whole numbers"),
        ((1, 1, 1, 1), None, "problem_size: 4 extents"),
        (100, 2.0, "grid divisor 2.0"),
    ):
        with pytest.raises(RequestError, match=message):
            tune_kernel("blocks", source, size, arguments, parameters, divisor, quiet=True)


def test_include_folders_definitions_and_names_of_blocks(tmp_path: Path) -> None:
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "one.h").write_text("#define ONE 1\n")
    source = """
    #include "one.h"
    __kernel void add(__global float *c, __global const float *a, __global const float *b, int n) {
        int i = get_group_id(0) * threads + get_local_id(0);
        if (i < n) c[i] = TWO / 2 * ONE * a[i] + b[i];
    #if grid_size_x * threads < 1000 || !defined(kernel_tuner)
    #error "not what Kernel Tuner defines"
    #endif
    }
    """
    (tmp_path / "headers" / "all.cl").write_text(source)
    options = ["-I", str(tmp_path / "headers"), "-DTWO=2", f"-I{tmp_path}/none"]  # which compilers ignore
    for given in (source, '#include "all.cl"'):
        rows, _ = add(
            source=given, parameters={"threads": [32, 64]}, block_size_names=["threads"], compiler_options=options,
            lang="OpenCL",
        )  # fmt: skip
        assert [row.get("__error__") for row in rows] == [None, None]


def test_the_cache_file_is_read_and_written_in_kernel_tuners_form(tmp_path: Path) -> None:
    file = tmp_path / "cache"
    scale(cache=file, parameters={"unroll": [1, 4], "width": [0]})
    stored = json.loads((tmp_path / "cache.json").read_text())
    assert stored["tune_params_keys"] == ["unroll", "width"]
    assert stored["cache"].keys() == {"1,0", "4,0"}
    assert util.read_cache(str(tmp_path / "cache.json"), open_cache=False)["kernel_name"] == "scale"
    stored["cache"]["1,0"]["time"] = 0.125  # what only the file knows
    del stored["cache"]["1,0"]["strategy_time"], stored["cache"]["1,0"]["framework_time"]  # Kernel Tuner writes neither
    text = json.dumps(stored)
    (tmp_path / "cache.json").write_text(text[: text.rindex("}}")])  # as Kernel Tuner leaves it while it runs
    rows, env = scale(cache=file, parameters={"unroll": [1, 4], "width": [0]})
    assert sorted(row["time"] for row in rows) == [0.125, 1.0]
    assert env["best_config"]["unroll"] == 1
    store_output_file(str(tmp_path / "out.json"), rows, PARAMETERS)
    (tmp_path / "empty.json").write_text('{"cache": {}}')
    assert len(scale(cache=tmp_path / "empty", parameters={"unroll": [4], "width": [0]})[0]) == 1
    (tmp_path / "other.json").write_text('{"cache": {"1": {"time": 3}}}')
    with pytest.raises(RequestError, match=r"other.json: not a cache file of Kernel Tuner"):
        scale(cache=tmp_path / "other")
    with pytest.raises(RequestError, match="tune_params_keys is"):
        scale(cache=file, parameters={"unroll": [1], "width": [0], "more": [1]})


def test_strategies_budgets_and_objectives() -> None:
    for strategy in ("random_sample", "greedy_ils", "optuna", tuner.strategy()):
        rows, _ = scale(strategy=strategy, strategy_options={"max_fevals": 3}, seed=3)
        assert len(configs(rows)) == 3  # none that an earlier call measured with another strategy
    for options, message in (
        ({"strategy": "no_such"}, "no_such"),
        (
            {"strategy": "pso", "strategy_options": {"size": 3}},
            "strategy_options: 'size' is no option of pso; allowed: .*popsize",
        ),
        ({"objective": ["time", "energy"]}, "several objectives"),
        ({"objective": "tiem"}, "objective 'tiem': write objective_higher_is_better"),
        ({"strategy": object()}, "strategy: <object"),
    ):
        with pytest.raises(RequestError, match=message):
            scale(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lang": "fortran"}, "lang 'fortran': tuner compiles CUDA, OpenCL and C; run this kernel with kernel_tuner"),
        ({"texmem_args": {"t": np.zeros(3)}}, "texmem_args: textures are not supported here"),
        ({"answer": [np.zeros(7), None, None]}, r"answer\[0\]: 7 elements; y has 100; give it as many"),
        ({"answer": [None]}, "answer: 1 elements; 3 arguments"),
        ({"restrictions": ["unroll +"]}, "restrictions: 'unroll \\+'"),
        ({"restrictions": ["nothing > 1"]}, "nothing is no parameter"),
        ({"restrictions": [3]}, "restrictions: 3 is neither"),
        ({"parameters": {"unroll": []}}, "unroll has no values"),
        ({"source": "no_such.c"}, "kernel_source 'no_such.c': there is no such file"),
        ({"parameters": {"unroll": 3}}, "tune_params: unroll is 3; write a list"),
        ({"parameters": {"un roll": [1]}}, "tune_params: 'un roll' is not a name; use letters, digits and _"),
        ({"parameters": {"unroll": "abc"}}, "tune_params: unroll is 'abc'; write a list"),
        ({"parameters": {"unroll": ["1 + 1"]}}, r"tune_params: unroll has the value '1 \+ 1'; values are .* words of "),
        ({"parameters": {"unroll": [[1, 2]]}}, r"tune_params: unroll has the value \[1, 2\]; values are numbers"),
        ({"source": "/"}, "kernel_source '/': no file in .* and no text of a kernel"),
        ({"observers": [RegisterObserver()]}, "observers: RegisterObserver: only CUDA's compilers tell registers"),
    ],
)
def test_what_is_wrong_or_not_supported_is_one_message(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        scale(**options)
    assert "\n" not in str(caught.value)


def test_a_metric_is_called_once_for_a_configuration() -> None:
    called: list[int] = []

    def rate(row: dict[str, Any]) -> float:
        called.append(row["unroll"])
        return 1.0

    scale(parameters={"unroll": [1, 4], "width": [0]}, metrics={"rate": rate})
    assert sorted(called) == [1, 4]


def test_a_metric_that_fails_is_one_message_and_what_was_measured_is_kept() -> None:
    parameters = {"unroll": [1, 4], "width": [0]}
    for metric, message in (
        (lambda row: 1 / (row["unroll"] - 1), r"ZeroDivisionError: division by zero for {'unroll': 1, 'width': 0}"),
        ("1 / (unroll - 1)", "ZeroDivisionError: division by zero"),
        (lambda row: row["none"], "KeyError: 'none'"),
    ):
        with pytest.raises(RequestError, match=f"metrics: m raises {message}"):
            scale(parameters=parameters, metrics={"m": metric})
    with pytest.raises(RequestError, match="objective: m is 'word' in a row; it must be a number"):
        scale(parameters=parameters, metrics={"m": lambda row: "word"}, objective="m", objective_higher_is_better=True)
    first, _ = scale(parameters=parameters)
    rows, env = scale(
        parameters=parameters, metrics={"m": lambda row: float("nan") if row["unroll"] == 1 else 1.0}, objective="m",
        objective_higher_is_better=True,
    )  # fmt: skip
    assert [row["compile_time"] for row in rows] == [row["compile_time"] for row in first]
    assert env["best_config"]["unroll"] == 4


def test_a_call_whose_answer_was_wrong_is_measured_again_with_the_right_one() -> None:
    """The kernel leaves an element as it was, so that nothing but the answer's content differs."""
    source = SCALE.replace("int i = 0", "int i = 1").replace("BODY", "")
    _, x, y = vectors(100)
    right = np.where(np.arange(100) == 0, 5, 2 * x).astype(np.float32)
    y[:] = 5

    def errors(answer: Any) -> list[str]:
        rows, _ = tune_kernel(
            "scale", source, 100, [y, x, np.int32(100)], TWO, answer=[answer, None, None], lang="C",
            quiet=True,
        )  # fmt: skip
        return [row.get("error_message", "") for row in rows]

    assert all("6 expected" in message for message in errors(right + 1))
    assert errors(right) == ["", ""]


def test_a_strategy_of_kernel_tuner_takes_its_options_and_ends_when_it_has_run() -> None:
    parameters = {"unroll": [*range(8)], "width": [*range(8)]}
    few = {"popsize": 4, "maxiter": 1}
    rows, _ = scale(parameters=parameters, strategy="genetic_algorithm", strategy_options=few)
    assert 4 <= len(rows) <= 8
    others, _ = scale(parameters=parameters, strategy="diff_evo", strategy_options={**few, "max_fevals": 3})
    assert len(others) <= 3


PARTIAL_SUMS = """
extern "C" float partial(float *y, const float *x, int n) {
    for (int part = 0; part < parts; part++) {
        float sum = 0;
        for (int i = part; i < n; i += parts) sum += x[i];
        y[part] = sum;
    }
    return 1.0f + parts;
}
"""


def test_a_configuration_may_leave_elements_of_an_output_as_the_script_passes_them() -> None:
    _, x, _ = vectors(100)
    rows, _ = tune_kernel(
        "partial", PARTIAL_SUMS, 1, [np.zeros(8, np.float32), x, np.int32(100)], {"parts": [8, 4, 1]}, lang="C",
        answer=[x, None, None], verify=total_is_right, quiet=True,
    )  # fmt: skip
    assert not any("__error__" in row for row in rows)


def test_a_late_configuration_that_adds_to_what_an_output_holds_is_right(capfd: pytest.CaptureFixture[str]) -> None:
    source = SCALE.replace("y[i] = 2 * x[i] BODY", "y[i] = (width ? y[i] : 0) + 2 * x[i]")
    parameters = {"width": [0, 1], "unroll": [1, 2, 3, 4, 5, 6]}
    _, x, y = vectors(100)
    for error in (0, 1):
        rows, _ = tune_kernel(
            "scale", source, 100, [0 * y, x, np.int32(100)], parameters, lang="C", answer=[2 * x + error, None, None]
        )
        assert {"__error__" in row for row in rows} == {error == 1}
        assert ("all are measured again, on restored outputs" in capfd.readouterr().err) == (error == 0)


def test_a_time_that_is_no_float_is_refused() -> None:
    source = PARTIAL_SUMS.replace('"C" float', '"C" double')
    arguments = [np.zeros(8, np.float32), np.ones(100, np.float32), np.int32(100)]
    with pytest.raises(RequestError, match="kernel_source: partial returns a double; return a float, which Kernel"):
        tune_kernel("partial", source, 1, arguments, {"parts": [8]}, lang="C")
    assert run_kernel("partial", source, 1, arguments, {"parts": 8}, lang="C")[0].sum() == 100, "which is not asked for"


def test_arguments_of_other_types_are_named() -> None:
    for arguments, message in (
        ([[1.0]], r"arguments\[0\]: of type list"),
        ([3], r"arguments\[0\]: 3: write a NumPy number, such as numpy.int32\(3\)"),
        ([np.zeros(0, np.float32)], r"arguments\[0\]: an array without elements"),
        ([np.array(["a"])], r"arguments\[0\]: of <U1"),
    ):
        with pytest.raises(RequestError, match=message):
            tune_kernel("f", "void f(float *y) { }", 1, arguments, {"a": [1]}, lang="C")


def test_a_store_keeps_the_space_and_tuner_load_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scale(store=tmp_path / "kernels", parameters=TWO)
    kernel = tuner.load("kernels/scale", 100, device="host")
    assert kernel.config == BEST
    y, x = np.zeros(100, np.float32), np.arange(100, dtype=np.float32)
    kernel(y, x)
    assert (y == 2 * x).all()


class Power(BenchmarkObserver):
    """Measures during a second of runs, as Kernel Tuner's observers of power do."""

    def __init__(self) -> None:
        self.continuous_observer = Seconds(self)

    def after_finish(self) -> None:
        pass

    def get_results(self) -> dict[str, Any]:
        return {"single": True}


class Seconds(BenchmarkObserver):
    continuous_duration = 0.05

    def __init__(self, parent: Power) -> None:
        self.parent, self.results = parent, None

    def get_results(self) -> dict[str, Any]:
        assert self.results is not None
        return {"energy": 3.0 * self.results["time"]}


def test_an_observer_may_watch_many_runs_in_turn() -> None:
    rows, _ = scale(observers=[Power()], parameters={"unroll": [4], "width": [0]})
    assert rows[0]["single"] is True
    assert rows[0]["energy"] == pytest.approx(3.0)
    assert rows[0]["times"] == [1.0] * 8


def test_a_function_that_accepts_everything_verifies_nothing_and_ends_nothing() -> None:
    rows, _ = scale(body="+ 1", verify=lambda answer, result: True, parameters={"unroll": [4], "width": [0]})
    assert "__error__" not in rows[0]
    with pytest.raises(RequestError, match="iterations: 0: write a whole number"):
        scale(iterations=0)


LIES = {
    0: "",
    1: "exit(0);",
    2: "y[n] = 1;",
    3: "free((void *)x);",
    4: "((float *)x)[0] = 5;",
    5: "static int runs = 0; if (++runs % 3 == 0) n--;",
    6: "time = 0;",
}


def test_kernels_that_lie_are_rows_and_what_is_right_beside_them_is_kept() -> None:
    lies = "\n".join(f"#if lie == {lie}\n{body}\n#endif" for lie, body in LIES.items())
    source = f"""
    #include <stdlib.h>
    extern "C" float twice(float *y, float *x, int n) {{
        float time = 1;
        {lies}
        for (int i = 0; i < n; i++) y[i] = 2 * x[i];
        return time;
    }}
    """
    y, x, _ = vectors()
    arguments, answer = [y, x, np.int32(len(x))], [2 * x, None, None]
    rows, env = tune_kernel("twice", source, len(x), arguments, {"lie": [*LIES]}, lang="C", answer=answer, quiet=True)
    errors = {row["lie"]: type(row.get("__error__")).__name__ for row in rows}
    wrong, failed = dict.fromkeys((2, 4, 5), "WrongResultConfig"), dict.fromkeys((1, 3, 6), "RuntimeFailedConfig")
    assert errors == {0: "NoneType", **wrong, **failed}
    assert env["best_config"]["time"] == 1.0
