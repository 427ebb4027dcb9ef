"""The conditions of trials: what was measured before they had any is of their defaults, and is found as ever."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.processes import Tune
from helpers.records import HOST_SPACE, record
from tuner import devices, paths
from tuner.catalog import catalog
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.space import identity
from tuner.space.config import config_key
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources.rendering import Version
from tuner.store import lookup, record_file, rejected
from tuner.store.lookup import Query
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.tuning.ledger import journal, study
from tuner.tuning.ledger.ledger import Ledger
from tuner.tuning.ledger.study import StudyKey

TODAY = Path(__file__).with_name("ledger_of_today")  # written by a version without conditions
DEVICE, SIZES, OPTIONS, TOOLCHAIN = "A processor x8", {"n": 4096}, {"a": 2.0}, "cc 12.2.0"
ONE_THREAD = Conditions({"OMP_NUM_THREADS": 1})


def query_of(space: Space, one: Record, conditions: Conditions = DEFAULT) -> Query:
    """The query that a record answers exactly, under these conditions."""
    backend = devices.BACKENDS[one.kind]
    scope = Scope(one.sizes, one.options, backend.language, backend.limits_of(one.architecture), one.types)
    return Query(space, scope, one.device, one.kind, one.architecture, Version.of(space), conditions=conditions)


def test_every_shipped_record_is_exact_and_has_the_key_of_versions_without_conditions() -> None:
    count, root = 0, paths.shipped("results")
    for file in sorted(root.rglob("*.jsonl")):
        space = catalog.load(file.relative_to(root).with_suffix("").as_posix())
        records, problems = record_file.read(file)
        assert not problems
        for one in records:
            (fit,) = lookup.best_fits([one], query_of(space, one))
            assert (fit.match, fit.stale, fit.conditions) == ("exact", False, ""), one
            options = sorted((name, float(value)) for name, value in one.options.items())
            problem = [one.kind, one.device, sorted(one.sizes.items()), options, sorted(one.types.items())]
            assert one.key == json.dumps([json.dumps([*problem, one.objective, one.caches]), one.signature])
            count += 1
    assert count > 500


@pytest.fixture
def today(tmp_path: Path) -> Space:
    """The space whose study and record lie in TODAY, with both in the user's folders."""
    file = tmp_path / "today" / "scaled_sum.yaml"
    file.parent.mkdir()
    for name in ("scaled_sum.c", "scaled_sum.yaml"):
        shutil.copy(TODAY / name, file.with_name(name))
    results, state = paths.user_results() / "today/scaled_sum.jsonl", paths.state() / "studies/today/scaled_sum"
    for folder in (results.parent, state):
        folder.mkdir(parents=True)
    shutil.copy(TODAY / "records.jsonl", results)
    shutil.copy(TODAY / "study.log", state / "7fa55937119e3cc4bb6c2dff08947c21.log")
    return catalog.load(str(file))


def test_a_study_of_today_continues_and_its_record_is_exact(today: Space, tune: Tune, tmp_path: Path) -> None:
    with Ledger(today, StudyKey(SIZES, OPTIONS, DEVICE, identity.of(today), TOOLCHAIN)) as ledger:
        assert [(trial.config["chunk"], trial.time_ms) for trial in ledger.best] == [(256, 1.0), (64, 2.0), (16, 3.0)]
        assert all(ledger.known({"chunk": chunk}, 60.0) for chunk in (16, 64, 256))
    file = today.files[0]
    table = tmp_path / "trials.csv"
    exported = tune("export", file, "4096", "--to", "csv", "--device", DEVICE, "--output", table)
    assert exported.status == 0, exported.err
    assert len(table.read_text().splitlines()) == 4
    found = tune("best", file, "4096", "--device", DEVICE, "--json").json
    assert (found["match"], found["conditions"], found["config"]) == ("exact", None, {"chunk": 256})


def test_other_conditions_are_another_study_and_other_records(today: Space) -> None:
    key = StudyKey(SIZES, OPTIONS, DEVICE, identity.of(today), TOOLCHAIN)
    other = replace(key, conditions=ONE_THREAD)
    assert len({study.place(today, each) for each in (key, other, replace(key, conditions=Conditions({"b": 1})))}) == 3
    with Ledger(today, other) as ledger:
        assert not ledger.trials
    journals = (paths.state() / "studies").rglob("*.log")
    found = [study.stored_studies(journal.read(path), today, SIZES, OPTIONS) for path in journals]
    assert {str(each.conditions) for studies in found for each in studies} == {"", "OMP_NUM_THREADS=1"}


def test_a_record_of_other_conditions_serves_below_exact_and_says_so(tmp_path: Path) -> None:
    here = record()
    other = replace(here, config={"block_size": 16, "openmp": 0}, conditions={"OMP_NUM_THREADS": 1}, time_ms=0.5)
    far = replace(here, sizes={**here.sizes, "M": 128}, config={"block_size": 64, "openmp": 0})
    store = Store(HOST_SPACE.name, tmp_path)
    for each in (other, far):
        assert store.add(each)
    best, second, *_ = store.candidates(query_of(HOST_SPACE, here))
    assert (best.record, second.record, second.match) == (far, other, "nearest_size")
    assert second.conditions == "OMP_NUM_THREADS=1 instead of the default"
    assert "was measured with OMP_NUM_THREADS=1 instead of the default" in " ".join(second.notes)
    assert store.add(here)  # a slower one of other conditions is another record
    assert store.look_up(query_of(HOST_SPACE, here)).record == here
    (exact, *_) = store.candidates(query_of(HOST_SPACE, here, ONE_THREAD))
    assert (exact.record, exact.is_exact, exact.notes) == (other, True, ())
    read = Store(HOST_SPACE.name, tmp_path).records
    assert [config_key(each.config) for each in read if each.conditions] == [config_key(other.config)]
    only = lookup.best_fits([here], query_of(HOST_SPACE, here, ONE_THREAD))[0]
    assert only.conditions == "the default OMP_NUM_THREADS instead of 1"


def test_conditions_are_those_that_differ_from_their_defaults() -> None:
    defaults = {"OMP_NUM_THREADS": 8, "OMP_SCHEDULE": "static"}
    assert not Conditions.of(defaults, defaults)
    assert Conditions.of({"OMP_NUM_THREADS": 1, "OMP_SCHEDULE": "static"}, defaults) == ONE_THREAD
    assert ONE_THREAD.identity != Conditions().identity == ""


def test_what_failed_verification_counts_under_its_conditions_and_where_its_record_was_timed(tmp_path: Path) -> None:
    here = record()
    other = replace(here, config={"block_size": 16, "openmp": 0}, conditions={"OMP_NUM_THREADS": 1})
    store = Store(HOST_SPACE.name, tmp_path)
    store.add(other)
    one, two = query_of(HOST_SPACE, here, ONE_THREAD), query_of(HOST_SPACE, here)
    rejected.keep(two, [(other.config, "C[0] is 1")])
    assert store.look_up(one).is_exact
    rejected.keep(two, right=[other.config])
    assert store.look_up(two).config == other.config
    rejected.keep(one, [(other.config, "C[0] is 1")])
    assert store.look_up(two).config != other.config
