"""Files of others that are damaged, hostile or without end."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT
from helpers.damage import FORMULAS, ODD, damaged, torn
from helpers.processes import Tune
from helpers.recordings import RECORDED, cache_of
from helpers.records import KERNEL, RTX, at, config, stored
from tuner.tuning.recordings import recording

SIZES = {"sizes": {"M": 64, "N": 64, "K": 64}}
T1: dict[str, Any] = {
    "General": {"BenchmarkName": "twice"},
    "KernelSpecification": {
        "Language": "CUDA",
        "KernelName": "twice",
        "KernelFile": "twice.cu",
        "ProblemSize": [1000],
        "LocalSize": {"X": "bx"},
        "GridDivX": ["bx"],
        "SharedMemory": 0,
        "CompilerOptions": ["-O3", "-Iabc"],
        "Arguments": [
            {"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "Size": 1000},
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 1000},
        ],
    },
    "ConfigurationSpace": {
        "TuningParameters": [{"Name": "bx", "Type": "int", "Values": "[16 * i for i in range(1, 9)]", "Default": 32}],
        "Conditions": [{"Expression": "bx > 16", "Parameters": ["bx"]}],
    },
}
T4 = {
    "results": [
        {
            "configuration": config(tile),
            "objectives": ["time"],
            "times": {"runtimes": [1.0]},
            "invalidity": "correct",
            "measurements": [{"name": "time", "value": 1.0, "unit": "ms"}],
        }
        for tile in (4, 8)
    ]
}
RESULTS = {
    "kernel_name": "sgemm_tiled_1xn",
    "objective": "time",
    "tunable_parameters": list(config(8)),
    "kernel": KERNEL,
    "device": RTX,
    **SIZES,
    "data": [
        {"device_name": "RTX", "problem_size": "64x64", "tunable_parameters": config(t), "time": 1.0} for t in (4, 8)
    ],
}
STATED = ("--kernel", KERNEL, "--size", "64", "--device", RTX)


@pytest.mark.slow
def test_a_damaged_file_of_others_is_one_message(tune: Tune, tmp_path: Path) -> None:
    cache = json.loads(cache_of(tmp_path, {8: 2.0, 16: 1.0, 4: None}, about=SIZES).read_text())
    draw, file = random.Random(1), tmp_path / "x.json"
    for number in range(150):
        kind = draw.choice([cache, T4, RESULTS, T1])
        data = json.dumps(damaged(kind, draw, [*ODD, *FORMULAS] if kind is T1 else ODD)).encode()
        data = torn(data, draw) if draw.random() < 0.3 else data
        data = gzip.compress(data) if draw.random() < 0.2 else data
        file.write_bytes(torn(data, draw) if draw.random() < 0.1 else data)
        stated = ("--output", tmp_path / f"{number}.yaml") if kind is T1 else draw.choice([STATED, ()])
        done = tune("import", file, *stated, "--results", tmp_path / f"r{number}")
        warnings = [line for line in done.err.splitlines() if line.startswith("warning: ")]
        errors = len(done.err.splitlines()) - len(warnings)
        assert (done.status, errors) in ((0, 0), (2, 1)), (done, data)
        assert len(done.err) < 2000
        assert done.status == 0 or not (tmp_path / f"r{number}").exists(), "nothing is written"


@pytest.mark.slow
def test_a_damaged_recording_is_replayed_or_is_one_message(tune: Tune, tmp_path: Path) -> None:
    recording.write(tmp_path / "whole.json", RECORDED)
    whole = json.loads((tmp_path / "whole.json").read_text())
    draw, file = random.Random(2), tmp_path / "x.json"
    strategies = [(), ("--strategy", "optuna"), ("--strategy", "random", "--workers", "3")]
    for number in range(100):
        data = json.dumps(damaged(whole, draw, ODD)).encode()
        file.write_bytes(torn(data, draw) if draw.random() < 0.3 else data)
        done = tune("replay", file, *strategies[number % 3])
        assert (done.status, len(done.err.splitlines())) in ((0, 0), (2, 1)), (done, data)
        assert len(done.err) < 2000


@pytest.mark.parametrize("value", ["1" + "0" * 400, "-1e300", "NaN", "Infinity"])
def test_a_recording_of_numbers_that_no_space_has_is_one_message(value: str, tune: Tune, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    recording.write(file, RECORDED)
    file.write_text(file.read_text().replace('"block_size_x": 32', f'"block_size_x": {value}'))
    done = tune("replay", file, "--strategy", "optuna", "--budget", "8")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "the recording of vector_add cannot be searched: block_size_x = " in done.err
    assert "numbers must be between -2**64 and 2**64" in done.err


def test_a_recording_of_more_values_than_a_space_has_is_one_message(tune: Tune, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    recording.write(file, RECORDED)
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "tune_params": {**data["tune_params"], "tile": list(range(200_000))}}))
    done = tune("replay", file, "--strategy", "optuna:tpe")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "tile has 200000 values; at most 10000 are allowed" in done.err


def test_torn_entries_within_one_another_are_not_read_again_and_again(tune: Tune, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(
        '{"tune_params": {"a": [1]}, "cache": {"1": {"a": 1, "time": 1.0},' + '{"a":[{},' * 400 + "0," * 500_000
    )
    before = time.process_time()
    assert "1 configurations" in tune("replay", file).out
    assert time.process_time() - before < 10, "400 scans of the rest take minutes"


@pytest.mark.slow
def test_a_damaged_store_is_merged_without_what_is_damaged(tune: Tune, tmp_path: Path) -> None:
    folder = stored(tmp_path / "r", at(1024), at(2048, tile=4))
    file = folder / f"{KERNEL}.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    draw = random.Random(3)
    for _ in range(60):
        texts = [json.dumps(line).encode() for line in lines]
        place = draw.randrange(3)
        texts[place] = json.dumps(damaged(lines[place], draw, ODD)).encode()
        data = b"\n".join(texts) + b"\n"
        file.write_bytes(torn(data, draw) if draw.random() < 0.3 else data)
        done = tune("merge", file, "--results", tmp_path / "merged")
        messages = done.err.splitlines()
        assert done.status == 0 or (done.status, len(messages)) == (2, 1), done
        assert all(line.startswith(("error: ", "warning: ")) and len(line) < 2000 for line in messages), done.err


def bomb(file: Path) -> None:
    """2 MB that are 2 GB. A block that begins anew may be repeated; the checksum at the end is never reached."""
    archive = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = archive.compress(b'{"cache": {') + archive.flush(zlib.Z_FULL_FLUSH)
    block = archive.compress(bytes(1 << 20)) + archive.flush(zlib.Z_FULL_FLUSH)
    file.write_bytes(head + block * 2048)


def zeros(file: Path) -> None:
    with file.open("wb") as sparse:
        sparse.truncate(200_000_000)


def lists(file: Path) -> None:
    """Few bytes for much memory."""
    file.write_bytes(b"[" + b"[]," * 20_000_000 + b"0]")


ENDLESS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from tuner.__main__ import main
sys.argv = ["tune", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "content"),
    [("import", bomb), ("import", lists), ("replay", bomb), ("replay", zeros), ("merge", zeros), ("validate", zeros)],
)
def test_a_file_without_end_takes_bounded_memory(
    verb: str, content: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / {"merge": "x.jsonl", "validate": "x.yaml"}.get(verb, "x.json")
    content(file)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # whose buffers take address space for each processor
    command = [sys.executable, "-c", ENDLESS, verb, file]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert f"{file}: " in done.stderr
    assert "more than 134,217,728 bytes" in done.stderr or "200000000 bytes; " in done.stderr
