"""What others measured comes in as what it is."""

from __future__ import annotations

import gzip
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune
from helpers.recordings import cache_of, t4
from helpers.records import H200, H200_NVL, KERNEL, RTX, SIGNATURE, SPACE, config
from tuner.devices import Device
from tuner.store.store import Store
from tuner.tuning.recordings import jsonfile, recording
from tuner.tuning.recordings.recording import Entry, Recording


def test_what_is_exported_is_imported_again_but_no_longer_verified(tune: Tune, tmp_path: Path) -> None:
    cache = tmp_path / "cache.json"
    assert tune("export", KERNEL, "4096", "--to", "kernel-tuner", "--output", cache).status == 0
    done = tune("import", cache, "--results", tmp_path / "r", "--json")
    assert done.status == 0, done.err
    (one,) = done.json
    known = recording.read(ROOT / "results/recordings/07_tiled_1xn-4096.json.gz")
    assert (one["kernel"], one["device"], one["size"]) == (KERNEL, H200, {"M": 4096, "N": 4096, "K": 4096, "batch": 1})
    assert (one["best"]["time_ms"], one["best"]["verified"], one["configurations"]) == (known.optimum_ms, False, 92)
    (record,) = [r for r in Store(KERNEL, tmp_path / "r").records if not r.is_verified]
    assert (record.error, record.bound, record.signature, len(record.next)) == (None, None, SIGNATURE, 8)
    assert record.architecture == "sm_90a", "which the store knows of this device"
    (best, *_) = [r for r in Store(KERNEL, tmp_path / "r").records if r.is_verified and r.key == record.key]
    assert best in Store(KERNEL, tmp_path / "r").records, "the shipped one still counts"


@pytest.mark.slow
def test_a_cache_that_does_not_say_all_needs_hints(tune: Tune, tmp_path: Path) -> None:
    file = cache_of(tmp_path, {8: 2.0, 16: 1.0, 4: None})
    done = tune("import", file)
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert "its size [4096, 4096] does not determine the sizes K of sgemm/07_tiled_1xn; write --size" in done.err
    done = tune("import", file, "--size", "4096", "--json")
    assert done.status == 0, done.err
    assert done.json[0]["best"] == {"config": config(16), "time_ms": 1.0, "verified": False}
    (record,) = [r for r in Store(KERNEL).records if r.device == RTX]
    assert (record.kind, record.architecture, record.failed, record.rounds) == (
        "cuda",
        "",
        {"CompilationFailedConfig": 1},
        2,
    )
    assert record.gflops == pytest.approx(2 * 4096**3 / 1e6)
    assert (
        "not stored: the store has a better record"
        in tune("import", cache_of(tmp_path, {8: 2.0}), "--size", "4096").out
    )


def test_what_is_torn_or_has_a_time_of_zero_is_counted(tune: Tune, tmp_path: Path) -> None:
    file = cache_of(tmp_path, {4: 3.0, 8: 2.0, 16: 1.0})
    file.write_text(file.read_text()[:-40].replace('"time": 3.0', '"time": 0'))
    done = tune("import", file, "--size", "4096")
    assert "2 ms, " in done.out
    assert "ignored, as incomplete: 2" in done.out
    assert "1 configurations; ignored, as incomplete: 2" in tune("replay", file).out


@pytest.mark.filterwarnings("ignore:The metaschema")  # of Kernel Tuner's own results
def test_results_of_kernel_tuner_are_records_of_each_device_and_size(tune: Tune, tmp_path: Path) -> None:
    from kernel_tuner.integration import store_results

    file = tmp_path / "results.json"
    for device, tile in ((H200_NVL, 8), ("NVIDIA A100-SXM4-80GB", 16)):
        rows = [{**config(tile), "time": 2.0}, {**config(4), "time": 2.05}]
        parameters = {name: list(v) for name, v in SPACE.parameters.items()}
        store_results(file, SPACE.kernels, None, parameters, (2048, 2048), rows, {"device_name": device})
    done = tune("import", file, "--size", "2048", "--json")
    assert [one["device"] for one in done.json] == [H200_NVL, "NVIDIA A100 SXM4 80GB"], done.err
    found = {r.device: r for r in Store(KERNEL).records if not r.is_verified}
    assert found[H200_NVL].config == config(8)
    assert [one["time_ms"] for one in found[H200_NVL].next] == [2.05]
    assert found[H200_NVL].architecture == "sm_90a", "that of its variant"


