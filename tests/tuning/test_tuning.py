"""`tune KERNEL SIZE`, for real, on the host, on OpenCL and on CUDA."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.ledgers import asked_for
from helpers.processes import Tune

KEPT = """
title: one element of an array that it changes comes from scratch
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n], role: inout}
    - {name: t, dtype: float32, shape: [n], role: scratch}
    - {name: n, dtype: int32}
  reference: y + where(arange(n) > 0, 1, 0)
kernel: kept
source: kept.c
parameters: {a: [0, 1]}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize(("kernel", "device"), [("sgemm/01_host_blocked", "host"), ("sgemm/03_naive", "opencl")])
def test_tuning_finds_verifies_stores_and_reuses_the_best(kernel: str, device: str, tune: Tune) -> None:
    size = "64x48x80"
    done = tune(kernel, size, "--device", device, "--json", "--repeats", "3", "--budget", "12")
    assert done.status == 0, done.err
    result = done.json
    assert result["kernel"] == kernel
    assert result["size"] == {"M": 64, "N": 48, "K": 80, "batch": 1}
    assert result["evaluated"] == 12 <= result["configurations"]
    assert result["failed"] == {}
    best = result["best"]
    assert best["time_ms"] > 0
    assert best["gflops"] == pytest.approx(2 * 64 * 48 * 80 / best["time_ms"] / 1e6)
    assert best["vs_library"] is None

    known = tune("best", kernel, size, "--device", device, "--json").json
    assert (known["match"], known["stale"], known["config"]) == ("exact", False, best["config"])
    assert known["record"]["error"] <= known["record"]["bound"]
    assert len(known["record"]["next"]) == 8
    assert 1.1 * known["record"]["default_ms"] >= best["time_ms"], "a tie hides a tenth at most"

    run = tune("run", kernel, size, "--device", device, "--json", "--set", "alpha=2", "--set", "beta=0.5")
    assert run.status == 0
    assert run.json["verified"] is True
    assert run.json["config"] == best["config"]
    assert run.json["time_ms"] > 0


@pytest.mark.slow
def test_what_was_measured_is_not_measured_again(tune: Tune, stage: Stage) -> None:
    request = (stage(c_kernel("once", MULTIPLY), "once", "{a: [0, 1, 2, 3]}"), "8", "--json", "--repeats", "3")
    first = tune(*request, "--budget", "2")
    assert first.json["evaluated"] == 2
    assert "M=8, N=8, K=8, batch=1 on " in first.err
    assert ": 2 of 4 configurations\n" in first.err
    less = tune(*request, "--budget", "1")
    assert "\n2/2  best " in less.err, "it asks for one, and both are known"
    again = tune(*request, "--budget", "60s", "--strategy", "brute_force")
    assert again.json["evaluated"] == again.json["configurations"] == 4
    assert ": 4 configurations, 60 s and the finals, 2 measured before\n" in again.err
    fresh = tune(*request, "--budget", "1", "--fresh")
    assert "measured before" not in fresh.err


@pytest.mark.slow
def test_where_all_results_are_wrong_the_messages_say_what_to_do(tune: Tune, stage: Stage) -> None:
    file = stage(c_kernel("astray", f"{MULTIPLY} C[0] += 1;"), "astray", "{a: [0, 1]}")
    done = tune(file, "8", "--repeats", "1")
    assert done.status == 1
    assert "none of 2 configurations is valid; fix the kernel or its reference; if they differ only by" in done.err
    assert "astray 8` says why" in tune("report", file, "8").err
    border = tune(
        stage(c_kernel("border", MULTIPLY.replace("i = 0", "i = 1")), "border", "{a: [0, 1]}"), "8", "--repeats", "1"
    )
    assert "is valid; if the kernel leaves these elements as they are, as those of a border, write `role:" in border.err
    (file.parent / "kept.c").write_text(
        "void kept(float *y, float *t, int n) { for (int i = 0; i < n; i++) y[i] += i ? a * 0 + 1 : t[0]; }"
    )
    (file.parent / "kept.yaml").write_text(KEPT)
    kept = tune(file.parent / "kept.yaml", "64", "--repeats", "1")
    assert "valid; if the kernel reads scratch before it writes it, give that scratch `zeroed: each`; else" in kept.err
    wrong = "static int runs; if (a == 0 || (a == 1 && ++runs % 2 == 0)) C[0] += 1;"  # at once, and in a later run
    mostly = tune(stage(c_kernel("mostly", f"{MULTIPLY} {wrong}"), "mostly", "{a: [0, 1, 2]}"), "8", "--repeats", "1")
    assert "2 of 3 configurations give wrong results; fix the kernel or its reference; if they" in mostly.err
    assert "; if a parameter changes what is computed, such as a number of rounds, give it the source's" in mostly.err


