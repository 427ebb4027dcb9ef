"""Kernel Tuner's own files, written by Kernel Tuner, come in as what they are; its simulation runs on ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from helpers.operations import array, written
from helpers.processes import Tune

kernel_tuner = pytest.importorskip("kernel_tuner")

pytestmark = [
    pytest.mark.filterwarnings("ignore:The metaschema"),  # of Kernel Tuner's own results
    pytest.mark.filterwarnings("ignore:None of the tunable parameters specify"),
]

DEVICE = "NVIDIA A100-SXM4-80GB"
ARGUMENTS = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
CODE = "void f(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }"
TIMED = """
float f(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
    return 0.03125f * a;
}
"""


def space(folder: Path, **more: Any) -> Path:
    """A space file of a kernel `f` with a parameter `a`."""
    return written(folder, CODE, ARGUMENTS, "2 * x", **{"parameters": {"a": [1, 2, 4]}, **more})


def results(file: Path, rows: dict[Any, list[dict[str, Any]]], device: str = DEVICE, **more: Any) -> Path:
    """A results file of Kernel Tuner's, with these rows for each problem size."""
    from kernel_tuner.integration import store_results

    for size, timed in rows.items():
        parameters = {name: [0] for name in timed[0] if name != "time"}
        store_results(file, "f", None, parameters, size, timed, {"device_name": device}, **more)
    return file


def tuned(folder: Path, parameters: dict[str, list[Any]], **more: Any) -> list[dict[str, Any]]:
    """What Kernel Tuner measures of this kernel in C, whose time it believes."""
    n = 256
    arguments = [np.zeros(n, np.float32), np.ones(n, np.float32), np.int32(n)]
    cache = str(folder / "cache.json")
    return kernel_tuner.tune_kernel(
        "f", TIMED, n, arguments, parameters, lang="C", quiet=True, cache=cache, **more
    )[0]  # fmt: skip


@pytest.mark.parametrize("extent", [None, ["n"], ["n // 4"]])
def test_a_size_takes_the_times_of_that_size_alone(extent: list[str] | None, tune: Tune, tmp_path: Path) -> None:
    file = space(tmp_path, **({"extent": extent} if extent else {}))
    if extent is None:
        data = yaml.safe_load(file.read_text())
        del data["operation"]["extent"]
        file.write_text(yaml.safe_dump(data, sort_keys=False))
    large, small = (1024, 64) if extent == ["n // 4"] else (4096, 256)
    both = results(tmp_path / "r.json", {(large,): [{"a": 2, "time": 0.5}], (small,): [{"a": 1, "time": 0.01}]})
    done = tune("import", both, "--kernel", file, "--size", "4096", "--json")
    assert done.status == 0, done.err
    assert [(one["size"], one["best"]["time_ms"]) for one in done.json] == [({"n": 4096}, 0.5)]
    assert f"left out problem_size {small} on NVIDIA A100 SXM4 80GB" in done.err
    done = tune("import", both, "--kernel", file, "--size", "512", "--device", DEVICE)
    assert (done.status, "but --size is 'n=512'" in done.err) == (2, True), done.err
    assert "`extent:`" in done.err or extent == ["n"]


def test_sizes_that_cannot_be_told_apart_are_refused(tune: Tune, tmp_path: Path) -> None:
    file = space(tmp_path)
    flat = results(tmp_path / "r.json", {(64, 64): [{"a": 2, "time": 0.5}], (16, 16): [{"a": 1, "time": 0.01}]})
    done = tune("import", flat, "--kernel", file, "--size", "4096")
    assert (done.status, "holds times of 2 sizes (problem_size 64x64 on " in done.err) == (2, True), done.err
    one = results(tmp_path / "one.json", {(64, 64): [{"a": 2, "time": 0.5}]})
    assert tune("import", one, "--kernel", file, "--size", "4096").status == 0, "one size, which the user states"


def test_a_cache_of_another_size_is_refused(tune: Tune, tmp_path: Path) -> None:
    tuned(tmp_path, {"a": [1, 2, 4]})
    where = ("import", tmp_path / "cache.json", "--kernel", space(tmp_path), "--device", DEVICE)
    done = tune(*where, "--size", "4096")
    assert (done.status, "its size is 'n=256', but --size is 'n=4096'" in done.err) == (2, True), done.err
    done = tune(*where, "--json")
    assert (done.json[0]["size"], done.json[0]["best"]["config"]) == ({"n": 256}, {"a": 1}), done.err