def test_a_t4_file_without_its_metadata_needs_to_be_told_all(tune: Tune, tmp_path: Path) -> None:
    assert tune("export", KERNEL, "4096", "--to", "t4", "--output", tmp_path / "t4.json").status == 0
    (tmp_path / "t4-metadata.json").unlink()
    assert "name the kernel with --kernel" in tune("import", tmp_path / "t4.json").err
    hints = ["--kernel", KERNEL, "--size", "4096"]
    assert "write --device NAME" in tune("import", tmp_path / "t4.json", *hints).err
    done = tune("import", tmp_path / "t4.json", *hints, "--device", RTX, "--kind", "opencl", "--json")
    assert (done.json[0]["device"], done.json[0]["configurations"]) == (RTX, 92)
    assert [r.kind for r in Store(KERNEL).records if r.device == RTX] == ["opencl"]


@pytest.mark.slow
def test_what_was_exported_says_all_that_an_import_needs(tune: Tune, tmp_path: Path, opencl: Device) -> None:
    assert tune("sgemm/03_naive", "8", "--device", "opencl", "--budget", "2").status == 0
    for form, number in (("kernel-tuner", 0), ("kernel-tuner", 1), ("t4", 0)):
        folder = tmp_path / f"{form}-{number}"
        folder.mkdir()
        done = tune("export", "sgemm/03_naive", "8", "--to", form, "--output", folder / "x.json", "--json")
        assert done.status == 0, done.err
        file = done.json["files"][number]
        assert tune("import", file, "--results", folder / "r").status == 0, file
        (record,) = [r for r in Store("sgemm/03_naive", folder / "r").records if r.device == opencl.name]
        told = (record.kind, record.architecture, record.is_verified)
        assert told == ("opencl", opencl.architecture, False), file
        assert record.sizes == {"M": 8, "N": 8, "K": 8, "batch": 1}, file


def test_a_metadata_file_of_another_shape_says_nothing(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "t4.json").write_bytes(t4([{"name": "time", "value": 5}]))
    hints = ["--kernel", KERNEL, "--size", "64", "--device", RTX]
    for content in ("", "[]", '{"metadata": 5}', '{"metadata": {"hardware": {"hardware_description": []}}}'):
        (tmp_path / "t4-metadata.json").write_text(content)
        assert tune("import", tmp_path / "t4.json", *hints).status == 0, content


SIZES = {"about": {"sizes": {"M": 64, "N": 64, "K": 64}}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("header", "hints", "message"),
    [
        (SIZES, ("--size", "128"), "its size is 'M=64, N=64, K=64', but --size is 'M=128, N=128, K=128, batch=1'"),
        ({}, ("--size", "128"), "its size is 'N=4096, M=4096', but --size is"),
        (SIZES, ("--device", "Voodoo"), f"its device is '{RTX}', but --device is 'Voodoo'"),
        (SIZES, ("--device", "Bad\x1b[31m"), "--device is 'Bad\\x1b[31m'; a device's name has at most 200 characters"),
        (SIZES, ("--device", "x" * 1000), f"--device is '{'x' * 60}'; a device's name"),
        (SIZES, ("--kernel", "06_tiled"), f"its kernel is '{KERNEL}', but --kernel is '06_tiled'"),
        (SIZES, ("--kind", "host"), "--kind is 'host'; sgemm/07_tiled_1xn runs on cuda and opencl"),
        ({"about": {**SIZES["about"], "kind": "opencl"}}, ("--kind", "cuda"), "kind is 'opencl', but --kind is 'cuda'"),
        ({"about": {**SIZES["about"], "kind": []}}, (), "its kind is '[]'; sgemm/07_tiled_1xn runs on cuda and opencl"),
    ],
)
def test_what_a_file_says_is_not_overridden(
    header: dict[str, Any], hints: tuple[str, ...], message: str, tune: Tune, tmp_path: Path
) -> None:
    done = tune("import", cache_of(tmp_path, {8: 1.0}, **header), *hints)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert message in done.err
    assert not (tmp_path / "results").exists(), "nothing is written"


