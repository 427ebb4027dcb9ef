"""Recorded spaces: read whole or cut short, and written."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers import ROOT
from helpers.processes import Tune
from helpers.recordings import PARAMETERS, RECORDED
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import RequestError
from tuner.exchange.exports.names import beside
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.recordings import recording


@pytest.mark.parametrize("name", ["made.json", "made.json.gz"])
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    recording.write(tmp_path / name, RECORDED)
    first = (tmp_path / name).read_bytes()
    read = recording.read(tmp_path / name)
    assert (read.kernel, read.device, read.size, dict(read.parameters)) == (
        "vector_add",
        "a device",
        [10, 20],
        PARAMETERS,
    )
    assert {k: (e.time_ms, e.times) for k, e in read.entries.items()} == {
        k: (e.time_ms, e.times) for k, e in RECORDED.entries.items()
    }
    assert read.entries[64, 2, "col"].extra["compile_time"] == 12.5
    assert read.optimum_ms == 1.0
    recording.write(tmp_path / name, RECORDED)
    assert (tmp_path / name).read_bytes() == first


def test_kernel_tuner_reads_what_is_written(tmp_path: Path) -> None:
    from kernel_tuner.util import read_cache

    recording.write(tmp_path / "made.json", RECORDED)
    data = read_cache(tmp_path / "made.json", open_cache=False)
    assert data["tune_params_keys"] == list(PARAMETERS)
    assert len(data["cache"]) == 18
    assert data["cache"]["64,2,col"]["time"] == 1.0
    assert type(data["cache"]["128,4,row"]["__error__"]).__name__ == "CompilationFailedConfig"


def test_a_parameter_keeps_its_values_where_a_figure_has_its_name(tmp_path: Path) -> None:
    entries = {
        (32,): recording.Entry(1.0, (1.0,), None, {"registers": 40}),
        (64,): recording.Entry(None, (), "compile"),
    }
    made = recording.Recording("k", "d", {"registers": (32, 64)}, entries, [1])
    recording.write(tmp_path / "made.json", made)
    assert recording.read(tmp_path / "made.json").entries.keys() == entries.keys()
    with pytest.raises(RequestError, match="the parameter 'time' has the name under which a cache holds the time"):
        recording.write(tmp_path / "other.json", recording.Recording("k", "d", {"time": (32, 64)}, entries, [1]))


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
    recording.write(path, RECORDED)
    path.write_text(damage(path.read_text()))
    read = recording.read(path)
    assert dict(read.parameters) == PARAMETERS
    assert (len(read.entries), read.ignored) == (left, ignored)
    assert all(e.time_ms == RECORDED.entries[k].time_ms for k, e in read.entries.items())


def test_a_compressed_file_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "made.json.gz"
    recording.write(path, RECORDED)
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
        for key, made in RECORDED.entries.items()
    ]
    path = tmp_path / "t4.json"
    path.write_text(json.dumps({"results": results, "schema_version": "1.0.0"}))
    read = recording.read(path)
    assert [e.time_ms for e in read.entries.values()] == pytest.approx([e.time_ms for e in RECORDED.entries.values()])
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


def ktt(unit: str = "Microseconds") -> dict[str, Any]:
    """Results as KTT writes them: a right configuration twice, one that does not compile, one with wrong results."""

    def result(x: int, fast: bool, status: str, duration: float) -> dict[str, Any]:
        pairs = [("block", x, "UnsignedInt"), ("fast", fast, "Bool"), ("scale", 0.5, "Double")]
        config = [{"Name": name, "Value": value, "ValueType": kind} for name, value, kind in pairs]
        parts = [{"KernelFunction": "scale", "Duration": duration / 2, "Overhead": 1.0}] * 2 if status == "Ok" else []
        figures = {"TotalDuration": duration, "TotalOverhead": 1.0, "ExtraDuration": 0.0, "ExtraOverhead": 0.0}
        return {
            "KernelName": "scale",
            "Status": status,
            "Configuration": config,
            "ComputationResults": parts,
            **figures,
        }

    results = [
        result(64, True, "Ok", 2500.0),
        result(64, True, "Ok", 2000.0),
        result(64, True, "ComputationFailed", 2**64 / 1e3),
        result(32, False, "CompilationFailed", 2**64 / 1e3),
        result(128, True, "ValidationFailed", 100.0),
    ]
    about = {"ComputeApi": "CUDA", "Device": "NVIDIA A100", "KttVersion": "2.1", "Platform": "NVIDIA CUDA"}
    return {"Metadata": {**about, "TimeUnit": unit}, "Results": results}


def test_results_of_ktt_are_read_with_their_failures(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    path.write_text(json.dumps(ktt(), indent=4))
    read = recording.read(path)
    assert (read.kernel, read.device, read.size) == ("scale", "NVIDIA A100", None)
    assert read.parameters == {"block": (32, 64, 128), "fast": (0, 1), "scale": (0.5,)}
    assert {row: (entry.time_ms, entry.failure) for row, entry in read.entries.items()} == {
        (64, 1, 0.5): (2.0, None),
        (32, 0, 0.5): (None, "CompilationFailedConfig"),
        (128, 1, 0.5): (None, "ValidationFailed"),
    }
    results = ktt()
    failed = next(each for each in results["Results"] if each["Status"] == "ValidationFailed")
    results["Results"].insert(0, {**failed, "Status": "Ok", "TotalDuration": None})  # neither hides the failure
    path.write_text(json.dumps(results))
    assert {entry.failure for entry in recording.read(path).entries.values()} == {
        None,
        "CompilationFailedConfig",
        "ValidationFailed",
    }
    path.write_text(json.dumps(ktt(), indent=4))
    cut_short = path.read_text()[: path.read_text().index("ValidationFailed")]
    path.write_text(cut_short)
    read = recording.read(path)
    assert (len(read.entries), read.ignored, read.optimum_ms) == (2, 1, 2.0)


@pytest.mark.parametrize("value", [0, -2.5, math.nan, 1e-300, True, None])
def test_what_has_neither_a_time_nor_a_failure_is_ignored(value: Any, tmp_path: Path) -> None:
    """As a time of zero it would be the fastest, as a failure it would be avoided."""
    measured = [{"name": "time", "value": value, "unit": "ms"}]
    files = {
        "cache": {
            "tune_params": {"x": [1, 2]},
            "cache": {str(x): {"x": x, "time": t} for x, t in ((1, value), (2, 3.0))},
        },
        "t4": {"results": [{"configuration": {"x": 1}, "measurements": measured}]},
        "ktt": ktt(),
    }
    files["t4"]["results"].append({"configuration": {"x": 2}, "measurements": [{**measured[0], "value": 3.0}]})
    files["ktt"]["Results"][4] |= {"Status": "Ok", "TotalDuration": value}
    for name, data in files.items():
        (tmp_path / name).write_text(json.dumps(data))
        read = recording.read(tmp_path / name)
        assert (read.ignored, {e.failure for e in read.entries.values() if e.failure}) == (
            1,
            {"CompilationFailedConfig"} if name == "ktt" else set(),
        ), name
        assert read.optimum_ms == (2.0 if name == "ktt" else 3.0)


@pytest.mark.parametrize(("unit", "ms"), [("Nanoseconds", 0.002), ("Milliseconds", 2e3), ("Seconds", 2e6)])
def test_times_of_ktt_are_in_the_unit_that_the_file_names(unit: str, ms: float, tmp_path: Path) -> None:
    (tmp_path / "made.json").write_text(json.dumps(ktt(unit)))
    assert recording.read(tmp_path / "made.json").optimum_ms == pytest.approx(ms)
    (tmp_path / "made.json").write_text(json.dumps(ktt("Jiffies")))
    with pytest.raises(RequestError, match=r"made\.json: Metadata: TimeUnit is 'Jiffies'; known units: ms, "):
        recording.read(tmp_path / "made.json")


def test_t4_files_of_ktt_have_its_device_numbers_and_units(tmp_path: Path) -> None:
    def result(block: str, name: str, value: float, unit: str) -> dict[str, Any]:
        measured = [{"name": "sectors", "value": 1.0, "unit": ""}, {"name": name, "value": value, "unit": unit}]
        config = {"block": block, "scale": "0.5", "way": "a" if block == "32" else "1"}
        about = {"invalidity": "correct", "times": {"runtimes": [value]}, "objectives": [name]}
        return {"configuration": config, "measurements": measured, **about}

    path = tmp_path / "made.json"
    about = {"autotuner": "KTT", "device": "NVIDIA A100", "timeunit": "microseconds"}
    results = [result("128", "time", 2000.0, ""), result("32", "time", 3000.0, "")]
    path.write_text(json.dumps({"metadata": about, "results": results}))
    read = recording.read(path)
    assert (read.device, read.optimum_ms) == ("NVIDIA A100", 2.0)
    assert read.parameters == {"block": (32, 128), "scale": (0.5,), "way": ("1", "a")}
    assert read.entries[128, 0.5, "1"].times == (2.0,)
    path.write_text(json.dumps({"metadata": {**about, "timeunit": "Jiffies"}, "results": results}))
    with pytest.raises(RequestError, match=r"made\.json: unknown time unit 'Jiffies'; known units: ms, "):
        recording.read(path)
    path.write_text(json.dumps({"results": [result("128", "TotalDuration", 2000.0, "Microseconds")]}))
    assert recording.read(path).entries["128", "0.5", "1"] == recording.Entry(2.0, (2.0,))


def test_a_cut_plain_gzip_is_told_from_no_gzip(tmp_path: Path) -> None:
    path = tmp_path / "made.json.gz"
    recording.write(path, RECORDED)
    plain = tmp_path / "plain.json.gz"  # the name says gzip, the content does not
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    assert len(recording.read(plain).entries) == 18


@pytest.mark.slow
@pytest.mark.parametrize("path", recording.files(ROOT / "results/recordings"), ids=lambda path: path.name)
def test_a_shipped_recording_is_described_in_t4_metadata(path: Path) -> None:
    import jsonschema
    from kernel_tuner.file_utils import output_file_schema

    read, file = recording.read(path), beside(path, recording.METADATA)
    about = json.loads(file.read_text())
    jsonschema.validate(about, output_file_schema("metadata")[1])
    (device,), query = about["metadata"]["hardware"]["hardware_description"], about["metadata"]["environment"]
    assert (device["device"], device["kind"]) == (read.device, "cuda")
    assert (query["device_query"]["kernel"], query["device_query"]["size"]) == (read.kernel, read.size)
    description = about["metadata"]["zenodo"]["description"]
    assert description.startswith(f"{len(read.entries)} configurations, ")
    assert path.name in description


def test_the_clock_of_a_measurement_with_all_repeats_is_recorded(
    host: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(type(host), "sensors", SimpleNamespace(clock_mhz=lambda: 1980))
    space = catalog.load("sgemm/01_host_blocked")
    scope, config = scope_of(space, host, "8"), dict(space.default)
    assert Bench(host, space, scope, Method(1)).measure(config).clock_mhz is None, "a race has no time to read it"
    outcome = Bench(host, space, scope, Method(1, race=False)).measure(config)
    trials = [Trial(config, outcome, outcome.times)]
    recording.write(tmp_path / "r.json", recording.of_trials(space, scope.sizes, {}, scope.options, "d", trials))
    (entry,) = recording.read(tmp_path / "r.json").entries.values()
    assert entry.extra["clock_mhz"] == 1980


def test_each_shipped_recording_is_named_so_that_an_export_of_its_kernel_finds_it() -> None:
    for metadata in sorted((ROOT / "results/recordings").glob("*-metadata.json")):
        kernel = json.loads(metadata.read_text())["metadata"]["environment"]["device_query"]["kernel"]
        assert metadata.name.startswith(kernel.rpartition("/")[2] + "-")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:None of the tunable parameters specify thread block dimensions")
def test_the_simulation_of_kernel_tuner_and_the_methodology_package_read_open_data(tune: Tune, tmp_path: Path) -> None:
    import jsonschema
    from autotuning_methodology.searchspace_statistics import SearchspaceStatistics
    from kernel_tuner.file_utils import output_file_schema
    from kernel_tuner.interface import tune_cache

    shipped = recording.read(ROOT / "results/recordings/matmul-2048-NVIDIA_H200.json.gz")
    times = {row: entry.time_ms for row, entry in shipped.entries.items()}
    failed = sum(time_ms is None for time_ms in times.values())
    assert failed, "readers take failures, too"
    cache, t4 = tmp_path / "cache.json", tmp_path / "t4.json"
    for to, file in (("kernel-tuner", cache), ("t4", t4)):
        export = ("export", shipped.kernel, "2048", "--device", shipped.device, "--to", to, "--output", file)
        assert tune(*export).status == 0

    found, _ = tune_cache(cache, strategy="random_sample", strategy_options={"max_fevals": 40}, quiet=True)
    rows = [tuple(each[name] for name in shipped.parameters) for each in found]
    assert len(set(rows)) == 40
    for row, each in zip(rows, found, strict=True):
        assert each["time"] == times[row] if times[row] is not None else "Failed" in str(each["time"])

    read_there = SearchspaceStatistics("matmul", shipped.device, True, ["runtimes"], ["time"], t4, False)
    assert read_there.size == len(times)
    assert read_there.total_performance_absolute_optimum() == shipped.optimum_ms
    assert read_there.objective_performances_number_of_nan == failed

    jsonschema.validate(json.loads(t4.read_text()), output_file_schema("results")[1])
    read = recording.read(t4)
    assert {row: entry.times for row, entry in read.entries.items()} == {
        row: entry.times for row, entry in shipped.entries.items()
    }