@pytest.mark.parametrize("objective", ["time", "nvml_energy"])
def test_an_energy_is_no_time(objective: str, tune: Tune, tmp_path: Path) -> None:
    from kernel_tuner.file_utils import store_output_file
    from kernel_tuner.observers.observer import BenchmarkObserver

    class Energy(BenchmarkObserver):
        def get_results(self) -> dict[str, float]:
            return {"nvml_energy": 35.0}

    parameters = {"a": [2, 1]}
    measured = tuned(tmp_path, parameters, observers=[Energy()])
    t4 = tmp_path / "t4.json"
    store_output_file(str(t4), measured, parameters, objective)
    assert [m["name"] for m in json.loads(t4.read_text())["results"][0]["measurements"]] == ["nvml_energy", "time"]
    where = ("--kernel", space(tmp_path), "--size", "256", "--device", DEVICE, "--json")
    done = tune("import", t4, *where)
    assert done.json[0]["best"] == {"config": {"a": 1}, "time_ms": 0.03125, "verified": False}, done.err
    assert tune("replay", t4, "--json").json["optimum_ms"] == 0.03125
    for result in measured:
        del result["time"]
    store_output_file(str(t4), measured, parameters, "nvml_energy")
    done = tune("import", t4, *where)
    assert (done.status, "a time is the measurement `time`; there are nvml_energy)" in done.err) == (2, True), done.err


def test_another_objective_is_a_time_if_its_unit_says_so(tune: Tune, tmp_path: Path) -> None:
    file, t4 = space(tmp_path), tmp_path / "t4.json"
    where = ("import", t4, "--kernel", file, "--size", "256", "--device", DEVICE, "--json")
    result: dict[str, Any] = {"configuration": {"a": 1}, "objectives": ["latency"]}
    result["measurements"] = [{"name": "latency", "value": 5, "unit": "us"}]
    t4.write_text(json.dumps({"results": [result]}))
    assert tune(*where).json[0]["best"]["time_ms"] == 0.005
    result["measurements"][0]["unit"] = ""
    t4.write_text(json.dumps({"results": [result]}))
    assert tune(*where).status == 2


def test_a_group_that_cannot_be_used_blocks_no_other(tune: Tune, tmp_path: Path) -> None:
    file = space(tmp_path)
    rows = {(64,): [{"old": 2, "time": 0.25}], (128,): [{"a": 16, "time": 0.5}], (256,): [{"a": 1, "time": 0.01}]}
    mixed = tmp_path / "r.json"
    for size, timed in rows.items():
        one = json.loads(results(tmp_path / f"{size[0]}.json", {size: timed}).read_text())
        if mixed.exists():
            one["data"] += json.loads(mixed.read_text())["data"]
        mixed.write_text(json.dumps(one))
    data = json.loads(mixed.read_text())
    data["data"] = [*data["data"][::-1], {"device_name": "x", "problem_size": "8", "time": "broken"}]
    mixed.write_text(json.dumps(data))
    done = tune("import", mixed, "--kernel", file, "--device", DEVICE, "--json")
    assert (done.status, [one["size"] for one in done.json]) == (0, [{"n": 256}]), done.err
    assert "left out problem_size 64 on NVIDIA A100 SXM4 80GB: " in done.err
    assert "its parameters are old, but those of" in done.err
    assert "problem_size 128 on NVIDIA A100 SXM4 80GB: " in done.err
    assert "a = 16; allowed: [1, 2, 4]" in done.err
    assert "problem_size 8 on x: " in done.err


def test_a_faster_configuration_that_is_forbidden_is_mentioned(tune: Tune, tmp_path: Path) -> None:
    file = space(tmp_path, restrictions=["a != 2"])
    tuned(tmp_path, {"a": [2, 4]})
    done = tune("import", tmp_path / "cache.json", "--kernel", file, "--device", DEVICE, "--json")
    assert done.json[0]["best"] == {"config": {"a": 4}, "time_ms": 0.125, "verified": False}, done.err
    said = "left out a configuration faster than the best valid one; the fastest takes 0.0625 ms: "
    assert said in done.err
    assert "breaks `a != 2`" in done.err
    assert [said in note for note in done.json[0]["notes"]] == [True]


