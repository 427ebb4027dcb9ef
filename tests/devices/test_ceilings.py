"""What devices do at most is measured by kernels that are checked, and kept."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import pytest

from helpers.ceilings import CEILINGS
from helpers.processes import Tune
from tuner import devices
from tuner.devices import Device
from tuner.devices.ceilings import FMA, MEMORY, NAMES, TENSOR
from tuner.devices.conditions import Conditions
from tuner.devices.info import DeviceInfo
from tuner.errors import WrongResult
from tuner.measure import ceilings
from tuner.measure.ceilings import ceiling_kernels
from tuner.measure.ceilings.ceiling_kernels import FmaKernel, MemoryKernels, TensorKernel, Variant
from tuner.space.scope import Limits
from tuner.store.ceilings_file import StoredCeilings


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds of few kernels, on small arrays: what is looked at here is no time."""
    for name in ("memory_variants", "fma_variants"):
        listed = getattr(ceiling_kernels, name)
        monkeypatch.setattr(ceiling_kernels, name, lambda device, listed=listed: listed(device)[::4])
    for name in ("SCREEN_SECONDS", "FINAL_SECONDS"):
        monkeypatch.setattr(ceilings, name, 0.01)
    monkeypatch.setattr(ceilings, "LEAST_MS", 0.1)
    monkeypatch.setattr(ceilings, "PROCESSOR_BYTES", 1 << 22)
    for name in ("host", "opencl"):
        monkeypatch.setattr(type(devices.open_device(name)), "last_cache", 1 << 20)


@pytest.mark.slow
@pytest.mark.usefixtures("hurried")
def test_what_is_measured_once_is_known_from_then_on(tune: Tune) -> None:
    before = tune("devices", "--json").json
    assert {each["ceilings"] for each in before if not each["device"].startswith("cuda")} == {None}
    for name in ("host", "opencl"):
        done = tune("devices", "--measure", "--device", name, "--json")
        assert done.status == 0, done.err
        (measured,) = done.json
        assert measured["device"] == f"{name}:0"
        rates = {key: value for key, value in measured["ceilings"].items() if key in NAMES}
        assert rates.keys() == {*MEMORY, FMA}, "neither has tensor cores"
        assert all(ceiling["rate"] > 0 and ceiling["rounds"] >= 5 for ceiling in rates.values())
        (known,) = tune("devices", "--device", name, "--json").json
        assert known["ceilings"] == measured["ceilings"]
    text = tune("devices").out
    for device, ceiling in itertools.product(("host:0", "opencl:0"), (*MEMORY, FMA)):
        assert f"\n{device} " in text
        assert f" {ceiling} " in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["host", "opencl"])
def test_a_kernel_that_leaves_words_out_is_wrong(name: str) -> None:
    device = devices.open_device(name)
    kernels = MemoryKernels(device, 8192)
    plain = ceiling_kernels.memory_variants(device)[0]
    macros = {**dict(plain.macros), "THREADS": 1024, "UNROLL": 3}
    leaves_some = Variant(tuple(macros.items()), None, "tiles that do not divide the array")
    for what in MEMORY:
        kernels.checked(what, plain)()
        with pytest.raises(WrongResult, match="words are missing"):
            kernels.checked(what, leaves_some)


@pytest.mark.parametrize("name", ["host", "opencl"])
def test_multiply_adds_that_are_left_out_are_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.open_device(name)
    kernels = [FmaKernel(device, variant) for variant in ceiling_kernels.fma_variants(device)]
    assert kernels
    for kernel in kernels:
        kernel.check()
    monkeypatch.setattr(ceiling_kernels, "CHECKED_STEPS", 6)
    for kernel in kernels:
        call = kernel.call
        monkeypatch.setattr(kernel, "call", lambda steps, call=call: call(steps - 1))
        with pytest.raises(WrongResult, match="off by"):
            kernel.check()


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "ways"), [("sm_75", set()), ("sm_80", {"mma"}), ("sm_90a", {"mma", "wgmma"})])
def test_every_kernel_compiles_for_a_gpu_without_spills(architecture: str, ways: set[str]) -> None:
    capability = {"sm_75": 7.5, "sm_80": 8.0, "sm_90a": 9.0}[architecture]
    gpu = DeviceInfo(
        "cuda:0", "cuda", "cuda", "a GPU", architecture, "", 1 << 34, Limits(compute_capability=capability), units=132
    )
    compiler = devices.compiler_for("cuda", architecture)
    moving, adding = ceiling_kernels.memory_variants(gpu), ceiling_kernels.fma_variants(gpu)
    tensor = list(ceiling_kernels.tensor_variants(gpu))
    assert {"wgmma" if "wgmma" in variant.words else "mma" for variant in tensor} == ways
    sample = [
        *(("ceilings.cu", kernel, v) for kernel in ("copy_words", "read_words", "write_words") for v in moving[::119]),
        *(("ceilings.cu", "multiply_add", v) for v in adding[::53]),
        *(("tensor_ceilings.cu", "multiply_tiles", v) for v in tensor[::7]),
    ]
    for file, kernel, variant in sample:
        build = compiler.build(variant.source(file, kernel, "cuda"))
        figures = build.figures[kernel]
        assert figures.spills == 0, variant.words
        assert (figures.registers or 0) * variant["THREADS"] <= 65536, variant.words


