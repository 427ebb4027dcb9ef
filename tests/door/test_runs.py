"""What a call of `tune_kernel` measures, keeps and says: budgets, the cache file, observers, functions of the grid."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_tuner import util
from kernel_tuner.observers import BenchmarkObserver

from helpers.scripts_of_kernel_tuner import add, scale
from tuner.door import tune_kernel
from tuner.errors import ExpressionError, RequestError

pytestmark = pytest.mark.slow
TWO: dict[str, list[Any]] = {"unroll": [1, 4], "width": [0]}


def test_functions_of_the_grid_are_called_only_for_configurations_that_are_tried() -> None:
    source = """
    __kernel void blocks(__global int *y) {
        if (get_global_id(0) == 0) y[0] = get_num_groups(0) * grid_size_y + get_num_groups(1);
    }
    """
    parameters: dict[str, list[Any]] = {"block_size_x": [1, 2, 4], "a": [*range(1, 181)], "b": [*range(1, 181)]}
    parameters["c"] = [*range(100)]  # 9.7 million combinations
    called: list[tuple[int, int]] = []

    def divisor(config: dict[str, Any]) -> int:
        called.append((config["a"], config["b"]))
        return 1000

    def judged(_: Any, result: Any) -> bool:
        return bool(result[0][0] == 10)

    arguments, size = [np.zeros(1, np.int32)], lambda config: (4000, 1000 if config["a"] % 2 else 1001)
    rows, _ = tune_kernel(
        "blocks", source, size, arguments, parameters, divisor, lambda config: 1000 if config["a"] % 2 else 501,
        verify=judged, strategy_options={"max_fevals": 6}, quiet=True,
    )  # fmt: skip
    assert len(rows) == 6
    assert [("__error__" in row) for row in rows] == [row["a"] % 2 == 1 for row in rows]
    assert {(row["a"], row["b"]) for row in rows} <= {*called}
    assert len(called) < 100


def test_a_text_that_divides_by_zero_is_named_with_the_configuration_as_kernel_tuner_ends_there() -> None:
    with pytest.raises(ExpressionError) as caught:
        scale(restrictions=["8 % (unroll - 2) == 0", "width < 2"])
    assert str(caught.value).startswith("restriction `8 % (unroll - 2) == 0`: division by zero at unroll=2; exclude")
    rows, _ = scale(restrictions=["unroll != 2 and 8 % (unroll - 2) == 0"])
    assert {row["unroll"] for row in rows} == {1, 4}


def test_both_limits_of_a_budget_hold_and_their_faults_are_told_as_keywords() -> None:
    assert len(scale(strategy_options={"max_fevals": 2, "time_limit": 600})[0]) == 2
    assert 1 <= len(scale(strategy_options={"max_fevals": 5, "time_limit": 0.001}, fresh=True)[0]) < 5
    assert len(scale(strategy="random_sample", strategy_options={"fraction": 0.5, "max_fevals": 4}, fresh=True)[0]) == 3
    for options, message in (
        ({"budget": "2x"}, "budget='2x': write a number of configurations from 1 to"),
        ({"budget": "3,4"}, "budget='3,4': write a number"),
        ({"timeout": 0.5}, "timeout=0.5: must be 1 to"),
        ({"strategy": "no_such"}, "strategy='no_such': there is no such strategy"),
    ):
        with pytest.raises(RequestError) as caught:
            scale(**options)
        assert str(caught.value).startswith(message)


def test_a_fresh_call_measures_what_trials_and_the_cache_file_have(tmp_path: Path) -> None:
    def finished(**options: Any) -> list[str]:
        return [row["timestamp"] for row in scale(parameters=TWO, cache=tmp_path / "cache", **options)[0]]

    first = finished()
    assert finished() == first
    again = finished(fresh=True)
    assert not {*first} & {*again}
    assert finished() == again


def test_the_cache_file_has_each_row_at_once_and_outlives_a_process_that_is_killed_in_the_midst(tmp_path: Path) -> None:
    file, seen = tmp_path / "cache.json", list[int]()

    def rate(row: dict[str, Any]) -> float:
        seen.append(len(file.read_text().splitlines()))
        return 1 / (row["unroll"] - 4)

    with pytest.raises(RequestError, match="division by zero"):
        scale(cache=file, metrics={"rate": rate}, strategy="brute_force")
    held = file.read_text()
    assert held.endswith(",")
    assert seen == sorted({*seen})
    kept = util.read_cache(str(file), open_cache=False)["cache"]
    assert kept.keys() == {"1,0", "1,1", "2,0", "2,1"}
    file.write_text(f'{held}\n"4,0": {{"unroll": 4, "wid')
    rows, _ = scale(cache=file)
    assert len(rows) == 6
    assert json.loads(file.read_text())["cache"].keys() == {f"{u},{w}" for u in (1, 2, 4) for w in (0, 1)}
    rows, env = scale(cache=file)
    assert len(rows) == 6
    assert (bool(env["device_name"]), env["kernel_name"]) == (True, "scale")


def faulty(where: str) -> BenchmarkObserver:
    """An observer whose class is sent to the worker as it is, as are those of a script."""

    class Faulty(BenchmarkObserver):
        def after_finish(self) -> None:
            if where == "after_finish":
                raise ValueError("broken")

        def get_results(self) -> Any:
            return 7 if where == "result" else {}

    return Faulty()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (
            "after_finish",
            r"after_finish\(\) raises ValueError: broken at test_runs.py:\d+; correct it and run the script",
        ),
        ("result", r"get_results\(\) returns 7; return a dictionary"),
    ],
)
def test_an_observer_that_fails_ends_the_run_with_its_class_and_line(where: str, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        scale(observers=[faulty(where)], parameters=TWO)
    assert re.match(rf"observers: Faulty\.{message}", str(caught.value)), caught.value
    assert "\n" not in str(caught.value)
    assert not any("__error__" in row for row in scale(observers=[faulty("")], parameters=TWO)[0])


def test_a_store_refuses_a_grid_that_functions_compute(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="store: functions compute the grid"):
        add(parameters={"block_size_x": [32]}, grid_div_x=lambda config: 32, store=tmp_path / "kernels")