def test_what_truths_mean_is_said_on_import_and_export(tune: Tune, tmp_path: Path) -> None:
    file = space(tmp_path, parameters={"a": [1, 2], "fast": [True, False]})
    tuned(tmp_path, {"a": [1, 2], "fast": [True, False]})
    said = "fast: true and false are the macros `True` and `False` in Kernel Tuner, which are 0 in `#if`, but 1 and 0"
    done = tune("import", tmp_path / "cache.json", "--kernel", file, "--device", DEVICE)
    assert (done.status, said in done.err) == (0, True), done.err
    assert tune(file, "64", "--device", "host").status == 0
    assert said in tune("export", file, "64", "--to", "kernel-tuner", "--output", tmp_path / "x.json").err
    t1: dict[str, Any] = {"Language": "CUDA", "KernelName": "f", "KernelFile": "f.cu", "ProblemSize": [8]}
    y = {"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "Size": 8}
    t1 = {"KernelSpecification": {**t1, "Arguments": [y]}}
    values = {"Name": "fast", "Type": "bool", "Values": "[True, False]"}
    t1 |= {"ConfigurationSpace": {"TuningParameters": [values]}}
    (tmp_path / "t1.json").write_text(json.dumps(t1))
    (tmp_path / "f.cu").write_text("")
    done = tune("import", tmp_path / "t1.json", "--output", tmp_path / "t1.yaml")
    assert (done.status, said in done.out) == (0, True), done.err


@pytest.mark.slow
def test_a_simulation_spends_the_time_that_tuning_spent(tune: Tune, tmp_path: Path) -> None:
    file, cache, t4 = space(tmp_path), tmp_path / "cache.json", tmp_path / "t4.json"
    assert tune(file, "4096", "--device", "host").status == 0
    assert tune("export", file, "4096", "--to", "kernel-tuner", "--output", cache).err == ""
    entries = json.loads(cache.read_text())["cache"].values()
    for entry in entries:
        assert entry["compile_time"] > 1
        assert entry["verification_time"] > 0
        assert entry["benchmark_time"] > 0
    parameters = {"a": [1, 2, 4]}

    def simulated(**options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        return kernel_tuner.tune_kernel(
            "f", "", 4096, [], parameters, simulation_mode=True, cache=str(cache), quiet=True, lang="C", **options
        )

    found, spent = simulated()
    costs = [entry[name] for entry in entries for name in ("compile_time", "verification_time", "benchmark_time")]
    assert spent["simulated_time"] == pytest.approx(sum(costs))
    assert len(found) == 3
    limit = 0.9e-3 * min(sum(costs[i : i + 3]) for i in range(0, 9, 3))  # s
    limited, _ = simulated(strategy="random_sample", strategy_options={"time_limit": limit})
    assert len(limited) <= 1
    assert tune("export", file, "4096", "--to", "t4", "--output", t4).status == 0
    by_value = {entry["a"]: entry for entry in entries}
    for result in json.loads(t4.read_text())["results"]:
        entry = by_value[result["configuration"]["a"]]
        assert result["times"]["compilation"] == entry["compile_time"]
        assert result["times"]["validation"] == entry["verification_time"]
        assert result["times"]["benchmark"] == entry["benchmark_time"]
        assert {"framework", "search_algorithm"} <= result["times"].keys()
    described = json.loads((tmp_path / "t4-metadata.json").read_text())["metadata"]["environment"]["device_query"]
    said = "in ms; compile_time includes the wait for a compile worker"
    assert (json.loads(cache.read_text())["costs"], described["costs"]) == (said, said)


@pytest.mark.slow
def test_a_simulation_needs_no_limits_of_the_device(tune: Tune, tmp_path: Path) -> None:
    restrictions = ["a * b <= max_threads", "a != b"]
    file = space(tmp_path, parameters={"a": [1, 2], "b": [1, 2, 1 << 20]}, restrictions=restrictions)
    cache = tmp_path / "cache.json"
    done = tune(file, "4096", "--device", "host", "--json")
    assert done.status == 0, done.err
    assert tune("export", file, "4096", "--to", "kernel-tuner", "--output", cache).err == ""
    found, _ = kernel_tuner.tune_kernel(
        "f", "", 4096, [], {"a": [1, 2], "b": [1, 2, 1 << 20]}, simulation_mode=True, cache=str(cache), quiet=True,
        lang="C",
    )  # fmt: skip
    right = {(one["a"], one["b"]) for one in found if "__error__" not in one}
    assert (len(found), len(right)) == (6, done.json["evaluated"])
    assert tune("replay", cache, "--json").json["configurations"] == done.json["evaluated"], "ours alone"
    assert tune(file, "512", "--device", "host", "--budget", "1").status == 0
    done = tune("export", file, "512", "--to", "kernel-tuner", "--output", cache)
    assert "configurations have no trial; Kernel Tuner's simulation fails when it asks for one" in done.err


def test_costs_that_nobody_knows_are_said(tune: Tune, tmp_path: Path) -> None:
    done = tune("export", "sgemm/07_tiled_1xn", "4096", "--to", "kernel-tuner", "--output", tmp_path / "x.json")
    assert "unknown of 92 of 92 trials and is written as 0, so a time limit of a simulation" in done.err, done.err
