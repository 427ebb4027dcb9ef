"""What scripts of Kernel Tuner pass: values of unusual types reach the kernel, and wrong ones are one message."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_tuner.accuracy import TunablePrecision
from kernel_tuner.observers import BenchmarkObserver

import tuner
from helpers.scripts_of_kernel_tuner import SCALE, scale
from tuner import devices
from tuner.devices import DeviceInfo
from tuner.devices.cuda import sensors
from tuner.door import results, run_kernel, tune_kernel
from tuner.door.calls.call import Call
from tuner.errors import DeviceError, RequestError
from tuner.search import pool_gp_strategy
from tuner.space.scope import Limits
from tuner.space.values import function_identity

pytestmark = pytest.mark.slow
ALONE: dict[str, list[Any]] = {"unroll": [4], "width": [0]}
TWO: dict[str, list[Any]] = {"unroll": [1, 4], "width": [0]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lang": 3}, "lang: 3: write a text"),
        ({"compiler_options": "-O3"}, "compiler_options: '-O3': write a list"),
        ({"block_size_names": "abc"}, "block_size_names: 'abc': write a list"),
        ({"answer": 3}, "answer: 3: write a list with an element for each argument"),
        ({"metrics": [3]}, r"metrics: \[3\]: write a dictionary"),
        ({"observers": [3]}, "observers: Invalid observer: 3"),
        ({"verify": 3}, "verify: 3: write a function"),
        ({"cache": 3}, "cache: 3: write the name of a file"),
        ({"seed": "x"}, "seed: 'x': write a whole number"),
        ({"timeout": "x"}, "timeout: 'x': write a number"),
        ({"iterations": 7.5}, "iterations: 7.5: write a whole number"),
        ({"compiler": "no_such"}, "compiler 'no_such': C is compiled by .* here; leave it out, or set .* CC"),
        ({"simulation_mode": True, "budget": 1}, "budget: not with simulation_mode"),
        ({"strategy": tuner.strategy(warm=[{"unroll": 1}])}, r"tuner.strategy\(warm=...\) is not followed"),
        ({"strategy_options": {"max_fevals": "x"}}, "strategy_options: max_fevals: 'x': write a whole number above 0"),
        ({"strategy_options": {"time_limit": -1}}, "strategy_options: time_limit: -1: write a number above 0"),
        (
            {"budget": 1, "strategy_options": {"popsize": 3}},
            "strategy_options: 'popsize' is no option; allowed: fraction",
        ),
        ({"storage": "foo"}, "^storage='foo': unknown kind of storage"),
    ],
)
def test_values_of_other_types_are_one_message(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        scale(**options)
    assert "\n" not in str(caught.value)


def test_an_array_in_place_of_arguments_and_numbers_that_c_does_not_get_are_named() -> None:
    y = np.zeros(100, np.float32)
    for arguments, message in (
        (y, "arguments: of type ndarray: write a list"),
        ([], "arguments: f takes none, which is not supported; run this kernel with kernel_tuner itself"),
        ([y, np.float32("inf")], r"arguments\[1\]: inf: in C, numbers from 2\*\*64 on"),
        ([y, np.float32(1e30)], r"arguments\[1\]: 1.*e\+30: in C, numbers from 2\*\*64 on"),
        ([y, 2**40], r"arguments\[1\]: 1099511627776: write a NumPy number, such as numpy.int64\(1099511627776\)"),
        ([y, 0.5], r"arguments\[1\]: 0.5: write a NumPy number, such as numpy.float32\(0.5\)"),
        ([TunablePrecision("a", y), y], r"arguments\[0\]: TunablePrecision: arguments that depend on a parameter are"),
    ):
        with pytest.raises(RequestError, match=message):
            tune_kernel("f", "void f(float *y, float s) { }", 1, arguments, {"a": [1]}, lang="C")


@pytest.mark.parametrize("number", [np.float32("nan"), np.float32("-inf"), np.float64(1e30)])
def test_numbers_that_no_expression_can_be_reach_a_kernel_of_a_device(number: Any) -> None:
    kind = "float" if number.dtype == np.float32 else "double"
    source = f"""
    __kernel void f(__global {kind} *y, {kind} s) {{
        if (get_global_id(0) == 0) y[0] = isnan(s) ? 1 : s < 0 ? (isinf(s) ? 2 : 3) : s;
    }}
    """
    expected = np.array([1 if np.isnan(number) else 2 if number < 0 else number], number.dtype)
    arguments, parameters = [np.zeros(1, number.dtype), number], {"block_size_x": [1]}
    rows, env = tune_kernel("f", source, 1, arguments, parameters, answer=[expected, None], quiet=True)
    assert "__error__" not in rows[0]
    assert env["platform_name"]
    assert env["device_version"].startswith("OpenCL")


def test_answers_that_are_no_numbers_are_named() -> None:
    for wanted, message in (
        (["x"] * 100, r"answer\[0\]: of <U1; pass numbers for y"),
        ([None] * 100, "of object; pass"),
    ):
        with pytest.raises(RequestError, match=message):
            scale(answer=[np.array(wanted), None, None])


def test_numbers_of_numpy_and_the_seed_of_a_strategy_are_taken() -> None:
    rows, _ = scale(
        parameters=ALONE, iterations=np.int64(3), compiler="g++", strategy=pool_gp_strategy.strategy(seed=3),
        strategy_options={"max_fevals": None, "time_limit": np.float64(60)},
    )  # fmt: skip
    assert rows[0]["time"] == 1.0


def test_verify_gets_arrays_in_the_types_and_shapes_of_the_script() -> None:
    source = """
    struct pair { float a; int b; };
    extern "C" float f(bool *flags, float *number, float *columns, pair *verified) {
        for (int i = 0; i < 20; i++) flags[i] = true;
        number[0] = 3; columns[1] = 30; verified[1].b = width;
        return 1;
    }
    """
    arguments = [
        np.zeros((4, 5), np.bool_), np.array(0, np.float32), np.zeros((2, 3), np.float32, order="F"),
        np.zeros(2, [("a", "f4"), ("b", "i4")]),
    ]  # fmt: skip

    def is_right(_answer: Any, result: Any) -> bool:
        flags, number, columns, pairs = result
        shapes = [each.shape for each in result] == [(4, 5), (), (2, 3), (2,)]
        return bool(shapes and flags.dtype == bool and flags.all() and number == 3 and columns[1, 0] == 30) and bool(
            pairs["b"][1] == 7
        )

    rows, _ = tune_kernel("f", source, 1, arguments, {"width": [7, 8]}, verify=is_right, lang="C", quiet=True)
    assert {row["width"]: "__error__" in row for row in rows} == {7: False, 8: True}


def _within(limit: float) -> Callable[..., bool]:
    def is_right(answer: Any, result: Any, atol: float = 0.0, limit: float = limit) -> bool:
        return bool(np.abs(result[0] - answer[0]).max() <= limit)

    return is_right


def test_a_verify_that_was_corrected_judges_again_what_the_wrong_one_accepted() -> None:
    for limit, is_wrong in ((2.0, False), (0.5, True)):
        rows, _ = scale(body="+ 1", verify=_within(limit), parameters=ALONE)
        assert ("__error__" in rows[0]) == is_wrong


def test_a_verify_that_raises_is_named_as_the_script_has_it(capfd: pytest.CaptureFixture[str]) -> None:
    def broken(_answer: Any, result: Any) -> bool:
        return bool(result[0][0] / 0 == 1 // 0)

    rows, _ = scale(parameters=ALONE, verify=broken, quiet=False)
    origin = r"verify: broken\(\) of test_script_values\.py:\d+ raises ZeroDivisionError"
    assert re.match(origin, rows[0]["error_message"])
    assert "runs verify.py" not in capfd.readouterr().err


def test_the_identity_of_a_verify_is_that_of_its_code_in_every_process() -> None:
    text = 'def f(a, r):\n    return a in {"a", "b", "c", "d", "e"}\n'
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "f.py", "exec", dont_inherit=True), names)
    program = f"from tuner.space.values import function_identity\nexec({text!r})\nprint(function_identity.of_code(f))"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == function_identity.of_code(names["f"])


def test_a_late_configuration_is_asked_however_many_wrong_ones_are_before_it() -> None:
    source = SCALE.replace("for (int i = 0; i < n; i++)", "for (int i = 0; i < n; i += unroll > 10 ? 2 : 1)")
    source = source.replace("BODY", "+ (unroll > 5 && unroll < 11)")
    x = np.arange(100, dtype=np.float32)
    rows, _ = tune_kernel(
        "scale", source, 100, [2 * x, x, np.int32(100)], {"unroll": list(range(1, 13)), "width": [0]}, lang="C",
        answer=[2 * x, None, None], quiet=True,
    )  # fmt: skip
    assert {row["unroll"] for row in rows if "__error__" in row} == {6, 7, 8, 9, 10}


def test_rows_of_a_cache_file_get_the_metrics_of_the_call_and_a_store_measures_them(tmp_path: Path) -> None:
    file = tmp_path / "cache.json"
    scale(cache=file, parameters=TWO)
    stored = json.loads(file.read_text())
    assert stored["device_name"] == platform.processor()  # as Kernel Tuner names the device of C
    stored["cache"]["1,0"]["time"] = 0.25
    file.write_text(json.dumps(stored))
    metric = {"metrics": {"rate": lambda row: 1 / row["time"]}, "objective": "rate", "objective_higher_is_better": True}
    rows, env = scale(cache=file, parameters=TWO, **metric)
    assert sorted(row["rate"] for row in rows) == [1.0, 4.0]
    assert env["best_config"]["unroll"] == 1
    rows, _ = scale(cache=file, store=tmp_path / "kernels", parameters=TWO)
    assert tuner.load("kernels/scale", 100, device="host").config == {"unroll": 4, "width": 0}
    assert (tmp_path / "kernels" / "scale.yaml").is_file()


def test_the_best_is_the_slowest_if_a_higher_time_is_better() -> None:
    _, env = scale(parameters=TWO, objective="time", objective_higher_is_better=True)
    assert env["best_config"]["unroll"] == 1


def test_a_source_is_made_for_configurations_of_many_long_values() -> None:
    parameters = {f"parameter_{number}": ["w" * 30] for number in range(10)}
    rows, _ = tune_kernel(
        "f", lambda config: 'extern "C" float f(float *y) { y[0] = 1; return 1; }', 1, [np.zeros(1, np.float32)],
        parameters, lang="C", quiet=True,
    )  # fmt: skip
    assert rows[0]["time"] == 1.0


class Named(BenchmarkObserver):
    def __init__(self, name: str) -> None:
        self.name = name

    def after_finish(self) -> None:
        pass

    def get_results(self) -> dict[str, Any]:
        return {self.name: 1}


def test_an_observer_that_was_told_to_see_something_else_sees_it() -> None:
    for name in ("power", "clock"):
        rows, env = scale(parameters=ALONE, observers=[Named(name)], iterations=3)
        assert rows[0][name] == 1
        assert (env["iterations"], env["compiler_options"]) == (3, [])


def test_with_cuda_the_environment_has_kernel_tuners_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its backends for CUDA have these. The UUID is NVML's, so it is left out where NVML or the device is missing."""
    source = "__global__ void f(float *y) { y[0] = 3; }"
    call = Call("f", source, 1, [np.zeros(2, np.float32)], {}, (None, None, None), lang="CUDA")
    limits = Limits(compute_capability=9.0, max_registers=65536)
    gpu = DeviceInfo("cuda:0", "cuda", "cuda", "A GPU", "sm_90a", "CUDA driver 13.0", 1, limits, place="0000:3B:00.0")
    env = results.environment(gpu, call, "time", 7)
    assert (env["compute_capability"], env["cuda_version"], env["pci_bus_id"]) == ("90", "13.0", "0000:3B:00.0")
    assert env["device_properties"]["MAX_REGISTERS_PER_BLOCK"] == 65536
    assert "MAX_REGISTERS_PER_MULTIPROCESSOR" not in env["device_properties"], "it is unknown here"
    assert "uuid" not in env

    class Board:
        def __init__(self, bus_id: str) -> None:
            assert bus_id == "0000:3B:00.0"

        def uuid(self) -> str:
            return "1-2-3"

    monkeypatch.setattr(sensors, "NvmlSensors", Board)
    assert results.environment(gpu, call, "time", 7)["uuid"] == "1-2-3"


