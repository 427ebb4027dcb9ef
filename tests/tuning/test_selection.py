"""The finals: which configurations are measured again, and which are kept."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import cast

import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device, DeviceInfo
from tuner.measure.process import attempts
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.results import Outcome
from tuner.measure.timing.clock import MIN_ROUNDS
from tuner.tuning import driver, exploration
from tuner.tuning.finals import final_round
from tuner.tuning.finals.entrants import Entrants
from tuner.tuning.finals.final_round import FinalRound
from tuner.tuning.finals.preference import NO_PREFERENCE
from tuner.tuning.finals.runners_up import runners_up
from tuner.tuning.ledger.ledger import Ledger
from tuner.tuning.ledger.trial import Trial

pytestmark = pytest.mark.usefixtures("whole_finals")


@pytest.mark.slow
def test_a_slow_default_does_not_win_because_the_five_fastest_fail_in_the_finals(tune: Tune, stage: Stage) -> None:
    body = f"""
    if (mode == 7) usleep(20000);
    if (mode == 6) usleep(500);
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
    assert record["default_spread"] is not None, "far slower, and yet measured in turns: its rounds are short"
    gain = f"{record['default_ms'] / record['time_ms']:.2f} x as fast as the default ({record['default_ms']:.4g} ms"
    assert f"{gain}, spread {record['default_spread']:.1%})" in tune("best", file, "8").out


def test_what_had_the_shortest_run_of_the_search_is_a_finalist_on_a_processor_whatever_its_name(
    stage: Stage, host: Device
) -> None:
    """As where another program interrupted all runs but one. The rule prefers the names of 33 others."""
    space = catalog.load(str(stage(c_kernel("short", MULTIPLY), "short", f"{{v: {[*range(40)]}}}")))
    times = {v: (1.0,) * 7 if v < 5 else (1.5,) * 7 for v in range(39)} | {39: (0.9, *(3.0,) * 6)}
    trials = [Trial({"v": v}, Outcome(times=own), (median(own),)) for v, own in times.items()]
    ledger = cast(Ledger, SimpleNamespace(best=trials, trials=trials))
    task = SimpleNamespace(space=space, method=SimpleNamespace(objectives=("time",)))
    scope, device = scope_of(space, host, "8"), SimpleNamespace(on_processor=True)
    worker = cast(Supervisor, SimpleNamespace(task=task, scope=scope, device=device))
    entrants = Entrants(worker, ledger, cast(FinalRound, None), None, NO_PREFERENCE)
    ranked = [trial.config["v"] for trial in entrants.ranked()]
    assert (len(ranked), ranked[:6]) == (20, [0, 1, 2, 3, 4, 39])


