"""A fault that shows in few runs, or only after many, is found before a configuration is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.operations import array, written
from helpers.processes import Tune

pytestmark = pytest.mark.usefixtures("whole_finals")

# `mode` 0 is right and slow; 1 is fast, and wrong in some calls: more than a quiet search and its rounds take.
C = """
#include <unistd.h>
void f(float *y, const float *x, int n) {
    static int calls;
    calls++;
    if (mode == 0) usleep(300);
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
    if (WRONG) y[n / 2] += 1;
}
"""
GPU = """
#include "portable.h"
__device__ int threads;
KERNEL void f(GLOBAL float *y, GLOBAL const float *x, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    const int calls = atomicAdd(&threads, 1) / (int)(gridDim.x * 64) + 1;
    if (i >= n) return;
    float sum = x[i];
    for (int k = 0; mode == 0 && k < 20000; k++) sum = sum * 1.0000001f + 1e-30f * y[i];
    y[i] = sum == 77.0f ? 0 : 2 * x[i];
    if (i == n / 2 && (WRONG)) y[i] += 1;
}
"""
FAULTS = {
    "in one of 215 calls": "mode && calls % 215 == 214",
    "after 205 calls, always": "mode && calls > 205",
}
ARRAYS = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]


def faulty(folder: Path, wrong: str, language: str = "c", **more: Any) -> Path:
    more |= {} if language == "c" else {"block": [64], "grid_divisors": {"x": [64]}}
    code = (C if language == "c" else GPU).replace("WRONG", wrong)
    return written(folder, code, ARRAYS, "2 * x", language, **{"parameters": {"mode": [0, 1]}, **more})


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_the_search_does_not_see_is_found_before_the_best_is_stored(
    fault: str, tune: Tune, tmp_path: Path
) -> None:
    file = faulty(tmp_path, FAULTS[fault])
    done = tune(file, "1000", "--device", "host", "--json")
    assert done.status == 0, done.err
    assert (done.json["failed"], done.json["best"]["config"]) == ({"finals": 1}, {"mode": 0})
    assert "right in its first run, wrong in a later one" in done.json["failures"][0]["message"]
    record = tune("best", file, "1000", "--device", "host", "--json").json["record"]
    assert (record["config"], record["compared_runs"]) == ({"mode": 0}, 228)
    assert record["fault_rate"] == pytest.approx(0.02, rel=0.01)
    assert [each["config"] for each in record["next"]] == []
    again = tune(file, "1000", "--device", "host", "--json")
    assert again.json["best"]["config"] == {"mode": 0}


@pytest.mark.slow
def test_the_user_may_ask_for_more_runs(tune: Tune, tmp_path: Path) -> None:
    file = faulty(tmp_path, "mode && calls > 1000")
    done = tune(file, "1000", "--device", "host", "--json")
    assert done.json["best"]["config"] == {"mode": 1}
    done = tune(file, "1000", "--device", "host", "--json", "--verify", "1200")
    assert (done.status, done.json["best"]["config"]) == (0, {"mode": 0}), done.err
    record = tune("best", file, "1000", "--device", "host", "--json").json["record"]
    assert record["compared_runs"] == 1200
    assert record["fault_rate"] == pytest.approx(1 - 0.01 ** (1 / 1200))
    refused = tune(file, "1000", "--device", "host", "--verify", "10")
    assert refused.status == 2
    assert "--verify" in refused.err
    assert "228" in refused.err


@pytest.mark.slow
def test_a_crash_in_a_late_run_counts_against_the_configuration(tune: Tune, tmp_path: Path) -> None:
    file = faulty(tmp_path, "mode && calls > 205 && *(volatile int *)8")
    done = tune(file, "1000", "--device", "host", "--json")
    assert (done.status, done.json["best"]["config"]) == (0, {"mode": 0}), done.err
    assert done.json["failures"][0]["message"].startswith("crash: ")


@pytest.mark.slow
def test_runs_that_nothing_is_compared_with_are_not_counted(tune: Tune, tmp_path: Path) -> None:
    code = "void f(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }"
    assert tune(written(tmp_path, code, ARRAYS, "none"), "1000", "--device", "host").status == 0
    record = tune("best", tmp_path / "f.yaml", "1000", "--device", "host", "--json").json["record"]
    assert (record["compared_runs"], record["fault_rate"]) == (None, None)


@pytest.mark.gpu
@pytest.mark.parametrize("fault", FAULTS)
def test_a_rare_fault_is_found_on_cuda(fault: str, tune: Tune, tmp_path: Path) -> None:
    """As many runs as by default, however long they take on a GPU that others use, too."""
    file = faulty(tmp_path, FAULTS[fault], "cuda")
    done = tune(file, "1000", "--device", "cuda", "--json", "--verify", "228")
    assert done.status == 0, done.err
    assert done.json["best"]["config"] == {"mode": 0}