@pytest.mark.slow
@pytest.mark.parametrize(
    "hints", [("--size", "64"), ("--device", RTX.upper()), ("--kernel", "07_tiled"), ("--kind", "cuda")]
)
def test_hints_may_say_what_the_file_says(hints: tuple[str, ...], tune: Tune, tmp_path: Path) -> None:
    assert tune("import", cache_of(tmp_path, {8: 1.0}, **SIZES), *hints).status == 0


@pytest.mark.slow
@pytest.mark.parametrize("device", [None, 5, []])
def test_a_device_that_is_no_text_is_none(device: Any, tune: Tune, tmp_path: Path) -> None:
    done = tune("import", cache_of(tmp_path, {8: 1.0}, device=device, **SIZES))
    assert (done.status, "does not name the device" in done.err) == (2, True), done.err


@pytest.mark.slow
def test_a_configuration_that_is_valid_nowhere_is_not_imported(tune: Tune, tmp_path: Path) -> None:
    done = tune("import", cache_of(tmp_path, {7: 1.0}, **SIZES))
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    message = (
        "no configuration with a time is valid; the fastest of 1: sgemm/07_tiled_1xn: tile_size_y = 7; allowed: [1, 2"
    )
    assert message in done.err
    fast = {**config(8), "block_size_y": 8}
    entries = {tuple(fast.values()): Entry(0.1), tuple(config(8).values()): Entry(1.0)}
    file = tmp_path / "cache.json"
    recording.write(file, Recording("sgemm_tiled_1xn", RTX, SPACE.parameters, entries, None, SIZES["about"]))
    assert tune("import", file, "--json").json[0]["best"]["config"] == config(8), "the fastest breaks a restriction"
    recording.write(
        file, Recording("sgemm_tiled_1xn", RTX, SPACE.parameters, dict([*entries.items()][:1]), None, SIZES["about"])
    )
    assert "the configuration breaks `block_size_x == block_size_y * tile_size_y`" in tune("import", file).err


def test_an_imported_record_that_is_valid_nowhere_gives_way(tune: Tune, tmp_path: Path) -> None:
    assert tune("import", cache_of(tmp_path, {8: 1.0}, **SIZES)).status == 0
    store = Store(KERNEL)
    (good,) = [r for r in store.records if r.device == RTX]
    store.paths[0].unlink()
    Store(KERNEL).add(replace(good, config={**config(8), "block_size_y": 32}, time_ms=0.1))
    assert "(stored, unverified)" in tune("import", cache_of(tmp_path, {8: 1.0}, **SIZES)).out
    assert [r.config for r in Store(KERNEL).records if r.device == RTX] == [config(8)]


