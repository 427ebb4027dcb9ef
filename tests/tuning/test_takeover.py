"""A value added to a list of values, or removed, or another order, loses nothing that was measured."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.databases import Server, taken_over
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Done, Tune, start
from helpers.records import sizes
from tuner.catalog import catalog
from tuner.measure.method import Method
from tuner.measure.results import Outcome
from tuner.space.sources import rendering
from tuner.tuning.ledger.ledger import Ledger
from tuner.tuning.ledger.study import StudyKey
from tuner.tuning.ledger.trial import Trial

Run = Callable[..., Done]


@pytest.fixture
def run(tune: Tune, stage: Stage) -> Run:
    """Tune a kernel with these parameters, `more` keys, and a source that begins with `before`."""

    def tuned(parameters: str, *options: str, before: str = "", more: str = "") -> Done:
        file = stage(c_kernel("listed", MULTIPLY, before), "listed", parameters, "c", more)
        done = tune(file, "8", "--device", "host", "--full", *options)
        assert done.status == 0, done.err
        return done

    return tuned


def known(done: Done) -> int:
    """How many configurations the header line says were measured before."""
    (line,) = [line for line in done.err.splitlines() if " configurations" in line and "measuring" not in line]
    return int(line.rpartition(", ")[2].split()[0]) if "measured before" in line else 0


def test_other_lists_of_values_take_over_what_was_measured(run: Run, tmp_path: Path) -> None:
    assert known(run("{v: [0, 1], w: [0, 1]}")) == 0
    assert known(run("{v: [0, 1, 2], w: [0, 1]}")) == 4
    assert known(run("{v: [2, 1], w: [1]}")) == 2
    assert known(run("{w: [1, 0], v: [2, 1, 0]}")) == 6
    measured, copied = (set[Timed]().union(*parts) for parts in zip(*map(timed, logs(tmp_path)), strict=True))
    assert copied
    assert copied <= measured


def test_the_latest_time_is_taken_over_whichever_journal_was_written_last(run: Run, tmp_path: Path) -> None:
    run("{v: [0, 1, 2]}")
    (first,) = (tmp_path / "state").rglob("*.log")
    old, _ = timed(first)
    run("{v: [0, 1, 2, 3]}", "--fresh")
    os.utime(first, (2**32, 2**32))
    assert known(run("{v: [3, 2, 1, 0]}")) == 4
    others = [timed(log) for log in logs(tmp_path) if log != first]
    (copied,) = (copies for _, copies in others if copies)
    assert len(copied) == 4
    assert copied <= set[Timed]().union(*(measured for measured, _ in others)) - old


Timed = tuple[str, float]  # a configuration, as JSON, and the first of its times


def logs(folder: Path) -> list[Path]:
    return [*(folder / "state").rglob("*.log")]


def timed(log: Path) -> tuple[set[Timed], set[Timed]]:
    """What a journal's own runs measured, and what it has from other studies."""
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    measured, copied = (
        {
            (json.dumps(trial["config"], sort_keys=True), trial["times_ms"][0])
            for entry in entries
            if (trial := entry.get(key, {}).get("measured")) is not None
        }
        for key in ("user_attr", "user_attrs")
    )
    return measured, copied


MEANINGS = {
    "source": {"before": "int unused;"},
    "derived value": {"more": "derived: {twice: 2 * v}"},
    "option": {"more": "compile_options: {c: [-DEXTRA=1]}"},
}


def test_another_meaning_takes_over_nothing(run: Run) -> None:
    run("{v: [0, 1]}")
    for what, change in MEANINGS.items():
        assert known(run("{v: [0, 1, 2]}", **change)) == 0, what


def test_another_set_of_parameters_and_a_fresh_start_take_over_nothing(run: Run) -> None:
    run("{v: [0, 1, 2]}")
    assert known(run("{v: [0, 1, 2], w: [0, 1]}", "--budget", "1")) == 0
    assert known(run("{v: [0, 1]}", "--fresh", "--budget", "1")) == 0


@pytest.mark.parametrize(("method", "count"), [(Method(), 1), (Method(deployment="cold"), 0), (Method(repeats=3), 0)])
def test_another_way_of_measuring_takes_over_nothing(method: Method, count: int, stage: Stage) -> None:
    def opened(parameters: str, method: Method) -> Ledger:
        space = catalog.load(str(stage(c_kernel("listed", MULTIPLY), "listed", parameters)))
        return Ledger(space, StudyKey(sizes(8), {}, "device", rendering.signature(space), "toolchain", method))

    with opened("{v: [0, 1, 2]}", Method()) as first:
        assert first.claim({"v": 1}, 60.0)
        assert first.finish(Trial({"v": 1}, Outcome(times=(1.0,)), (1.0,), 60.0))
    with opened("{v: [2, 1, 0]}", method) as second:
        assert len(second.trials) == count


def test_a_list_that_was_begun_anew_is_taken_over_as_it_is_now(run: Run) -> None:
    run("{v: [0, 1, 2]}")
    run("{v: [0, 1, 2]}", "--fresh", "--budget", "1")
    assert known(run("{v: [0, 1, 2, 3]}")) == 1


@pytest.mark.slow
def test_studies_in_a_database_take_over_from_one_another(run: Run, postgresql: Server) -> None:
    url = postgresql.database("lists")
    run("{v: [0, 1, 2]}", "--storage", url)
    assert known(run("{v: [2, 1, 0, 3]}", "--storage", url)) == 3
    run("{v: [2, 1, 0, 3]}", "--storage", url, "--fresh", "--budget", "2")
    assert known(run("{v: [3, 2, 1, 0]}", "--storage", url)) >= 3


@pytest.mark.slow
def test_processes_that_enter_a_new_study_at_once_take_over_each_trial_once(
    run: Run, stage: Stage, postgresql: Server
) -> None:
    url, values = postgresql.database("together"), [*range(8)]
    run(f"{{v: {values}}}", "--storage", url)
    file = stage(c_kernel("listed", MULTIPLY), "listed", f"{{v: {[*values, 8]}}}")
    command = [str(file), "8", "--device", "host", "--full", "--storage", url]
    processes = [start(*command) for _ in range(3)]
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err
    assert {*taken_over(url).values()} == {1}