@pytest.mark.slow
def test_random_sampling_with_one_seed_asks_for_the_same_configurations(
    tune: Tune, stage: Stage, tmp_path: Path
) -> None:
    file, asked = stage(c_kernel("drawn", MULTIPLY), "drawn", f"{{a: {list(range(12))}}}"), []
    for run in "ab":  # with a store of its own, whose best would begin the search
        os.environ["TUNER_STATE"], results = str(tmp_path / run), str(tmp_path / f"{run}-results")
        request = (file, "8", "--results", results, "--json", "--repeats", "1", "--strategy", "random", "--seed", "7")
        done = tune(*request, "--budget", "4")
        assert done.json["evaluated"] == 4
        (journal,) = (tmp_path / run).rglob("*.log")
        asked.append(asked_for(journal))
    assert asked[0] == asked[1]
    assert len({json.dumps(params) for params in asked[0]}) == 4


@pytest.mark.slow
def test_a_tightened_restriction_or_tolerance_does_not_let_old_trials_win(tune: Tune, stage: Stage) -> None:
    def write(more: str) -> Path:
        return stage(c_kernel("narrow", f"if (a == 2) usleep(1000); {MULTIPLY}"), "narrow", "{a: [1, 2]}", "c", more)

    file = write("")
    assert tune(file, "8", "--json").json["best"]["config"] == {"a": 1}
    write("restrictions: [a == 2]")
    again = tune(file, "8", "--json").json
    assert again["best"]["config"] == {"a": 2}
    assert again["configurations"] == 1
    assert again["stored"] is True, "the faster one is no longer valid"
    assert tune("best", file, "8", "--json").json["match"] == "exact"


@pytest.mark.slow
def test_an_edited_kernel_never_gets_old_times(tune: Tune, stage: Stage) -> None:
    file = stage(c_kernel("edited", MULTIPLY), "edited", "{a: [1, 2]}")
    assert tune(file, "8", "--json").status == 0
    stage(c_kernel("edited", "/* a comment */" + MULTIPLY), "edited", "{a: [1, 2]}")
    assert tune("best", file, "8", "--json").json["stale"] is False
    stage(c_kernel("edited", "volatile int other = 0; (void)other;" + MULTIPLY), "edited", "{a: [1, 2]}")
    known = tune("best", file, "8", "--json")
    assert known.json["stale"] is True
    assert "earlier version" in known.err
    assert "measured before" not in tune(file, "8", "--json").err
    assert tune("best", file, "8", "--json").json["stale"] is False


@pytest.mark.gpu
def test_tuning_on_cuda_stores_a_verified_record_with_cublas_beside_it(tune: Tune) -> None:
    done = tune("sgemm/07_tiled_1xn", "1024", "--device", "cuda", "--budget", "6", "--sustained", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {}
    best = done.json["best"]
    assert 0.05 < best["vs_library"] < 1.5
    assert best["vs_best_library"] < 1.1 * best["vs_library"]
    assert best["sustained"].keys() == {"kernel", "library", "best_library"}
    for run in best["sustained"].values():
        assert min(run["time_ms"], run["clock_mhz"], run["power_w"]) > 0
    run = tune("run", "sgemm/07_tiled_1xn", "1024", "--device", "cuda", "--json")
    assert run.json["verified"] is True
    assert "cuBLASLt" in run.json["best_library"]
    assert run.json["match"] == "exact"
