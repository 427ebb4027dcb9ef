"""`tune KERNEL SIZE`, for real, on the host and on OpenCL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, start

Tune = Callable[..., Done]
Stage = Callable[..., Path]

BLAS_ARGUMENTS = "float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha, float beta"
MULTIPLY = """
    for (int i = 0; i < batch * M; i++) for (int j = 0; j < N; j++) {
        float s = 0;
        for (int k = 0; k < K; k++) s += A[i * K + k] * B[(i / M) * K * N + k * N + j];
        C[i * N + j] = beta == 0 ? alpha * s : alpha * s + beta * C[i * N + j];
    }
"""


def c_kernel(name: str, body: str, before: str = "") -> str:
    return f"#include <stdlib.h>\n#include <unistd.h>\n{before}\nvoid {name}({BLAS_ARGUMENTS}) {{\n{body}\n}}\n"


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
    assert known["record"]["default_ms"] >= best["time_ms"]

    run = tune("run", kernel, size, "--device", device, "--json", "--set", "alpha=2", "--set", "beta=0.5")
    assert run.status == 0
    assert run.json["verified"] is True
    assert run.json["config"] == best["config"]
    assert run.json["time_ms"] > 0


def test_what_was_measured_is_not_measured_again(tune: Tune) -> None:
    first = tune("sgemm/01_host_blocked", "32", "--json", "--repeats", "3", "--budget", "5")
    assert first.json["evaluated"] == 5
    again = tune("sgemm/01_host_blocked", "32", "--json", "--repeats", "3")
    assert again.json["evaluated"] == again.json["configurations"] == 12
    assert "5 measured before" in again.err
    fresh = tune("sgemm/01_host_blocked", "32", "--json", "--repeats", "3", "--fresh")
    assert "measured before" not in fresh.err


def nth(lines: list[str], word: str, number: int) -> int:
    """Where a journal says `word` for the nth time."""
    return [i for i, line in enumerate(lines) if f'"{word}"' in line][number]


@pytest.mark.parametrize(
    ("damage", "left"),
    [
        (lambda lines: [*lines[:-1], lines[-1][:20]], 5),  # it says that a trial is closed; what it is, came before
        (lambda lines: [*lines[:-2], lines[-2][:40]], 4),
        (lambda lines: [*lines[: (i := nth(lines, "measured", 0))], "garbage", *lines[i + 1 :]], 4),
        (lambda lines: [*lines[: (i := nth(lines, "params", 1))], *lines[i + 1 :]], 5),
        (lambda lines: [*lines[: (i := nth(lines, "measured", 0))], lines[i] + lines[i + 1], *lines[i + 2 :]], 4),
        (lambda lines: ["", *lines], 0),
        (lambda lines: lines, 5),
    ],
    ids=["closing cut", "result cut", "garbage", "claim lost", "two lines in one", "no study", "no last newline"],
)
def test_a_damaged_ledger_loses_what_is_damaged_and_no_more(
    damage: Callable[[list[str]], list[str]], left: int, tune: Tune, tmp_path: Path
) -> None:
    request = ("sgemm/01_host_blocked", "16", "--json", "--repeats", "1", "--budget", "5")
    assert tune(*request).status == 0
    (ledger,) = (tmp_path / "state").rglob("*.log")
    damaged = damage(ledger.read_text().splitlines())
    ledger.write_text("\n".join(damaged))
    again = tune(*request)
    assert again.status == 0
    assert (f"{left} measured before" in again.err) == (left > 0)
    torn = ledger.with_suffix(".torn")
    assert set(damaged) <= set((ledger.read_text() + (torn.read_text() if torn.exists() else "")).splitlines())
    assert "5 measured before" in tune(*request).err


def test_random_sampling_with_one_seed_asks_for_the_same_configurations(tune: Tune, tmp_path: Path) -> None:
    asked = []
    for run in "ab":  # with a store of its own, whose best would begin the search
        os.environ["TUNER_STATE"], results = str(tmp_path / run), str(tmp_path / f"{run}-results")
        request = ("sgemm/01_host_blocked", "16", "--results", results, "--json", "--strategy", "random", "--seed", "7")
        done = tune(*request, "--budget", "4")
        assert done.json["evaluated"] == 4
        (ledger,) = (tmp_path / run).rglob("*.log")
        entries = [json.loads(line) for line in ledger.read_text().splitlines()]
        asked.append([entry["params"] for entry in entries if "params" in entry])
    assert asked[0] == asked[1]
    assert len({json.dumps(params) for params in asked[0]}) == 4


def test_a_configuration_that_fails_is_counted_with_its_reason_and_the_run_goes_on(tune: Tune, stage: Stage) -> None:
    body = f"""
    #if mode == 1
        this does not compile
    #elif mode == 2
        return;                 /* nothing is written */
    #elif mode == 3
        abort();
    #elif mode == 4
        *(volatile int *)0 = 1;
    #elif mode == 5
        for (;;) usleep(1000);
    #elif mode == 6
        C[-1] = 0;
    #elif mode == 8
        if (M * N * K > 0 && beta == 0) alpha += 0; beta = 0;   /* right as long as beta is 0 */
    #elif mode == 7
        exit(3);
    #endif
    {MULTIPLY}
    """
    file = stage(c_kernel("faulty", body), "faulty", "{mode: [1, 2, 3, 0, 4, 5, 6, 7, 8]}")
    done = tune(file, "20", "--json", "--timeout", "4")
    assert done.status == 0, done.err
    result = done.json
    assert result["evaluated"] == 9
    assert result["failed"] == {
        "compile": 1,
        "not a number": 1,
        "writes outside": 1,
        "crash": 3,
        "timeout": 1,
        "finals": 1,
    }
    assert "with alpha=1.5, beta=0.5: C[0, 0, 0]" in done.err
    assert result["best"]["config"] == {"mode": 0}
    assert "this" in done.err, "the compiler's log"
    assert "SIGABRT" in done.err or "SIGSEGV" in done.err or "status 3" in done.err


def test_an_opencl_configuration_that_does_not_compile_or_launch_is_counted(tune: Tune, stage: Stage) -> None:
    text = """
    #if mode == 1
    this does not compile
    #endif
    #if mode == 2
    __attribute__((reqd_work_group_size(7, 1, 1)))
    #endif
    __kernel void picky(__global float *C, __global const float *A, __global const float *B, int M, int N, int K,
                        int batch, float alpha, float beta) {
        int i = get_global_id(0);
        if (i >= M * N) return;
        float s = 0;
        for (int k = 0; k < K; k++) s += A[i / N * K + k] * B[k * N + i % N];
        C[i] = mode == 3 ? s + 1 : beta == 0 ? alpha * s : alpha * s + beta * C[i];
    }
    """
    more = "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]"
    done = tune(stage(text, "picky", "{mode: [0, 1, 2, 3]}", "opencl", more), "20", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"compile": 1, "launch": 1, "wrong result": 1}


def test_an_opencl_kernel_with_other_arguments_than_its_space_declares_is_told(tune: Tune, stage: Stage) -> None:
    for arguments, told in (("__global float *C", "takes 1 arguments, and its space declares 9"),
                            ("__global float *C, __global float *A, __global float *B, int M, int N, int K, int batch, "
                             "double alpha, double beta", "argument 8 of other: ")):  # fmt: skip
        more = "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]"
        text = f"__kernel void other({arguments}) {{}}"
        done = tune(stage(text, "other", "{mode: [0]}", "opencl", more), "20", "--timeout", "60")
        assert done.status == 1
        assert told in done.err


def test_a_slow_default_does_not_win_because_the_five_fastest_fail_in_the_finals(tune: Tune, stage: Stage) -> None:
    body = f"""
    if (mode == 7) usleep(20000);
    if (mode == 6) usleep(3000);
    if (alpha != 1.0f && mode < 5) alpha = 0;
    {MULTIPLY}
    """
    file = stage(c_kernel("late", body), "late", "{mode: [0, 1, 2, 3, 4, 6, 7]}", more="default: {mode: 7}")
    done = tune(file, "8", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"finals": 5}
    assert done.json["best"]["config"] == {"mode": 6}
    record = tune("best", file, "8", "--json").json["record"]
    assert record["default_ms"] > 3 * record["time_ms"]


def test_two_objectives_give_the_front_and_the_fastest_is_stored(tune: Tune, stage: Stage) -> None:
    """Time falls with the shared memory; `waste` costs memory and time, and buys nothing."""
    text = """
    __kernel void traded(__global float *C, __global const float *A, __global const float *B, int M, int N, int K,
                         int batch, float alpha, float beta) {
        __local float shared[64 * memory + 64 * waste];
        int i = get_global_id(0);
        for (volatile int j = 0; j < (wrong ? 10000 : 100000) / memory; j++) shared[get_local_id(0)] = j;
        for (volatile int j = 0; j < 300000 * waste; j++) shared[get_local_id(0)] = j;
        if (i >= M * N) return;
        float s = shared[get_local_id(0)] * 0;
        for (int k = 0; k < K; k++) s += A[i / N * K + k] * B[k * N + i % N];
        C[i] = wrong && alpha != 1 ? 0 : beta == 0 ? alpha * s : alpha * s + beta * C[i];
    }
    """
    more = "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]"
    file = stage(text, "traded", "{memory: [1, 4, 16], waste: [0, 1], wrong: [0, 1]}", "opencl", more)
    done = tune(file, "8", "--objective", "time,shared_memory", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"finals": 3}, "and then what each of them has hidden is measured again"
    assert [point["config"] for point in done.json["front"]] == [
        {"memory": m, "waste": 0, "wrong": 0} for m in (16, 4, 1)
    ]
    assert [point["shared_memory_bytes"] for point in done.json["front"]] == [4096, 1024, 256]
    times = [point["time_ms"] for point in done.json["front"]]
    assert times == sorted(times)
    assert done.json["best"]["config"] == {"memory": 16, "waste": 0, "wrong": 0}
    assert tune("best", file, "8", "--json").json["match"] == "exact"

    again = tune(file, "8", "--objective", "time,shared_memory", "--strategy", "optuna:nsga2", "--budget", "12")
    assert "12 measured before" in again.err
    assert "shared_memory_bytes" in again.out


def test_a_finalist_that_fails_the_second_time_leaves_the_place_to_the_next(tune: Tune, stage: Stage) -> None:
    before = "static int calls;"
    body = f"""
    calls++;
    if (mode == 1 && calls > 23) abort();    /* in the final: at most 21 timed runs and two more come before it */
    if (mode == 2 && calls > 23) alpha = 0;
    if (mode == 0) usleep(2000);
    {MULTIPLY}
    """
    file = stage(c_kernel("fickle", body, before), "fickle", "{mode: [0, 1, 2]}")
    done = tune(file, "8", "--json")
    assert done.status == 0, done.err
    assert done.json["best"]["config"] == {"mode": 0}
    assert done.json["failed"] == {"finals": 2}
    assert tune("run", file, "8", "--json").json["verified"] is True


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


def test_a_longer_timeout_tries_what_timed_out_again(tune: Tune, stage: Stage) -> None:
    file = stage(c_kernel("late", f"static int n; if (!n++) sleep(2); {MULTIPLY}"), "late", "{a: [1]}")
    assert tune(file, "8", "--json", "--timeout", "1").json["failed"] == {"timeout": 1}
    assert tune(file, "8", "--json", "--timeout", "1").json["failed"] == {"timeout": 1}
    assert tune(file, "8", "--json", "--timeout", "20").json["failed"] == {}


def test_two_runs_of_one_problem_do_not_share_a_ledger(tune: Tune, stage: Stage) -> None:
    file = stage(c_kernel("busy", f"usleep(300000); {MULTIPLY}"), "busy", f"{{a: {list(range(40))}}}")
    first = start(str(file), "8", "--repeats", "1")
    assert first.stderr is not None
    while "1/40" not in first.stderr.readline():
        pass
    second = tune(file, "8", "--repeats", "1")
    first.kill()
    first.communicate()
    assert second.status == 2
    assert "being tuned" in second.err


def test_run_survives_a_kernel_that_crashes(tune: Tune, stage: Stage) -> None:
    file = stage(c_kernel("fatal", "abort();"), "fatal", "{a: [1]}", "c", "default: {a: 1}")
    done = tune("run", file, "8", "--json")
    assert done.status == 1
    assert done.json["verified"] is False
    assert done.json["config"] == {"a": 1}
    assert "SIGABRT" in done.err


def test_a_configuration_without_a_geometry_fails_alone(tune: Tune, stage: Stage) -> None:
    text = """
    __kernel void edge(__global float *C, __global const float *A, __global const float *B, int M, int N, int K,
                       int batch, float alpha, float beta) {
        int i = get_global_id(0);
        if (i >= M * N) return;
        float s = 0;
        for (int k = 0; k < K; k++) s += A[i / N * K + k] * B[k * N + i % N];
        C[i] = beta == 0 ? alpha * s : alpha * s + beta * C[i];
    }
    """
    more = 'grid: ["ceil_div(M * N, 8)"]\nblock: [t * 8]'
    done = tune(stage(text, "edge", "{t: [0, 1]}", "opencl", more), "8", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"geometry": 1}


def test_a_space_in_which_nothing_is_right_exits_with_1(tune: Tune, stage: Stage) -> None:
    file = stage(c_kernel("wrong", "C[0] = 1;"), "wrong", "{a: [1, 2]}")
    done = tune(file, "8", "--json")
    assert done.status == 1
    assert done.json["best"] is None
    assert done.json["failed"] == {"wrong result": 2}
    assert tune("best", file, "8", "--json").json["match"] == "default"


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


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_keeps_its_trials_and_says_how_to_go_on(
    sent: signal.Signals, status: int, stage: Stage, tune: Tune
) -> None:
    body = f"if (mode > 2) usleep(300000); {MULTIPLY}"
    file = stage(c_kernel("slow", body), "slow", f"{{mode: {list(range(40))}}}")
    command = start(str(file), "8", "--json", "--repeats", "1")
    assert command.stderr is not None
    lines = []
    while not lines or not lines[-1].startswith("1/40"):
        lines.append(command.stderr.readline())
        assert lines[-1], "it ended before it could be interrupted"
    began = time.monotonic()
    command.send_signal(sent)
    out, err = command.communicate(timeout=20)
    assert command.returncode == status
    assert time.monotonic() - began < 5
    assert out == ""
    assert "what was measured is kept: the same command goes on from there" in err
    assert "Traceback" not in err
    again = tune(file, "8", "--json", "--repeats", "1", "--budget", "3")
    assert "measured before" in again.err
    assert "lock" not in again.err
    assert again.json["failed"] == {}, "nothing counts as failed because it was interrupted"


def test_a_full_standard_output_is_one_message() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tuner", "list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "standard output: no space left" in done.stderr


def test_a_folder_of_results_that_is_not_there_is_told(tmp_path: Path, tune: Tune) -> None:
    done = tune("best", "03_naive", "64", "--device", "H200", "--results", tmp_path / "mistyped")
    assert done.status == 0
    assert "mistyped: there is no such folder" in done.err


def test_a_pipe_gets_plain_lines(tune: Tune) -> None:
    done = tune("sgemm/00_host_simple", "16")
    assert "\x1b" not in done.out + done.err
    assert "2/2  best" in done.err
    assert done.out.startswith("best: openmp=")


BAD_REQUESTS = {
    ("sgemm/99_nothing", "100"): "did you mean",
    ("03_naiv_", "100"): "did you mean sgemm/03_naive",
    ("sgemm", "100"): "write more of the name",
    ("nowhere.yaml", "100"): "there is no such file",
    ("03_naive", "0"): "whole number from 1 on",
    ("03_naive", "-1"): "whole number from 1 on",
    ("03_naive", "1.5"): "whole number from 1 on",
    ("03_naive", "4096x"): "whole number from 1 on",
    ("03_naive", "10^12"): "whole number from 1 on",
    ("03_naive", "1000000000000"): "int32",
    ("03_naive", "2000000"): "try a smaller size",
    ("03_naive", "1x2"): "2 numbers for M, N, K",
    ("03_naive", "M=1,N=2"): "K not given",
    ("03_naive", "8,9"): "M is given twice",
    ("03_naive", "8,9,10"): "M is given twice",
    ("03_naive", "M=1,N=2,K=3,M=4"): "M is given twice",
    ("03_naive", "8,Q=2"): "no size 'Q'",
    ("03_naive",): "SIZE is missing",
    ("03_naive", "8", "--device", "tpu"): "there is no such device",
    ("03_naive", "8", "--device", "opencl:99"): "OpenCL devices",
    ("03_naive", "8", "--device", "host"): "not on host",
    ("03_naive", "8", "--strategy", "magic"): "there is no such strategy",
    ("03_naive", "8", "--budget", "soon"): "--budget",
    ("03_naive", "8", "--objective", "speed"): "write one of time, energy",
    ("03_naive", "8", "--objective", "time,time"): "write one of time, energy",
    ("03_naive", "8", "--objective", "registers,time"): "the first decides",
    ("03_naive", "8", "--device", "opencl", "--objective", "time,registers"): "it tells shared_memory",
    ("03_naive", "8", "--device", "opencl", "--objective", "energy"): "does not say what energy",
    ("03_naive", "8", "--objective", "time,energy", "--strategy", "kt:pso"): "follows one objective",
    ("03_naive", "8", "--set", "gamma=1"): "no such option",
    ("03_naive", "8", "--set", "alpha=nan"): "NAME=NUMBER",
    ("03_naive", "8", "--nonsense"): "no such option --nonsense",
    ("show", "03_naive", "zero"): "whole number from 1 on",
    ("best", "03_naive", "0"): "whole number from 1 on",
    ("run", "03_naive", "0"): "whole number from 1 on",
    ("run", "nothing", "8"): "there is no such kernel",
    ("validate", "nowhere.yaml"): "No such file",
    ("list", "extra"): "extra",
    ("03_naive", "8", "--seed", "-1"): "--seed",
    ("03_naive", "8", "--timeout", "nan"): "--timeout",
    ("03_naive", "8", "--timeout", "inf"): "--timeout",
    ("report", "--write", "."): "is a directory",
    ("report", "--device", "abacus"): "the store knows none of this name; it has NVIDIA H200",
    ("record", "03_naive", "8", "--device", "opencl", "--output", "/dev/null/x.json"): "--output /dev/null: cannot be",
    ("03_naive", "8x8x8,batch=100000", "--device", "opencl:7"): "OpenCL devices",
}


@pytest.mark.parametrize("request_", BAD_REQUESTS, ids=" ".join)
def test_a_wrong_request_is_one_message_and_exit_2(request_: tuple[str, ...], tune: Tune) -> None:
    done = tune(*request_)
    assert (done.status, done.out) == (2, ""), done.err
    assert BAD_REQUESTS[request_] in done.err
    assert len(done.err.splitlines()) == 1


def test_list_show_and_devices_answer_in_json_and_for_people(tune: Tune) -> None:
    rows = {row["kernel"]: row for row in tune("list", "--json").json}
    assert rows["sgemm/07_tiled_1xn"]["languages"] == ["cuda", "opencl"]
    assert rows["sgemm/07_tiled_1xn"]["parameters"] == 5
    assert "sgemm/07_tiled_1xn" in tune("list").out

    shown = tune("show", "07_tiled_1xn", "4096", "--json").json
    assert shown["configurations"] > 20
    assert shown["default"]["tile_size_x"] == 4
    assert {"that": "block_size_x == block_size_y * tile_size_y",
            "because": "the tile of A is square, as deep as it has rows"} in shown["restrictions"]  # fmt: skip
    assert "restriction" in tune("show", "07_tiled_1xn").out

    kinds = {row["device"]: row for row in tune("devices", "--json").json}
    assert {"opencl:0", "host:0"} <= kinds.keys()
    assert kinds["opencl:0"]["name"] in tune("devices").out