def test_a_kernel_without_parameters_is_one_configuration(capfd: pytest.CaptureFixture[str]) -> None:
    source = 'extern "C" float f(float *y, int *place, int *few) { y[0] = 3; *place = -400001; return 1; }'
    untimed = source.replace("return 1", "return 0")  # a run needs no time
    arrays = [np.zeros(2, np.float32), np.zeros(1, np.int32), np.zeros(1, np.int32)]
    for each in (source, untimed):
        assert run_kernel("f", each, 1, arrays, {}, lang="C")[0].tolist() == [3, 0]
    answer = [np.array([3, 0], np.float32), np.array([-400000], np.int32), np.array([-3], np.int32)]
    rows, _ = tune_kernel("f", source, 1, arrays, {}, lang="C", answer=answer, atol=4)
    assert [row["time"] for row in rows] == [1.0]
    said = capfd.readouterr().err
    assert "compiled without optimisation, as by Kernel Tuner; pass compiler_options=['-O3']" in said
    assert "no element of the answer of y is over atol=4: zeros pass, too; pass atol=3e-03, say" in said
    assert "no element of the answer of few is over atol=4: zeros pass" in said, "integers, too"
    assert "elements of the answer of place reach 400000" in said
    assert "integers that differ from them by 8 pass, too" in said


