"""Recorded spaces: read whole or cut short, written, searched."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Done

from tuner.errors import RequestError
from tuner.exchange import recording
from tuner.exchange.recording import Entry, Recording
from tuner.exchange.replay import replay
from tuner.search.strategies import Budget
from tuner.space.model import Value

PARAMETERS: dict[str, tuple[Value, ...]] = {"block_size_x": (32, 64, 128), "tile": (1, 2, 4), "layout": ("row", "col")}


def entry(key: tuple[Value, ...]) -> Entry:
    x, tile, layout = key
    if (x, tile) == (128, 4):
        return Entry(None, failure="compile")
    time_ms = 1 + abs(float(x) - 64) / 64 + abs(float(tile) - 2) + (layout == "row") / 2
    return Entry(time_ms, (time_ms, time_ms), extra={"compile_time": 12.5})


MADE = Recording(
    "vector_add", "a device", PARAMETERS, {key: entry(key) for key in itertools.product(*PARAMETERS.values())}, [10, 20]
)


@pytest.mark.parametrize("name", ["made.json", "made.json.gz"])
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    recording.write(tmp_path / name, MADE)
    first = (tmp_path / name).read_bytes()
    read = recording.read(tmp_path / name)
    assert (read.kernel, read.device, read.size, dict(read.parameters)) == (
        "vector_add",
        "a device",
        [10, 20],
        PARAMETERS,
    )
    assert {k: (e.time_ms, e.times) for k, e in read.entries.items()} == {
        k: (e.time_ms, e.times) for k, e in MADE.entries.items()
    }
    assert read.entries[64, 2, "col"].extra["compile_time"] == 12.5
    assert read.optimum_ms == 1.0
    recording.write(tmp_path / name, MADE)
    assert (tmp_path / name).read_bytes() == first


def test_kernel_tuner_reads_what_is_written(tmp_path: Path) -> None:
    from kernel_tuner.util import read_cache

    recording.write(tmp_path / "made.json", MADE)
    data = read_cache(tmp_path / "made.json", open_cache=False)
    assert data["tune_params_keys"] == list(PARAMETERS)
    assert len(data["cache"]) == 18
    assert data["cache"]["64,2,col"]["time"] == 1.0
    assert type(data["cache"]["128,4,row"]["__error__"]).__name__ == "CompilationFailedConfig"


def cut(text: str, entries: int) -> str:
    """`text` as Kernel Tuner leaves it after so many entries."""
    return "\n".join(text.splitlines()[: text.splitlines().index('"cache": {') + 1 + entries])


@pytest.mark.parametrize(
    ("damage", "left", "ignored"),
    [
        (lambda text: text, 18, 0),
        (lambda text: cut(text, 7), 7, 0),
        (lambda text: cut(text, 7)[:-1], 7, 0),
        (lambda text: cut(text, 7)[:-30], 6, 1),
        (lambda text: cut(text, 3)[:-40] + "\n" + "\n".join(text.splitlines()[-12:]), 13, 1),
        (lambda text: text.rstrip().rstrip("}").rstrip(), 18, 0),
        (lambda text: text.replace('"times": [1.0, 1.0]', '"times": [NaN]'), 18, 0),
        (lambda text: text.replace('"tile": 2', '"tale": 2'), 12, 6),
    ],
    ids=["whole", "no end", "no comma", "torn", "torn within", "no braces", "not a number", "a parameter missing"],
)
def test_what_is_whole_in_a_damaged_file_is_read(
    damage: Callable[[str], str], left: int, ignored: int, tmp_path: Path
) -> None:
    path = tmp_path / "made.json"
    recording.write(path, MADE)
    path.write_text(damage(path.read_text()))
    read = recording.read(path)
    assert dict(read.parameters) == PARAMETERS
    assert (len(read.entries), read.ignored) == (left, ignored)
    assert all(e.time_ms == MADE.entries[k].time_ms for k, e in read.entries.items())


def test_a_compressed_file_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "made.json.gz"
    recording.write(path, MADE)
    path.write_bytes(path.read_bytes()[:-60])
    assert 0 < len(recording.read(path).entries) < 18


def test_a_t4_file_is_read(tmp_path: Path) -> None:
    results: list[dict[str, Any]] = [
        {
            "configuration": dict(zip(PARAMETERS, key, strict=True)),
            "objectives": ["time"],
            "times": {"runtimes": []},
            "invalidity": "correct" if made.failure is None else "compile",
            "correctness": 1,
            "measurements": [{"name": "time", "value": made.time_ms and made.time_ms / 1000, "unit": "s"}],
        }
        for key, made in MADE.entries.items()
    ]
    path = tmp_path / "t4.json"
    path.write_text(json.dumps({"results": results, "schema_version": "1.0.0"}))
    read = recording.read(path)
    assert [e.time_ms for e in read.entries.values()] == pytest.approx([e.time_ms for e in MADE.entries.values()])
    path.write_text(path.read_text()[:-900])
    assert 0 < len(recording.read(path).entries) < 18


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'{"cache": {}}', b"\x1f\x8bno", b'{"cache": {"a": 1}', b"{" * 9999]
)
def test_what_is_no_recording_is_an_error_that_names_the_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=r"made\.json"):
        recording.read(path)


def test_replay_prints_one_document(tmp_path: Path, tune: Callable[..., Done]) -> None:
    path = tmp_path / "made.json.gz"
    recording.write(path, MADE)
    done = tune("replay", path, "--strategy", "kt:genetic_algorithm", "--budget", "10", "--seed", "3", "--json")
    assert done.status == 0, done.err
    result = done.json
    assert (result["strategy"], result["seed"], result["optimum_ms"]) == ("kt:genetic_algorithm", 3, 1.0)
    assert len(result["evaluations"]) == 10
    assert all(t is None or t >= 1 for t in result["evaluations"])
    assert result["seconds_in_strategy"] > 0
    assert "best found: 1 ms, 100.0% as fast as the optimum, 1 ms" in tune("replay", path).out


def test_failed_configurations_are_charged() -> None:
    done = replay(MADE)
    assert done.strategy == "brute_force"
    assert len(done.evaluations) == 18
    assert sum(t is None for t in done.evaluations) == 2
    assert (done.fraction(18), done.within(0.0)) == (1.0, done.evaluations.index(1.0) + 1)
    assert done.fraction(0) == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strategy", "magic"), "there is no such strategy; there are: optuna"),
        (("--budget", "2m"), "write a number, such as 100"),
        (("--budget", "0"), "--budget '0'"),
        (("--workers", "0"), "workers"),
    ],
)
def test_a_wrong_replay_is_one_message(
    arguments: tuple[str, ...], message: str, tmp_path: Path, tune: Callable[..., Done]
) -> None:
    path = tmp_path / "made.json"
    recording.write(path, MADE)
    done = tune("replay", path, *arguments)
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert tune("replay", tmp_path / "none.json").status == 2


def test_several_workers_give_one_trace_for_a_seed() -> None:
    first = replay(MADE, "optuna", Budget(evaluations=16), seed=2, workers=4)
    assert first.evaluations == replay(MADE, "optuna", Budget(evaluations=16), seed=2, workers=4).evaluations
    assert len(first.evaluations) == 16


def test_the_benchmark_makes_table_json_and_plot(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    recording.write(folder / "made.json.gz", MADE)
    script = [sys.executable, ROOT / "benchmarks/search.py", folder, "--seeds", "2", "--strategies", "random", "optuna"]
    outputs = ["--processes", "1", "--json", tmp_path / "runs.json", "--plot", tmp_path / "plot.png"]
    done = subprocess.run(script + outputs, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| strategy | frac at 25 |" in done.stdout
    assert done.stdout.count("| optuna |") == 2
    assert len(json.loads((tmp_path / "runs.json").read_text())) == 4
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_a_cut_plain_gzip_is_told_from_no_gzip(tmp_path: Path) -> None:
    path = tmp_path / "made.json.gz"
    recording.write(path, MADE)
    plain = tmp_path / "plain.json.gz"  # the name says gzip, the content does not
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    assert len(recording.read(plain).entries) == 18
