"""A ledger may say anything: what cannot be read is said once and measured again, and everything else stays."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune
from helpers.records import sizes
from tuner.catalog import catalog
from tuner.measure.results import Outcome
from tuner.space.config import config_key
from tuner.tuning.ledger.ledger import Ledger
from tuner.tuning.ledger.study import StudyKey
from tuner.tuning.ledger.trial import Trial

KEY = StudyKey(sizes(8), {}, "device", "signature", "toolchain")
LIES: list[Any] = [None, True, 5, -1, 10**30, 1e300, float("nan"), "x", "\x00", [], ["x"], [[1]], {}, {"x": "y"}]
RAW = ["1" * 5000, "[" * 100_000, "[" * 500 + "]" * 500, '{"a":' * 60 + "1" + "}" * 60, '"half', "\\u0000", "1e999"]
MISSING = object()
JOURNALS = 120  # of about 900 that `mutations` gives


def trials(count: int) -> list[Trial]:
    """Different configurations of a space, the second of which failed."""
    space = catalog.load("sgemm/03_naive")
    base, (name, values) = dict(space.default), max(space.parameters.items(), key=lambda item: len(item[1]))
    configs = [{**base, name: value} for value in values[:count]]
    good = [
        Trial(config, Outcome((1.0 + i, 2.0 + i), 1e-6, 1e-3), (1.5 + i,), 60.0) for i, config in enumerate(configs)
    ]
    return [good[0], Trial(configs[1], Outcome(failure="compile", log="no")), *good[2:]]


def opened(url: str | None = None) -> tuple[dict[Any, Trial], list[str]]:
    """What a ledger knows after it is opened, and what it says. It can be written to."""
    said: list[str] = []
    space = catalog.load("sgemm/03_naive")
    with Ledger(space, KEY, url=url, say=said.append) as ledger:
        known = {config_key(trial.config): trial for trial in ledger.trials}
        for trial in TRIALS:
            if config_key(trial.config) not in known:
                assert ledger.claim(trial.config, 60)
                assert ledger.begin(trial.config)
                assert ledger.finish(trial)
        assert {config_key(trial.config) for trial in ledger.trials} == ALL
    return known, said


TRIALS = trials(3)
ALL = {config_key(trial.config) for trial in TRIALS}


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values inside a JSON value are."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths_in(inner, (*path, key))


def changed(value: Any, path: tuple[Any, ...], lie: Any) -> Any:
    """A copy of a JSON value with `lie` at `path`."""
    copy = json.loads(json.dumps(value))
    place = copy
    for key in path[:-1]:
        place = place[key]
    if lie is MISSING:
        del place[path[-1]]
    else:
        place[path[-1]] = lie
    return copy


def mutations(lines: list[str]) -> Iterator[list[str]]:
    """The lines, each field of each of which lies once, one kind of lie after the other."""
    number = 0
    for i, line in enumerate(lines):
        entry = json.loads(line)
        for path in paths_in(entry):
            for lie in (MISSING, LIES[number % len(LIES)], LIES[(number + 5) % len(LIES)]):
                yield [*lines[:i], json.dumps(changed(entry, path, lie)), *lines[i + 1 :]]
            number += 1
        raw = RAW[i % len(RAW)]
        yield [*lines[:i], raw, *lines[i + 1 :]]
        yield [*lines[:i], line.replace(":0,", f":{raw},", 1), *lines[i + 1 :]]
        yield [*lines[:i], *lines[i + 1 :]]
        yield [*lines[: i + 1], *lines[i:]]


@pytest.mark.slow
def test_whatever_a_journal_says_it_costs_no_more_than_what_it_lies_about(tmp_path: Path) -> None:
    opened()
    (journal,) = (tmp_path / "state").rglob("*.log")
    lines = journal.read_text().splitlines()
    for damaged in random.Random(1).sample(list(mutations(lines)), JOURNALS):
        journal.write_text("\n".join(damaged) + "\n")
        known, said = opened()
        what = next((pair for pair in zip(lines, damaged, strict=False) if pair[0] != pair[1]), None)
        assert len(known) >= len(TRIALS) - 1, what
        assert known.keys() <= ALL, what
        assert len(said) == ("cannot be read" in "".join(said)), (what, said)
        assert len(known) == len(TRIALS) or said or len(damaged) < len(lines) or '"measured"' in what[0], (what, said)
        known, said = opened()
        assert known.keys() == ALL, what
        assert said == [], what


@pytest.mark.slow
def test_whatever_a_database_says_it_costs_no_more_than_what_it_lies_about(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lies.db"
    opened(url)
    original = (tmp_path / "lies.db").read_bytes()
    with sqlite3.connect(tmp_path / "lies.db") as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = [
            (table, row[1])
            for table in tables
            for row in database.execute(f"PRAGMA table_info({table})")
            if "trial" in table
        ]
    columns += [("study_user_attributes", "value_json")]
    lies = ("x", "{", "[" * 100_000, 5, None, -1.5, b"\x00", '["x"]', "null", '{"config": null}')
    for number, (table, column) in enumerate(columns):
        lie = lies[number % len(lies)]
        (tmp_path / "lies.db").write_bytes(original)
        with sqlite3.connect(tmp_path / "lies.db") as database, contextlib.suppress(sqlite3.IntegrityError):
            rows = f"rowid = (SELECT min(rowid) + {number % 2} FROM {table})"
            database.execute(f"UPDATE {table} SET {column} = ? WHERE {rows}", (lie,))
        known, said = opened(url)
        assert len(known) >= len(TRIALS) - 1, (table, column, lie)
        assert len(said) <= 1, said


FALSE: dict[str, Any] = {
    "values": {"values": ["x"]},
    "config": {"config": None},
    "times": {"times_ms": "1.0"},
    "zero": {"times_ms": [0.0]},
    "error": {"error": None},
}


@pytest.mark.slow
def test_a_command_says_what_it_cannot_read_and_measures_it_again(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    values = list(range(len(FALSE) + 1))
    file = stage(c_kernel("doubted", MULTIPLY), "doubted", f"{{a: {values}}}")
    request = (file, "8", "--json", "--repeats", "1")
    assert tune(*request).status == 0
    (journal,) = (tmp_path / "state").rglob("*.log")
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    trials = [entry["user_attr"] for entry in entries if "measured" in entry.get("user_attr", ())]
    right = trials[0]["measured"]["config"]
    others = [trial["measured"] for trial in trials if trial["measured"]["config"] != right]
    for measured, lie in zip(others, itertools.cycle(FALSE.values()), strict=False):  # the finals' further ones, too
        measured |= lie
    journal.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    exported = tune("export", file, "8", "--to", "csv", "--output", tmp_path / "trials.csv")
    assert exported.status == 0, exported.err
    (_, row) = (tmp_path / "trials.csv").read_text().splitlines()
    assert f",{right['a']}," in row
    again = tune(*request)
    assert again.status == 0, again.err
    assert f"{journal}: {len(others)} of its lines cannot be read; they are now in {journal.stem}.torn" in again.err
    assert "1 measured before" in again.err
    assert again.json["evaluated"] == len(values)
    assert "cannot be read" not in (after := tune(*request)).err
    assert f"{len(values)} measured before" in after.err