@pytest.mark.parametrize("options", [None, ["-O3"]])
def test_c_is_optimised_only_where_the_script_says_so(options: list[str] | None) -> None:
    source = """extern "C" float f(float *y) {
    #ifdef __OPTIMIZE__
        y[0] = 1;
    #endif
        return 1;
    }"""
    returned = run_kernel("f", source, 1, [np.zeros(1, np.float32)], {}, lang="C", compiler_options=options)
    assert returned[0].tolist() == [float(options is not None)]


def test_a_run_that_ends_before_restored_arrays_are_tried_leaves_no_wrong_rows_behind(tmp_path: Path) -> None:
    source = SCALE.replace("y[i] = 2 * x[i] BODY", "y[i] = (unroll == 6 ? y[i] : 0) + 2 * x[i]")
    x = np.arange(100, dtype=np.float32)

    def rows(metric: Callable[..., Any]) -> list[dict[str, Any]]:
        return tune_kernel(
            "scale", source, 100, [0 * x, x, np.int32(100)], {"unroll": [1, 2, 3, 4, 5, 6, 7], "width": [0]}, lang="C",
            answer=[2 * x, None, None], quiet=True, cache=tmp_path / "cache.json", metrics={"m": metric},
        )[0]  # fmt: skip

    with pytest.raises(RequestError, match="metrics: m raises"):  # after 6 was wrong on poisoned arrays
        rows(lambda row: 1 / (row["unroll"] - 7))
    assert {row["unroll"]: "__error__" in row for row in rows(lambda row: 1)} == dict.fromkeys(range(1, 8), False)


def test_without_a_driver_a_script_in_cuda_is_advised_of_what_a_script_can_do() -> None:
    if devices.count("cuda"):
        pytest.skip("a driver is here")
    source = 'extern "C" __global__ void f(float *y) { y[0] = 1; }'
    message = r"device 'cuda': no NVIDIA driver .*`tune new --from-script SCRIPT`$"
    for call in (run_kernel, tune_kernel):
        with pytest.raises(DeviceError, match=message):
            call("f", source, 1, [np.zeros(1, np.float32)], {}, lang="CUDA")


def test_host_code_in_cuda_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "host.cu").write_text('extern "C" float f(float *y) { g<<<1, 1>>>(y); return 1; }')
    with pytest.raises(RequestError, match=r"kernel_source .*host\.cu: host code in CUDA is not supported in lang='C'"):
        tune_kernel("f", str(tmp_path / "host.cu"), 1, [np.zeros(1)], {"a": [1]}, lang="C")
