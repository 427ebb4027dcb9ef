"""What `tune KERNEL SIZE` shows while it runs, on terminals and in pipes, and what it tells of its end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import terminal
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.own_kernels import scaled
from helpers.processes import Tune, wait_until
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.cli.screen import progress, status
from tuner.cli.screen.progress import TuningProgress
from tuner.devices import Device
from tuner.measure.results import Outcome
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.progress import SearchStart

FAULTY = f"""
#if v == 0
    this is no C
#endif
    usleep(v == 2 ? 3000 : 1000);
    {MULTIPLY}
    if (v == 1) C[0] += 1;
"""
LEFT = re.compile(r" \d+/10 +\d+% +[\d.]+/(s|min|h) +\d+ s left$")


@pytest.fixture
def faulty(stage: Stage) -> Path:
    """Ten configurations, of which two do not compile, two are wrong, and the next two are slow."""
    return stage(c_kernel("faulty", FAULTY), "faulty", f"{{v: {list(range(5))}, w: [1, 2]}}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "environment", "later"),
    [(60, {"NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}, []), (80, {}, [50, 120, 64])],
    ids=["60 columns, no colour, ASCII", "80 columns, then others"],
)
def test_a_terminal_of_any_width_gets_a_block_that_fits_and_vanishes(
    columns: int, environment: dict[str, str], later: list[int], faulty: Path
) -> None:
    widths = iter(later)

    def resize(rows: list[str]) -> int | None:
        return next(widths, None) if block_of(rows) else None

    request = (str(faulty), "8", "--repeats", "3")
    shown = terminal.tune(*request, columns=columns, environment=environment, resize=resize)
    assert shown.status == 0
    assert all(sum(" left" in row for row in rows) <= 1 for rows in shown.frames), "one block"
    blocks = [block_of(rows) for rows in shown.frames]
    for block in filter(None, blocks):
        assert all(len(row) < max(columns, *later, 0) for row in block)
    early = [block[0] for block in blocks if block and re.search(r" [0-4]/10 ", block[0])]
    assert early
    assert not any(" left" in row or " 0/s" in row for row in early), "too few trials to tell how long others take"
    best = [block for block in blocks if len(block) > 6 and block[1].startswith("best ")]
    assert best, "a block with all there is"
    progress, figures, config, history, hold_up, *failures = best[-1]
    assert LEFT.search(progress), progress
    assert re.fullmatch(r"best [\d.]+ ms, [\de.-]+ GFLOP/s, [\de.-]+ GB/s", figures), figures
    assert re.fullmatch(r"  v=\d w=\d", config)
    bars = "[_.=+*#@-]" if environment.get("PYTHONIOENCODING") == "ascii" else "[▁▂▃▄▅▆▇█]"
    assert re.fullmatch(rf"  [\d.]+ {bars}+ [\d.]+ ms", history), history
    assert re.fullmatch(r"(build|verify|measure) takes \d+% of the time, \w+ \d+%, \w+ \d+%", hold_up), hold_up
    assert re.fullmatch(r"\d failed: [12] (compile|wrong result)(, [12] (compile|wrong result))?", failures[0])
    assert re.fullmatch(r"  last, (compile|wrong result): v=\d w=\d", failures[1])
    assert bool(shown.styles) == ("NO_COLOR" not in environment)
    end = [row for row in shown.frames[-1] if row]
    assert not any(re.search(r" takes \d+% of the time| s left$", row) for row in end)
    (found,) = (number for number, row in enumerate(end) if row.startswith("10/10  best "))
    assert any(row.startswith("best: v=") for row in end[found:])
    full = [row for row in end if len(row) >= columns and not row.strip().startswith("/")]
    assert full == [] or later, "lines end between words, but for paths, unless the terminal becomes narrower"


def block_of(rows: list[str]) -> list[str]:
    """What stands below the header line while the search runs; empty at any other time."""
    numbers = [number for number, row in enumerate(rows) if re.search(r" \d+/10 +\d+% ", row)]
    return [row for row in rows[numbers[-1] :] if row] if numbers else []


@pytest.mark.slow
def test_a_dumb_terminal_gets_plain_lines(faulty: Path) -> None:
    request = (str(faulty), "8", "--repeats", "3", "--budget", "5")
    shown = terminal.tune(*request, columns=200, environment={"TERM": "dumb"})
    assert shown.status == 0
    assert shown.styles == 0
    line = re.compile(r"5/5  best .*: v=\d w=\d .*, (build|verify|measure) \d+%.* 0 s left")
    assert any(line.match(row) for row in shown.frames[-1])


def test_a_second_run_says_which_doubtful_times_it_measures_again(
    host: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    space = catalog.load("sgemm/00_host_simple")
    known = [Trial({"openmp": openmp}, Outcome(times=(2.0,), doubtful=bool(openmp))) for openmp in (0, 1)]
    listener = TuningProgress()
    listener.started(SearchStart(space, host.info, scope_of(space, host, "8"), 2, 2, known, None))
    listener.measured(known[0], 1, known[0])
    listener.close()
    assert ": 2 configurations, 2 measured before; measuring 1 doubtful one again\n" in capsys.readouterr().err
    with_budget = TuningProgress()
    with_budget.started(SearchStart(space, host.info, scope_of(space, host, "8"), 1, 2, known, None))
    with_budget.close()
    limit = "1 of 2 configurations, 2 measured before; measuring 1 doubtful one again, as far as the budget reaches\n"
    assert limit in capsys.readouterr().err
    listener.interrupted()
    assert "interrupted after 1 of 2 configurations" in capsys.readouterr().err


def test_a_search_without_new_results_says_so_and_estimates_no_time_left(
    host: Device, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.2)
    space = catalog.load("sgemm/00_host_simple")
    trials = [Trial({"openmp": 0, "number": number}, Outcome(times=(2.0,))) for number in range(6)]
    listener = TuningProgress()
    listener.started(SearchStart(space, host.info, scope_of(space, host, "8"), 9, 9, [], None))
    for number, trial in enumerate(trials, start=1):
        listener.measured(trial, number, trials[0])
    lines: list[str] = []

    def is_told(text: str) -> bool:
        lines.extend(capsys.readouterr().err.splitlines())
        return any(text in line for line in lines)

    wait_until(lambda: is_told("no result for"))
    rest = [Trial({"openmp": 1, "number": number}, Outcome(times=(2.0,))) for number in range(3)]
    for number, trial in enumerate([*rest, rest[-1]], start=7):  # the last one twice, as if it was doubtful
        listener.measured(trial, min(number, 9), trials[0])
    listener.begun("testing the reference")
    wait_until(lambda: is_told("testing the reference"))
    listener.close()
    assert [line.split()[0] for line in lines].count("9/9") == 1
    assert "testing the reference" in lines, "a line of its own, and not of the start"
    line = next(line for line in lines if "no result for" in line)
    assert line.startswith("6/9  best 2 ms")
    assert line.endswith("no result for 0 s")


@pytest.mark.slow
def test_a_wrong_request_leaves_its_message_alone_on_a_terminal() -> None:
    shown = terminal.tune("sgemm/03_naive", "8", "--device", "opencl:99", columns=200)
    assert shown.status == 2
    rows = [row for row in shown.frames[-1] if row]
    assert len(rows) == 1
    assert rows[0].startswith("error: ")


@pytest.mark.slow
def test_a_pipe_hears_of_the_start_and_then_something_again_and_again(stage: Stage) -> None:
    file = stage(c_kernel("slow", f"usleep(150000); {MULTIPLY}"), "slow", "{v: [1]}")
    sooner = "from tuner.cli.screen import progress; progress.QUIET_SECONDS = 0.1; progress.START_SECONDS = 0.05"
    script = f"{sooner}; from tuner.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, str(file), "8", "--repeats", "1"], capture_output=True, text=True, check=True
    )
    lines = done.stderr.splitlines()
    assert lines[0].startswith("starting: ")  # a step that takes less than QUIET_SECONDS is not told
    assert any(line.startswith("0/1  preparing inputs, answers and the first build") for line in lines), lines
    assert any(re.fullmatch(r"measuring the best 1 again, interleaved, \d+ s", line) for line in lines), lines


@pytest.mark.slow
def test_verbose_tells_what_is_opened_built_and_measured_with_its_times(tune: Tune, faulty: Path) -> None:
    err = tune(faulty, "8", "--repeats", "3", "--budget", "5", "--verbose").err
    for pattern in (
        r"tuner\.search\.listing: .*faulty: 10 valid configurations, .*",
        r"tuner\.measure\.process\.supervisor: host:0: .* is ready for a task after [\d.]+ s",
        r"tuner\.measure\.process\.supervisor: host:0: inputs and answers after [\d.]+ s",
        r"tuner\.measure\.process\.compile_pool: built in [\d.]+ s: v=\d w=\d",
        r"tuner\.tuning\.crew\.run: [\d.]+ ms in \d+ runs "
        r"\(build [\d.]+ s, verify [\d.]+ s, measure [\d.]+ s\): v=\d w=\d",
        r"tuner\.tuning\.finals\.selection: finals: [\d.]+ ms in \d+ rounds: v=\d w=\d",
    ):
        assert re.search(rf"^\d\d:\d\d:\d\d\.\d\d\d {pattern}$", err, re.MULTILINE), (pattern, err)


@pytest.mark.slow
def test_every_failure_is_told_with_its_configuration_at_once_and_later(tune: Tune, faulty: Path) -> None:
    done = tune(faulty, "8", "--repeats", "3", "--json")
    assert done.status == 0, done.err
    assert "`tune failures " in done.err
    assert "tuner." not in done.err, "the library logs, and is silent"
    assert done.json["search_ms"] > 0
    assert done.json["best"]["config"] not in [tie["config"] for tie in done.json["ties"]]
    failures = done.json["failures"]
    expected = [(0, 1, "compile"), (0, 2, "compile"), (1, 1, "wrong result"), (1, 2, "wrong result")]
    assert sorted((f["config"]["v"], f["config"]["w"], f["reason"]) for f in failures) == expected
    assert all(
        "this" in f["message"] if f["reason"] == "compile" else "C[0, 0, 0] = " in f["message"] for f in failures
    )

    later = tune("failures", faulty, "8", "--json").json
    assert later["failed"] == done.json["failed"] == {"compile": 2, "wrong result": 2}
    assert (later["trials"], later["size"]) == (10, done.json["size"])
    assert sorted((f["config"]["v"], f["config"]["w"], f["reason"]) for f in later["failures"]) == expected
    text = tune("failures", faulty, "8").out
    assert "4 of 10 trials failed" in text
    assert "2 compile, always with v=0\n" in text
    assert text.count("\n  v=") == 2, "one for each reason"
    assert tune("failures", faulty, "8", "--all").out.count("\n  v=") == 4
    nothing = tune("failures", faulty, "16")
    assert (nothing.status, len(nothing.err.splitlines())) == (2, 1)
    assert "tune it first" in nothing.err


@pytest.mark.slow
def test_a_knob_is_told_that_fails_always_where_no_other_knob_fails_before(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "both")
    (tmp_path / "both.c").write_text(
        "#if v == 2\n#error no\n#endif\nvoid scale(float *y, const float *x, int n) {\n"
        " for (int i = 0; i < n; i++) y[i] = (w == 3 ? 3 : 2) * x[i];\n}\n"
    )
    file.write_text(file.read_text().replace("{unroll: [1, 2]}", "{v: [0, 1, 2], w: [0, 3]}"))
    assert tune(file, "--repeats", "1").status == 0
    text = tune("failures", file).out
    assert "2 compile, always with v=2\n" in text
    assert "2 wrong result, always with w=3, unless v=2\n" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("a == b", "; all 4 right configurations have a == b, unlike these: a restriction may be missing"),
        ("(a * a + b) % 3 != 0", ""),
    ],
)
def test_a_relation_that_only_right_configurations_have_is_told(
    condition: str, told: str, tune: Tune, tmp_path: Path
) -> None:
    file = scaled(tmp_path, "pairs")
    (tmp_path / "pairs.c").write_text(
        "void scale(float *y, const float *x, int n) {\n"
        f" for (int i = 0; i < n; i++) y[i] = ({condition} ? 2 : 3) * x[i];\n}}\n"
    )
    file.write_text(file.read_text().replace("{unroll: [1, 2]}", "{a: [1, 2, 3, 4], b: [1, 2, 3, 4]}"))
    assert tune(file, "--repeats", "1").status == 0
    (line,) = [line for line in tune("failures", file).out.splitlines() if "wrong result" in line]
    assert line.endswith(f" wrong result{told}")


@pytest.mark.slow
def test_history_tells_the_trials_in_order_and_the_best_so_far(tune: Tune, faulty: Path) -> None:
    assert tune("history", faulty, "8").status == 2, "nothing was tuned"
    tuned = tune(faulty, "8", "--repeats", "3", "--strategy", "brute_force", "--json").json
    history = tune("history", faulty, "8", "--json").json["trials"]
    assert len(history) == 10
    assert [trial["finished"] for trial in history] == sorted(trial["finished"] for trial in history)
    best = None
    for trial in history:
        if trial["time_ms"] is not None:
            best = min(best or trial["time_ms"], trial["time_ms"])
            assert trial["seconds"].keys() == {"build", "verify", "measure"} or len(trial["times_ms"]) == 1
        assert trial["best_ms"] == best
    assert sum(trial["failure"] is not None for trial in history) == len(tuned["failures"])
    text = tune("history", faulty, "8").out
    assert "10 trials, 4 failed" in text
    improved = [row.split() for row in text.splitlines() if re.match(r"\d+ ", row)]
    times = [float(row[3]) for row in improved]
    assert times == sorted(times, reverse=True)
    listed = tune("history", faulty, "8", "--all").out
    assert len([row for row in listed.splitlines() if re.match(r"\d+ ", row)]) == 10
    assert "failed, compile" in listed


@pytest.mark.slow
def test_what_is_shown_first_imports_nothing_slow() -> None:
    script = "import sys, tuner.cli.app, tuner.cli.verbs.tune, tuner.cli.screen.progress; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "rich", "pydantic", "yaml", "optuna", "kernel_tuner"} & set(done.stdout.split())
