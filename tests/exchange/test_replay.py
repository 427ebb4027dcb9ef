"""Recorded spaces, searched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.processes import Tune
from helpers.recordings import RECORDED
from tuner.exchange.replay import replay
from tuner.search.budget import Budget
from tuner.tuning.recordings import recording


@pytest.mark.slow
def test_replay_prints_one_document(tmp_path: Path, tune: Tune) -> None:
    path = tmp_path / "made.json.gz"
    recording.write(path, RECORDED)
    done = tune("replay", path, "--strategy", "kt:genetic_algorithm", "--budget", "10", "--seed", "3", "--json")
    assert done.status == 0, done.err
    result = done.json
    assert (result["strategy"], result["seed"], result["optimum_ms"]) == ("kt:genetic_algorithm", 3, 1.0)
    assert len(result["evaluations"]) == 10
    assert all(t is None or t >= 1 for t in result["evaluations"])
    assert result["seconds_in_strategy"] > 0
    assert "best found: 1 ms, 100.0% as fast as the optimum, 1 ms" in tune("replay", path).out


def test_failed_configurations_are_charged() -> None:
    done = replay(RECORDED)
    assert done.strategy == "brute_force"
    assert len(done.evaluations) == 18
    assert sum(t is None for t in done.evaluations) == 2
    assert (done.fraction(18), done.within(0.0)) == (1.0, done.evaluations.index(1.0) + 1)
    assert done.fraction(0) == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strategy", "magic"), "there is no such strategy; there are: optuna"),
        (("--budget", "2m"), "write a number of trials, such as 100"),
        (("--budget", "0"), "--budget '0'"),
        (("--workers", "0"), "workers"),
    ],
)
def test_a_wrong_replay_is_one_message(arguments: tuple[str, ...], message: str, tmp_path: Path, tune: Tune) -> None:
    path = tmp_path / "made.json"
    recording.write(path, RECORDED)
    done = tune("replay", path, *arguments)
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert tune("replay", tmp_path / "none.json").status == 2


def test_several_workers_give_one_trace_for_a_seed() -> None:
    first = replay(RECORDED, "optuna", Budget(evaluations=16), seed=2, workers=4)
    assert first.evaluations == replay(RECORDED, "optuna", Budget(evaluations=16), seed=2, workers=4).evaluations
    assert len(first.evaluations) == 16


@pytest.mark.slow
def test_the_benchmark_makes_tables_and_a_plot_and_repeats_no_run_that_it_has(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    recording.write(folder / "made.json.gz", RECORDED)
    mode = {"evaluations": 6, "workers": 2, "noise": 0.05, "shuffled": True, "transfer": 0}
    about = {"mode": mode, "strategy": "optuna", "space": "made", "kernel": RECORDED.kernel, "device": ""}
    had = {**about, "seed": 0, "fractions": [0.25] * 6, "within": [7] * 3, "seconds": 0.0, "rows": []}
    (tmp_path / "runs.jsonl").write_text(json.dumps(had) + '\n{"mode": {"evalu')  # what a run that was cut leaves
    script = [sys.executable, ROOT / "benchmarks/search.py", folder, "--seeds", "2", "--strategies", "optuna", "random"]
    modes = ["--noise", "0.05", "--shuffle", "--workers", "2", "--at", "3", "6", "--leave-out", "--processes", "1"]
    outputs = ["--spaces", "--beside", "--runs", tmp_path / "runs.jsonl", "--plot", tmp_path / "plot.png"]
    done = subprocess.run(script + modes + outputs, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| strategy | at 3 | at 6 |" in done.stdout
    assert done.stdout.count("| optuna | ") == 2, "of all spaces, and of the only one"
    assert "| random | 0 above, 0 equal, 1 below | 0 above, 0 equal, 1 below |" in done.stdout, "0.25 was kept"
    first, cut, *rest = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert (json.loads(first), cut) == (had, '{"mode": {"evalu')
    runs = [json.loads(line) for line in rest]
    assert sorted((run["strategy"], run["seed"]) for run in runs) == [("optuna", 1), ("random", 0), ("random", 1)]
    assert {len(run["fractions"]) for run in runs} == {6}
    assert all(0 < fraction <= 1 for run in runs for fraction in run["fractions"][2:]), "true times, without noise"
    assert (tmp_path / "plot.png").stat().st_size > 1000