@pytest.mark.gpu
def test_tensor_cores_multiply_what_they_are_given(cuda: Device) -> None:
    variants = list(ceiling_kernels.tensor_variants(cuda))
    assert variants
    for variant in variants:
        TensorKernel(cuda, variant).check()


@pytest.mark.gpu
def test_the_ceilings_of_a_gpu_are_below_its_peaks(tune: Tune, cuda: Device) -> None:
    (measured,) = tune("devices", "--measure", "--device", "cuda", "--json").json
    assert cuda.peak is not None
    assert measured["ceilings"][FMA]["rate"] < 1.02 * cuda.peak.gflops
    assert measured["ceilings"][TENSOR]["rate"] > measured["ceilings"][FMA]["rate"]


def test_ones_own_ceilings_hide_those_that_ship_and_another_toolchain_serves(tmp_path: Path, host: Device) -> None:
    mine = dataclasses.replace(CEILINGS, device=host.name, kind="host", toolchain=host.toolchain)
    assert StoredCeilings(tmp_path).of(host) is None
    StoredCeilings(tmp_path).save(dataclasses.replace(mine, toolchain="an earlier one", cache=1))
    assert StoredCeilings(tmp_path).of(host).cache == 1
    StoredCeilings(tmp_path).save(mine)
    StoredCeilings(tmp_path).save(dataclasses.replace(mine, kind="opencl", cache=2))
    assert StoredCeilings(tmp_path).of(host) == mine
    StoredCeilings(tmp_path).save(dataclasses.replace(mine, cache=3))
    assert StoredCeilings(tmp_path).of(host.info).cache == 3
    assert len(json.loads((tmp_path / "ceilings.json").read_text())["devices"]) == 3


def test_ceilings_of_other_conditions_do_not_serve_and_those_of_the_defaults_do(tmp_path: Path, host: Device) -> None:
    usual = dataclasses.replace(CEILINGS, device=host.name, kind="host", toolchain=host.toolchain)
    narrow = dataclasses.replace(usual, conditions=Conditions({"OMP_NUM_THREADS": 1}), cache=1)
    StoredCeilings(tmp_path).save(narrow)
    about = "host", host.name, host.toolchain
    assert StoredCeilings(tmp_path).of_name(*about) is None
    assert StoredCeilings(tmp_path).of_name(*about, narrow.conditions) == narrow
    StoredCeilings(tmp_path).save(usual)
    stored = StoredCeilings(tmp_path)
    assert stored.of_name(*about) == stored.of_name(*about, Conditions({"OMP_NUM_THREADS": 2})) == usual
    assert stored.of_name(*about, narrow.conditions) == narrow


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON; delete it"),
        ("[]", "format is not 'tuner ceilings'; move it"),
        (
            '{"format": "tuner ceilings", "version": 2, "devices": []}',
            "version is 2; this version of tuner reads 1",
        ),
        ("\ud800", "is not JSON; delete it"),
    ],
)
def test_a_file_of_something_else_is_told_and_kept(text: str, message: str, tmp_path: Path, tune: Tune) -> None:
    file = tmp_path / "ceilings.json"
    file.write_text(text, errors="surrogatepass")
    before = file.read_bytes()
    listed = tune("devices", "--device", "host", "--results", tmp_path)
    assert (listed.status, message in listed.err) == (0, True), listed.err
    refused = tune("devices", "--measure", "--device", "host", "--results", tmp_path)
    assert (refused.status, message in refused.err, file.read_bytes()) == (2, True, before), refused.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": 3}, "device: not a line of text"),
        ({"cache": "much"}, "cache: neither a number of bytes nor null"),
        ({"rates": []}, "rates: not an object"),
        ({"rates": {"copy": 3}}, "rates: copy: not an object"),
        (
            {"rates": {"copy": {"rate": 0, "spread": 0, "rounds": 5, "kernel": "k"}}},
            "rates: copy: rate is 0; allowed: above 0",
        ),
        (
            {"rates": {"copy": {"rate": "1", "spread": 0, "rounds": 5, "kernel": "k"}}},
            "rates: copy: rate: not a number of at least 0",
        ),
    ],
)
def test_an_entry_that_breaks_a_rule_is_told_and_ignored(
    change: dict[str, object], message: str, tmp_path: Path, host: Device
) -> None:
    StoredCeilings(tmp_path).save(dataclasses.replace(CEILINGS, device=host.name, kind="host"))
    file = tmp_path / "ceilings.json"
    document = json.loads(file.read_text())
    document["devices"][0] |= change
    file.write_text(json.dumps(document))
    kept = StoredCeilings(tmp_path)
    assert kept.of(host) is None
    assert len(kept.problems) == 1
    assert f"devices: 1: {message}" in kept.problems[0]


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "file").write_text("")
    done = tune("devices", "--measure", "--device", "host", "--results", tmp_path / "file")
    assert (done.status, done.out) == (2, "")
    assert "Not a directory; name another folder with --results" in done.err
