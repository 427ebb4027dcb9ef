"""Logs: what a search has measured goes along with the records, and other searches know it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.devices.conditions import DEFAULT
from tuner.errors import RequestError
from tuner.space.config import Config
from tuner.space.scope import Limits
from tuner.space.sources.rendering import Version
from tuner.store.lookup import Query
from tuner.tuning.recordings import experiences, logs, recording
from tuner.tuning.recordings.recording import Entry

TEXT = c_kernel("paced", f'#if v == 5\n#error "not this one"\n#endif\nusleep(200 * v);\n{MULTIPLY}')
PARAMETERS = "{v: [7, 6, 5, 4, 3, 2, 1]}"

TWICE = """
title: Double a vector
operation:
  sizes: {n: }
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
  reference: 2 * x
kernel: twice
parameters: {threads: [128, 256]}
grid_divisors: {x: [threads]}
block: [threads]
"""


@pytest.fixture
def kernel(stage: Stage) -> Path:
    """A kernel in C that takes longer with a larger v, and does not compile with 5."""
    return stage(TEXT, "paced", PARAMETERS)


def logs_in(folder: Path) -> list[Path]:
    """The logs of a store."""
    return sorted((folder / "recordings").glob("*.json.gz"))


def test_a_search_leaves_a_log_that_travels_and_that_another_machine_exports_replays_and_begins_with(
    tune: Tune, kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    quick = "--repeats", "1", "--results"
    assert tune(kernel, "8", *quick, tmp_path / "none", "--no-log", "--budget", "1").status == 0
    assert not logs_in(tmp_path / "none")
    done = tune(kernel, "8", *quick, here)
    assert done.status == 0, done.err
    (log,) = logs_in(here)
    read = recording.read(log)
    assert {row: entry.failure for row, entry in read.entries.items()} == {
        **{(v,): None for v in (1, 2, 3, 4, 6, 7)},
        (5,): "CompilationFailedConfig",
    }
    assert "7 configurations" in tune("replay", log).out

    monkeypatch.setenv("TUNER_STATE", str(tmp_path / "another machine"))  # without the ledger
    merged = tune("merge", here, "--results", there, "--json")
    assert (merged.status, merged.json["logs"]) == (0, 1)
    assert tune("merge", here, "--results", there, "--json").json["logs"] == 0, "nothing new"
    assert [path.read_bytes() for path in logs_in(there)] == [log.read_bytes()]
    t4 = tmp_path / "t4.json"
    assert tune("export", kernel, "8", "--to", "t4", "--output", t4, *quick[2:], there).status == 0
    assert len(json.loads(t4.read_text())["results"]) == 7

    for file in there.glob("**/*.jsonl"):
        file.unlink()  # the log alone remains
    fastest = min(read.entries, key=lambda row: read.entries[row].time_ms or math.inf)
    near = tune(kernel, "16", *quick, there, "--budget", "2")
    assert near.status == 0, near.err
    (other,) = set(logs_in(there)) - {there / "recordings" / log.name}
    assert {fastest, (7,)} <= {*recording.read(other).entries}, "the fastest of the log, and the default"

    kernel.with_name("paced.c").write_text(TEXT + "\n/* another version */\n#define other 1\n")
    failed = tune("export", kernel, "8", "--to", "csv", "--output", tmp_path / "x.csv", *quick[2:], there)
    assert (failed.status, "nothing has been measured" in failed.err) == (2, True), "times of other code are not served"


def test_a_log_is_bounded_and_keeps_what_it_has(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    space = catalog.load(str(kernel))
    about = space.name, "host", "a processor", "", {"M": 8}, {}, {}, DEFAULT, "code"
    problem = logs.LoggedProblem(*about)
    configs: list[Config] = [{"v": v} for v in (1, 2, 3, 4, 5, 6, 7)]
    path = logs.keep(
        problem,
        space,
        [(configs[0], Entry(1.23456789)), (configs[1], Entry(9.0)), (configs[4], Entry(None, failure="launch"))],
        tmp_path,
    )
    logs.keep(problem, space, [(configs[1], Entry(2.0)), (configs[2], Entry(3.0))], tmp_path)
    times = {row[0]: entry.time_ms for row, entry in recording.read(path).entries.items()}
    assert times == {1: 1.2346, 2: 2.0, 3: 3.0, 5: None}
    monkeypatch.setattr(logs, "MOST", 4)
    logs.keep(problem, space, [(config, Entry(float(config["v"]))) for config in configs[2:]], tmp_path)
    kept = [row[0] for row in recording.read(path).entries]
    assert len(kept) == 4
    assert kept[:2] == [1, 2], "the fastest"
    changed = logs.LoggedProblem(*about[:-1], "other code")
    assert logs.keep(changed, space, [(configs[3], Entry(1.0))], tmp_path) == path
    assert [row[0] for row in recording.read(path).entries] == [4], "times of other code are not mixed"
    left, others = (path.with_name(f".{path.name}.{end}") for end in ("x1", "json.x1"))
    for file in (left, others):  # one by a writer of the log that was killed, one by the writer of another file
        file.touch()
    logs.keep(changed, space, [(configs[4], Entry(1.0))], tmp_path)
    assert (left.exists(), others.exists()) == (False, True)
    path.unlink()
    path.mkdir()
    with pytest.raises(RequestError, match=r"cannot be written: Is a directory; name another folder with --results"):
        logs.keep(problem, space, [(configs[0], Entry(1.0))], tmp_path)


def test_logs_that_say_nonsense_are_passed_over(tune: Tune, kernel: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    assert tune(kernel, "8", "--repeats", "1", "--budget", "1", "--results", tmp_path / "here").status == 0
    (log,) = logs_in(tmp_path / "here")
    renamed, torn = log.with_name("paced-8-000000000000.json.gz"), log.with_name("paced-9.json.gz")
    renamed.write_bytes(log.read_bytes())
    torn.write_bytes(log.read_bytes()[:40])
    done = tune("merge", tmp_path / "here", "--results", there)
    assert done.status == 0
    assert f"{renamed.name}: its name is not that of its problem; the log is passed over" in done.err
    assert f"{torn.name}: is damaged, or no recording; the file is passed over" in done.err
    assert [path.name for path in logs_in(there)] == [log.name]
    for path in logs_in(there):
        path.write_text('{"kernel_name": 5, "log": [], "problem_size": {"M": "x"}, "cache": {"1": 3}}')
    assert tune(kernel, "16", "--repeats", "1", "--budget", "1", "--results", there).status == 0


def test_of_many_logs_a_search_reads_those_of_the_nearest_sizes(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = catalog.load(str(kernel))
    version = Version.of(space)
    for size in (100, 9, 2000, 70, 4000):
        sizes = {"M": size, "N": size, "K": size, "batch": 1}
        about = space.name, "host", f"device {size}", "x86_64", sizes, space.operation.options, {}, DEFAULT
        logs.keep(logs.LoggedProblem(*about, version.code), space, [({"v": 1}, Entry(float(size)))], tmp_path)
    monkeypatch.setattr(experiences, "MOST_FILES", 2)
    op = space.operation
    scope = op.scope({"M": 80, "N": 80, "K": 80, "batch": 1}, op.options, "c", Limits(), {})
    query = Query(space, scope, "here", "host", "x86_64", version)
    found = experiences.of_similar(query, [], tmp_path, most=4)
    assert sorted(time_ms or 0.0 for each in found for _, time_ms in each.trials) == [70.0, 100.0]


def test_times_of_another_size_are_converted_by_the_waves_in_which_a_device_runs_blocks(tmp_path: Path) -> None:
    (tmp_path / "twice.cu").write_text("KERNEL void twice(GLOBAL float *y, GLOBAL const float *x, int n) { }\n")
    (tmp_path / "twice.yaml").write_text(TWICE)
    space = catalog.load(str(tmp_path / "twice.yaml"))
    version, op = Version.of(space), space.operation
    measured = [({"threads": 128}, Entry(1.1, extra={"occupancy": 1.0})), ({"threads": 256}, Entry(1.0))]
    about = space.name, "cuda", "card", "sm_1", {"n": 1024}, op.options, {}, DEFAULT, version.code
    logs.keep(logs.LoggedProblem(*about), space, measured, tmp_path)

    def known(n: int, device: str, units: int) -> dict[object, float | None]:
        scope = op.scope({"n": n}, op.options, "cuda", Limits(multiprocessor_threads=256), {})
        query = Query(space, scope, device, "cuda", "sm_1", version, units)
        (found,) = experiences.of_similar(query, [], tmp_path, most=1)
        return {config["threads"]: time_ms for config, time_ms in found.trials}

    # At 1024, each of the 4 multiprocessors has one block of 256 threads, or two of 128 at once: one wave. At 1280, one
    # of them has a second block of 256; or a third of 128, which is a half-empty wave and takes 0.25 + 0.75 / 2.
    assert known(1280, "card", 4) == {128: pytest.approx(1.1 * 1.625), 256: pytest.approx(1.0 * 2)}
    assert known(4096, "card", 4) == {128: pytest.approx(1.1 * 4), 256: pytest.approx(1.0 * 4)}, "full waves"
    assert known(1024, "card", 4) == known(1280, "other card", 4) == known(1280, "card", 0) == {128: 1.1, 256: 1.0}