@pytest.mark.slow
def test_times_of_the_search_that_the_finals_contradict_are_measured_again_and_replaced(
    tune: Tune, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when an earlier version stored the times of other code: five configurations look fast, and are not."""
    monkeypatch.setattr(final_round, "MOST_PROCESSES", 1)  # more processes would say the same
    sign = tmp_path / "slow"
    body = f"""
    if (mode >= 5) usleep(3000);
    else if (access("{sign}", F_OK) == 0) usleep(9000);
    {MULTIPLY}
    """
    file = stage(c_kernel("aged", body), "aged", "{mode: [0, 1, 2, 3, 4, 5, 6]}", more="default: {mode: 0}")
    first = tune(file, "8", "--json", "--results", tmp_path / "first")
    assert first.json["best"]["config"]["mode"] < 5
    sign.touch()
    done = tune(file, "8", "--json", "--results", tmp_path / "second")
    assert done.status == 0, done.err
    assert "7 measured before" in done.err
    assert "measuring 5 of the best once more as in the search" in done.err
    assert done.json["best"]["config"]["mode"] >= 5
    assert not re.search(r"mode=[0-4], took .*noise: its times", done.err), "noise does not explain a wrong time"
    times = {}
    for trial in tune("history", file, "8", "--json").json["trials"]:
        times[trial["config"]["mode"]] = trial["time_ms"]  # the latest counts
    assert min(times[mode] for mode in range(5)) > 8
    again = tune(file, "8", "--json", "--results", tmp_path / "third")
    assert "measuring 5 of the best once more" not in again.err
    assert again.json["search_ms"] > 2.5


@pytest.mark.slow
def test_what_may_have_lost_because_other_programs_ran_gets_a_second_look(
    tune: Tune, stage: Stage, tmp_path: Path
) -> None:
    """In their first processes, all runs of mode 0 and every other one of mode 6 are slow, as if their threads shared a
    core, and in later processes none. Beside mode 1, the shortest runs of mode 6 may be near the best; beside mode 0,
    they are not."""
    sign = f'"{tmp_path}/seen" #mode'
    before = f"#include <fcntl.h>\n#define SIGN(mode) {sign}\n#define SIGN_OF(mode) SIGN(mode)\n"
    before += "static int is_slow = -1, runs;"
    body = f"""
    if (is_slow < 0) is_slow = open(SIGN_OF(mode), O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0;
    runs++;
    if (is_slow == 1 && (mode == 0 || mode == 6 && runs % 2)) usleep(10000);
    usleep(mode == 0 ? 400 : mode == 6 ? 700 : mode == 1 ? 1000 : 6000);
    {MULTIPLY}
    """
    file = stage(
        c_kernel("shared", body, before), "shared", "{mode: [0, 1, 2, 3, 4, 5, 6, 7]}", more="default: {mode: 7}"
    )
    done = tune(file, "8", "--json")
    assert done.status == 0, done.err
    assert done.json["best"]["config"] == {"mode": 0}, done.err
    finalists = tune("best", file, "8", "--json").json["record"]["finalists"]
    assert {"mode": 6} in [each["config"] for each in finalists], "it was measured again, too"


@pytest.mark.slow
def test_two_objectives_give_the_front_and_the_fastest_is_stored(tune: Tune, stage: Stage) -> None:
    """Time falls with the shared memory; `waste` costs memory and time, and buys nothing."""
    text = """
    __kernel void traded(__global float *C, __global const float *A, __global const float *B, int M, int N, int K,
                         int batch, float alpha, float beta) {
        __local float shared[64 * memory + 64 * waste];
        int i = get_global_id(0);
        for (volatile int j = 0; j < (wrong ? 1000 : 10000) / memory; j++) shared[get_local_id(0)] = j;
        for (volatile int j = 0; j < 30000 * waste; j++) shared[get_local_id(0)] = j;
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
    assert done.json["failed"] == {"finals": 6}, "what each of them has hidden is measured again, and so are runners-up"
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_runner_up_whose_process_is_killed_every_time_is_none_and_the_run_has_its_record(
    tune: Tune, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "PAUSES", ())  # once tells as much as three times
    body = f"""
    if (mode == 6) usleep(5000);
    if (mode == 6 && alpha != 1.0f) kill(getpid(), SIGKILL);    /* only with the options of the finals */
    {MULTIPLY}
    """
    file = stage(c_kernel("greedy", body, "#include <signal.h>"), "greedy", "{mode: [0, 1, 2, 3, 4, 5, 6]}")
    done = tune(file, "8", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"finals": 1}
    record = tune("best", file, "8", "--json").json["record"]
    assert {runner_up["config"]["mode"] for runner_up in record["next"]} == set(range(6)) - {record["config"]["mode"]}


def test_the_finals_of_a_budget_that_is_over_do_no_more_than_they_must(
    tune: Tune, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where no time is added for other programs: here, the time of the finals is over when they begin."""
    monkeypatch.setattr(exploration, "FINALS_SECONDS", -60.0)
    monkeypatch.setattr(DeviceInfo, "on_processor", property(lambda _: False, lambda *_: None))
    body = f"usleep(3000 * (1 + mode)); {MULTIPLY}"
    file = stage(c_kernel("brief", body), "brief", "{mode: [0, 1, 2, 3, 4, 5, 6, 7, 8]}", more="default: {mode: 8}")
    done = tune(file, "8", "--json", "--budget", "60s", "--repeats", "2")
    assert done.status == 0, done.err
    record = tune("best", file, "8", "--json").json["record"]
    assert (record["rounds"], record["compared_runs"]) == (MIN_ROUNDS, 1)
    finalists = [each["config"] for each in record["finalists"]]
    assert all(each["config"] in finalists for each in record["next"]), "no other runner-up was verified"
    assert record["default_spread"] is not None


SEVENS = """\
title: Sevens
operation:
  sizes: {n: 1000}
  options: {a: 1}
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
    - {name: a, dtype: float32}
  reference: 0 * x + 7 * a
kernel: sevens
languages: [c]
parameters: {mode: [0, 1]}
"""


@pytest.mark.slow
def test_a_record_of_finals_one_by_one_has_what_one_of_joint_finals_has(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "SECONDS", 0.05)
    (tmp_path / "sevens.c").write_text(
        f'#define FINALS "{tmp_path}/begun"'
        + """
    #include <fcntl.h>
    #include <stdlib.h>
    #include <unistd.h>
    void sevens(float *y, const float *x, int n, float a) {
        if (mode == 0 && a != 1.0f) close(creat(FINALS, 0600));
        usleep(mode == 1 ? 2000 : 100);
        if (mode == 1 && access(FINALS, F_OK) == 0) abort();
        for (int i = 0; i < n; i++) y[i] = 0 * x[i] + 7 * a;
    }
    """
    )
    (tmp_path / "sevens.yaml").write_text(SEVENS)
    done = tune(tmp_path / "sevens.yaml", "--sustained", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"finals": 1}
    assert done.json["best"]["sustained"].keys() == {"kernel"}
    record = tune("best", tmp_path / "sevens.yaml", "--json").json["record"]
    assert record["input_sets"] > 1
    assert record["skipped_mutants"] == ["shift of y", "replaced of y", "change of argument x"]


@pytest.mark.gpu
@pytest.mark.parametrize("second", ["energy", "registers"])
def test_time_is_traded_off_against_energy_or_registers(second: str, tune: Tune) -> None:
    strategy = ("--strategy", "optuna:nsga2", "--budget", "6")
    done = tune("07_tiled_1xn", "1024", "--device", "cuda", "--objective", f"time,{second}", *strategy, "--json")
    assert done.status == 0, done.err
    front = done.json["front"]
    values = [tuple(v for name, v in point.items() if name != "config") for point in front]
    assert values == sorted(values)
    assert [second for _, second in values] == sorted((second for _, second in values), reverse=True)
    assert all(value > 0 for point in values for value in point)
    assert done.json["best"]["config"] == front[0]["config"]


def test_runners_up_are_the_best_of_other_grids_and_blocks_before_twins_of_the_best(host: Device, stage: Stage) -> None:
    more = "extent: [M, N]\ngrid: ['ceil_div(M, tile)', 1, 1]\nblock: [threads]"
    file = stage(
        "void apart() {}", "apart", "{tile: [1, 2, 4], threads: [1, 2], twin: [0, 1, 2, 3, 4, 5, 6]}", "opencl", more
    )
    space = catalog.load(str(file))
    ranked = [dict(zip(space.parameters, v, strict=True)) for v in itertools.product([1, 2, 4], [1, 2], range(7))]
    chosen = [tuple(c.values()) for c in runners_up(space, scope_of(space, host, "64"), ranked)]
    assert chosen == [(1, 1, 1), (1, 1, 2), (1, 1, 3), (1, 2, 0), (2, 1, 0), (2, 2, 0), (4, 1, 0), (4, 2, 0)]