ODD = {
    "no kernel of ours": ({"kernel": "\x1b]0;owned\x07"}, "no known kernel has the function"),
    "other parameters": ({"kernel": "sgemm/06_tiled"}, "its parameters are block_size_x, "),
    "an unknown size": ({"about": {"sizes": {"M": 1, "N": 1, "K": 1, "\x1b[2J": 1}}}, "no size"),
    "a size that is none": ({"about": {"sizes": {"M": "1", "N": [], "K": None}}}, "is not a whole number"),
    "a device that is a terminal's": (
        {"device": "\x1b]0;owned\x07", "about": {"sizes": {"M": 8, "N": 8, "K": 8}}},
        "device",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_a_cache_that_says_something_odd_is_one_message(name: str, tune: Tune, tmp_path: Path) -> None:
    header, message = ODD[name]
    done = tune("import", cache_of(tmp_path, {8: 1.0}, **header))
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert message in done.err
    assert "\x1b" not in done.err
    assert not (tmp_path / "results").exists(), "nothing is written"


@pytest.mark.slow
def test_a_parameter_of_one_value_may_stand_on_one_side_only(tune: Tune, tmp_path: Path) -> None:
    file = cache_of(tmp_path, {8: 1.0, 16: 2.0}, **SIZES)
    data = json.loads(file.read_text())

    def with_constants(**constants: Any) -> None:
        parameters = dict(data["tune_params"])
        parameters |= {name: list(dict.fromkeys(values)) for name, values in constants.items()}
        entries = [entry | {n: v[i] for n, v in constants.items()} for i, entry in enumerate(data["cache"].values())]
        file.write_text(json.dumps({**data, "tune_params": parameters, "cache": dict(enumerate(entries))}))

    with_constants(block_size_z=[1, 1], kind=["a", "a"])
    done = tune("import", file, "--json", "--results", tmp_path / "r")
    assert done.status == 0, done.err
    assert done.json[0]["best"]["config"] == config(8)
    assert done.json[0]["constants"] == {"block_size_z": 1, "kind": "a"}
    assert "as the kernel has no such parameter: block_size_z=1 kind=a" in tune("import", file).out
    with_constants(block_size_z=[1, 2])
    assert "its parameters are block_size_x, " in tune("import", file).err, "that one tells configurations apart"


def test_a_kernels_parameter_of_one_value_may_be_missing(tune: Tune, tmp_path: Path, stage: Stage) -> None:
    own = stage(c_kernel("own", MULTIPLY), "own", "{v: [1, 2], w: [7]}")
    file = tmp_path / "cache.json"
    recording.write(file, Recording("own", "Here", {"v": (1, 2)}, {(1,): Entry(2.0), (2,): Entry(1.0)}))
    done = tune("import", file, "--kernel", own, "--size", "8", "--json")
    assert done.status == 0, done.err
    assert done.json[0]["best"]["config"] == {"v": 2, "w": 7}
    recording.write(file, Recording("own", "There", {"v": (1.0, 2.0)}, {(1.0,): Entry(2.0), (2.0,): Entry(1.0)}))
    done = tune("import", file, "--kernel", own, "--size", "8", "--json")
    assert repr(done.json[0]["best"]["config"]) == "{'v': 2, 'w': 7}", "as declared: 2.0 would be another macro"
    assert tune("verify").err == "imported records that are not verified: 1 of Here, 1 of There\n"  # its file is known


def test_the_size_of_a_file_is_that_of_a_kernel_whose_sizes_all_have_defaults(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("void f(float *y, int n) { for (int i = 0; i < n; i++) y[i] = v; }")
    own = tmp_path / "f.yaml"
    arguments = "[{name: y, dtype: float32, shape: [n], role: out}, {name: n, dtype: int32}]"
    operation = f"{{sizes: {{n: 512}}, arguments: {arguments}, reference: none}}"
    own.write_text(f"title: f\noperation: {operation}\nkernel: f\nparameters: {{v: [1, 2]}}\n")
    file = tmp_path / "cache.json"
    plain = Recording("f", "Here", {"v": (1, 2)}, {(1,): Entry(2.0)}, [512])
    recording.write(file, plain)
    done = tune("import", file, "--kernel", own, "--json")
    assert (done.status, done.json[0]["size"]) == (0, {"n": 512}), done.err
    recording.write(file, replace(plain, size=[100]))
    done = tune("import", file, "--kernel", own)
    assert (done.status, done.err.count("its size [100] does not determine the sizes n of ")) == (2, 1)


HOSTILE: list[Any] = [
    None, 1, [], {}, {"data": 1, "tunable_parameters": []}, {"data": [[]], "tunable_parameters": {}},
    {"data": [{"tunable_parameters": {"a": []}, "time": 1}], "tunable_parameters": []},
    {"data": [{"tunable_parameters": {"a": 1}, "time": 10**400}], "tunable_parameters": []},
    {"data": [{"tunable_parameters": {"a": 1}, "time": 1.0}], "tunable_parameters": [], "kernel_name": ["x"]},
    {"cache": {"a": {"time": 1}}, "tune_params": {"a": [[]]}}, {"results": [{"configuration": {"a": {}}}]},
    {"KernelSpecification": {}}, {"KernelSpecification": {"ProblemSize": 8, "Arguments": [1]}},
    {"KernelSpecification": {"ProblemSize": 8, "Language": "CUDA"}, "ConfigurationSpace": []},
]  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_file_of_theirs_is_one_message(content: Any, tune: Tune, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps(content))
    done = tune("import", file, "--output", tmp_path / "x.yaml") if "Kernel" in str(content) else tune("import", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert str(file) in done.err


NO_JSON: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "empty, or truncated at its beginning; give a Kernel Tuner cache"),
    "a store": (b'{"format": "tuner results", "version": 1}\n{}\n', "a file of the store; import it with `tune merge`"),
    "a program": (b"\x7fELF\x02\x00\x01", "not JSON: "),
    "a table": (b"kernel,device\nsgemm,H200\n", "not JSON: "),
    "UTF-16": ('{"cache": {}}'.encode("utf-16"), "not JSON: "),
    "a cut archive": (gzip.compress(b'{"device_name": "x"}')[:20], "not JSON: "),
    "T1 without a space": (
        b'{"General": {"BenchmarkName": "x"}}',
        "has none of `cache`, `results`, `Results` and (in a T1 file)",
    ),
    "failures alone": (
        b'{"tune_params": {"a": [1]}, "cache": {"1": {"a": 1, "time": "x"}}}',
        "no configuration with a time: none of the 1 in `cache`",
    ),
    "no end of braces": (b'{"cache":' * 100_000, "nested too deeply"),
    "no end of torn entries": (b'{"cache":' + b'{"a":{"b":}' * 100_000, "not JSON: "),
}


@pytest.mark.parametrize("name", NO_JSON)
def test_a_file_without_a_time_says_what_it_is(name: str, tune: Tune, tmp_path: Path) -> None:
    content, message = NO_JSON[name]
    file = tmp_path / "x.json"
    file.write_bytes(content)
    before = time.process_time()
    done = tune("import", file)
    assert time.process_time() - before < 3, "not again from every brace"
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert f"{file}: {message}" in done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (t4([{"name": "time", "value": 5, "unit": "furlong"}]), "unknown time unit 'furlong'; known units: ms, "),
        (t4([{"name": "time", "value": 5, "unit": []}]), "unknown time unit '[]'"),
        (t4([{"name": "time", "value": 1e-320, "unit": "ms"}]), "no configuration with a time: none of the "),
        (t4(5), "no configuration with a time: none of the "),
        (t4([], objectives=5, times=5), "no configuration with a time: none of the "),
        (
            t4([{"name": "time", "value": 5}], configuration={"time": 2}),
            "the parameter 'time' has the name under which a cache holds the time of a configuration; rename it",
        ),
    ],
)
def test_a_t4_file_with_an_odd_time_is_one_message(content: bytes, message: str, tune: Tune, tmp_path: Path) -> None:
    file = tmp_path / "t4.json"
    file.write_bytes(content)
    for arguments in (("import", file, "--kernel", KERNEL, "--size", "64", "--device", RTX), ("replay", file)):
        done = tune(*arguments)
        assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
        assert message in done.err


def test_an_import_of_something_endless_ends(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = tmp_path / "bomb.json.gz"
    monkeypatch.setattr(jsonfile, "MOST_BYTES", 1 << 20)
    bomb.write_bytes(gzip.compress(b" " * (1 << 24)))
    for file, message in ((bomb, "more than"), (Path("/dev/zero"), "not a file"), (tmp_path, "not a file")):
        done = tune("import", file)
        assert (done.status, message in done.err) == (2, True), done.err
