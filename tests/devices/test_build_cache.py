"""Builds on disk, of this machine, of a copied cache and of an exported bundle."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers.arrays import SHAPE, arrays
from helpers.forked import HOST, Forks, forks
from helpers.processes import Tune
from helpers.scripts import HEAVY, LAUNCH
from tuner import paths
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.builds import build_cache, bundles
from tuner.devices.cuda import compiler
from tuner.errors import RequestError
from tuner.space import parsing
from tuner.space.instance import Instance
from tuner.space.scope import Limits, Scope
from tuner.space.sources import rendering

# An edited kernel makes the shipped records stale until it is tuned again; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*earlier version")

NO_COMPILER = """
import sys
sys.modules |= {"cuda": None, "nvidia": None}
from tuner import paths
from tuner.catalog import catalog
from tuner.space import parsing
from tuner.space.sources import rendering
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.errors import DeviceError
from tuner.space.scope import Limits, Scope
from tuner.space.instance import Instance
space = catalog.load("sgemm/03_naive")
sizes = parsing.parse_size(64, space.operation)
scope = Scope(sizes, space.operation.options, "cuda", Limits(compute_capability=9.0))
made = rendering.render(Instance(space, dict(space.default), scope))[0].source
print(paths.digest(NvrtcCompiler("sm_90a").build(made).binary))
try:
    NvrtcCompiler("sm_53").build(made)
except DeviceError as error:
    print(error)
"""


@pytest.mark.slow
def test_without_nvrtc_what_another_has_built_is_taken_and_else_one_message_says_what_is_missing() -> None:
    space = catalog.load("sgemm/03_naive")
    sizes = parsing.parse_size(64, space.operation)
    scope = Scope(sizes, space.operation.options, "cuda", Limits(compute_capability=9.0))
    (step,) = rendering.render(Instance(space, dict(space.default), scope))
    built = compiler.NvrtcCompiler("sm_90a").build(step.source)
    done = subprocess.run([sys.executable, "-c", NO_COMPILER], capture_output=True, text=True, check=True)
    taken, message = done.stdout.splitlines()
    assert taken == paths.digest(built.binary)
    assert re.match(
        r"sgemm_naive: compiling CUDA needs NVRTC; pip .* has no build .* for sm_53 either; install", message
    )


@pytest.mark.slow
def test_an_exported_bundle_is_known_by_its_sources_and_no_other_folder_is_one(tune: Tune, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    asked = ("export", "sgemm/03_naive", "64", "--to", "cubin", "--architecture", "sm_80,sm_90a", "--output", bundle)
    assert tune(*asked).status == 0
    _, build = bundles.read(bundle, "sgemm/03_naive")
    space = catalog.load("sgemm/03_naive")
    sizes = parsing.parse_size(64, space.operation)
    scope = Scope(sizes, space.operation.options, "cuda", Limits(compute_capability=9.0))
    (cubin,) = build.binaries
    assert cubin.source == rendering.render(Instance(space, build.config, scope))[0].source.digest
    assert cubin.binary == (bundle / "sm_90a.cubin").read_bytes()
    assert [b.architecture for b in bundles.read(bundle, "sgemm/03_naive")] == ["sm_80", "sm_90a"]
    launch = (bundle / "launch.json").read_text()
    (bundle / "launch.json").write_text(launch.replace('"version": 2', '"version": 1'))
    with pytest.raises(RequestError, match=r"launch.json has version 1; this tuner reads version 2; export it again"):
        bundles.read(bundle, "sgemm/03_naive")
    (bundle / "launch.json").write_text(launch)
    (bundle / "sm_90a.cubin").write_bytes(cubin.binary[:-1])
    with pytest.raises(RequestError, match=r"sm_90a.cubin has changed since it was exported; export it again"):
        bundles.read(bundle, "sgemm/03_naive")
    for text in ("{", "[]", '{"builds": [{"architecture": "sm_90a"}]}', launch.replace("tuner bundle", "another")):
        (bundle / "launch.json").write_text(text)
        with pytest.raises(RequestError, match="bundle: not a folder that `tune export --to cubin` wrote"):
            bundles.read(bundle, "sgemm/03_naive")


@pytest.fixture(scope="module")
def launches() -> Iterator[Forks]:
    """Each launch has a process of its own, which has loaded no build."""
    with forks(*HOST, "tuner.devices.opencl.device", "pyopencl.array") as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "device"), [("sgemm/01_host_blocked", "host"), ("sgemm/03_naive", "opencl")])
@pytest.mark.parametrize("damage", ["cut short", "changed"])
def test_a_damaged_build_is_made_again(
    damage: str, kernel: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launches: Forks
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path))
    script = LAUNCH.format(kernel=kernel, device=device, heavy=HEAVY, sealed=False)
    for _ in range(2):
        launches.run(script)
        kept = list(build_cache.folder().iterdir())
        assert kept
        for file in kept:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 255
            file.write_bytes(data[:1000] if damage == "cut short" else data)


def test_the_least_recently_used_builds_are_deleted_at_most_every_ten_minutes_for_the_first_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launches: Forks
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path))
    one = "import sys; from tuner.devices.builds import build_cache\nbuild_cache.MAX_BYTES = 1500\n"
    one += "build_cache.write(sys.argv[1], bytes(1000))"

    def kept() -> set[str]:
        return {file.name for file in build_cache.folder().iterdir()}

    launches.run(one, "oldest")
    launches.run(one, "old")
    assert kept() == {"oldest", "old"}  # looked at for the first one
    for time, file in enumerate(("oldest", "old", "builds.swept"), start=1):
        os.utime((tmp_path if file == "builds.swept" else build_cache.folder()) / file, (time, time))
    launches.run(one, "new")
    assert kept() == {"new"}
    launches.run(one, "newer")
    assert kept() == {"new", "newer"}


@pytest.mark.slow
def test_a_damaged_build_is_not_loaded_where_it_cannot_be_replaced(
    host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path))
    tuner.load("sgemm/00_host_simple", SHAPE, device=host)
    for file in build_cache.folder().iterdir():
        data = file.read_bytes()
        file.unlink()  # what this process has loaded stays whole
        file.write_bytes(data[:1000])

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(paths, "replace", full)
    C, A, B = arrays()
    tuner.load("sgemm/00_host_simple", SHAPE, device=host)(C, A, B)
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)
