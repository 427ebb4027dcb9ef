"""A family is exported with its records, and served at any size without a compiler."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers import ROOT
from helpers.own_kernels import scaled
from helpers.processes import Tune
from helpers.records import record
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.builds import build_cache
from tuner.errors import DeviceError, RequestError
from tuner.space.config import Config
from tuner.space.sources.rendering import Version
from tuner.store import time_tables
from tuner.store.store import Store
from tuner.store.time_tables import TimeTable

# One parameter makes code for one size, another for a kind of size.
SPACE = "[1, 2, 4], fixed: [0, 1]}\nderived: {fixed_n: n if fixed else 0, even: unroll == 2 and n % 2 == 0"
CODE = """\
int used = fixed_n + even; (void)used;
    for (int i = 0; i < n; i += unroll)"""


@pytest.fixture
def scales(tmp_path: Path) -> Path:
    """A folder with a kernel."""
    file = scaled(tmp_path / "scales", "twice")
    file.write_text(file.read_text().replace("[1, 2]", SPACE))
    source = file.with_suffix(".c")
    source.write_text(source.read_text().replace("for (int i = 0; i < n; i += unroll)", CODE))
    return file


def measured(file: Path, device: Device, n: int, *timed: tuple[Config, float]) -> None:
    space = catalog.load(str(file))
    (config, time_ms), *others = timed
    version = Version.of(space)
    made = record(
        device=device.name, kind=device.kind, architecture=device.architecture, sizes={"n": n}, options={},
        conditions=dict(device.conditions.values),
        config=config, time_ms=time_ms, signature=version.signature, code=version.code,
        next=[{"config": config, "time_ms": time_ms} for config, time_ms in others],
    )  # fmt: skip
    assert Store(space.name).add(made)


def config(unroll: int, fixed: int = 0) -> Config:
    return {"unroll": unroll, "fixed": fixed}


def builds() -> set[str]:
    return {path.name for path in build_cache.folder().iterdir()}


@pytest.fixture
def exported(tune: Tune, scales: Path, host: Device, tmp_path: Path) -> Path:
    """The folder, of two sizes."""
    for n in (1000, 2000):
        measured(scales, host, n, (config(4, fixed=1), 1.0), (config(2), 1.05), (config(1), 1.2))
    done = tune("export", scales, "--to", "dispatch", "--device", "host", "--output", tmp_path / "bundle", "--json")
    assert done.status == 0, done.err
    assert (done.json["builds"], done.json["family"]) == (3, str(scales))
    return tmp_path / "bundle"


@pytest.mark.slow
def test_an_exported_family_runs_at_any_size_and_compiles_nothing(
    exported: Path, scales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("TUNER_RESULTS", str(tmp_path / "none"))
    moved = shutil.move(exported, tmp_path / "elsewhere")
    scale = tuner.dispatch(scales, binaries=moved)
    for n, chosen, match in ((1000, config(4, fixed=1), "exact"), (1500, config(2), "nearest_size")):
        x = np.ones(n, np.float32)
        y = np.empty_like(x)
        scale(y, x)
        assert (y == 2).all()
        told = scale.explain(y, x)
        assert (told.config, told.match) == (chosen, match)
    assert builds() == set()
    y, x = (np.ones(1501, np.float32) for _ in "yx")
    assert scale.explain(y, x).config == config(2), "which nothing was measured for, and is compiled"
    assert len(builds()) >= 1


@pytest.mark.slow
def test_a_bundle_serves_a_kernel_under_another_name_and_refuses_another_kernel(
    exported: Path, scales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TUNER_CACHE", "TUNER_RESULTS", "TUNER_STATE"):
        monkeypatch.setenv(name, str(tmp_path / "empty" / name))
    renamed = (scales.parent.rename(tmp_path / "mine") / scales.name).rename(tmp_path / "mine" / "other.yaml")
    y, x = (np.ones(1000, np.float32) for _ in "yx")
    told = tuner.dispatch(renamed, binaries=exported).explain(y, x)
    assert (told.kernel, told.config, told.match) == ("mine/other", config(4, fixed=1), "exact")
    assert builds() == set()
    with pytest.raises(RequestError, match="was exported for scales/twice; no kernel of sgemm has that code"):
        tuner.dispatch("sgemm", binaries=exported)
    changed = shutil.copytree(renamed.parent, tmp_path / "scales")
    (changed / "other.yaml").rename(changed / "twice.yaml")
    source = changed / "twice.c"
    source.write_text(source.read_text().replace("used = ", "used = 0 + "))
    with pytest.warns(UserWarning, match="scales/twice has changed since it was exported"):
        tuner.dispatch([renamed, changed / "twice.yaml"], binaries=exported)
    held = json.loads((exported / "dispatch.json").read_text())
    held["kernels"]["scales/thrice"] = "of a kernel that is not here as it was"
    (exported / "dispatch.json").write_text(json.dumps(held))
    moved = (changed / "twice.yaml").rename(changed / "third.yaml")
    with pytest.warns(UserWarning, match="has the code that scales/thrice had when it was exported; export"):
        tuner.dispatch([renamed, moved], binaries=exported)


def test_builds_of_what_tables_know_are_in_it(
    scales: Path, host: Device, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(scales, host, 1000, (config(1), 1.0))
    space = catalog.load(str(scales))
    table = TimeTable(host.kind, host.name, Version.of(space).code, ("n",), {}, {}, conditions=host.conditions)
    for unroll, n, time_ms in ((2, 1500, 1.0), (2, 1501, 1.0), (4, 1500, 1.2), (1, 1500, 1.05)):
        table.add(config(unroll), (n,), time_ms)
    time_tables.write(space.name, [table])
    done = tune("export", scales, "--to", "dispatch", "--device", "host", "--output", tmp_path / "bundle", "--json")
    assert done.json["builds"] == 3, "two of unroll 2, for even and odd sizes, and one of unroll 1"
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "empty"))
    scale = tuner.dispatch(scales, binaries=tmp_path / "bundle")
    for n, unroll in ((1000, 1), (1500, 2), (1501, 2)):
        x = np.ones(n, np.float32)
        scale(y := np.empty_like(x), x)
        assert (scale.explain(y, x).config, (y == 2).all()) == (config(unroll), True)
    assert builds() == set()
    renamed = scales.parent.rename(tmp_path / "mine") / scales.name
    told = tuner.dispatch(renamed, binaries=tmp_path / "bundle", results=tmp_path / "bundle/records").explain(y, x)
    assert (told.kernel, told.config) == ("mine/twice", config(2)), "its table serves under any name"


@pytest.mark.slow
def test_records_that_ship_are_in_it_too(tune: Tune, tmp_path: Path) -> None:
    done = tune("export", "gallery/vector_add", "--to", "dispatch", "--device", "H200", "--output", tmp_path, "--json")
    assert done.status == 0, done.err
    assert {
        file.relative_to(tmp_path / "records").with_suffix("").as_posix() for file in tmp_path.glob("records/*/*")
    } == {*done.json["kernels"]}


@pytest.fixture
def swizzled(tmp_path: Path, untuned: None) -> str:
    """A kernel with a record of an H200, and with times of an H200 and an H100 at two sizes: each size may need builds
    of its own, which take half a second each."""
    kernel = "hgemm/05_mma_swizzled"
    tables, _ = time_tables.read_file(time_tables.path(kernel, ROOT / "results"))
    few = []
    for table in tables:
        sizes = sorted({at for times in table.times.values() for at in times})[-2:]
        cut = dataclasses.replace(table, times={}, configs={}, library={})
        for key, times in table.times.items():
            for at in times.keys() & {*sizes}:
                cut.add(table.configs[key], at, times[at])
        few.append(cut)
    assert {table.device for table in few} == {"NVIDIA H200", "NVIDIA H100 80GB HBM3"}
    time_tables.write(kernel, few)
    (one, *_) = [each for each in Store(kernel, ROOT / "results").records if each.device == "NVIDIA H200"]
    assert Store(kernel).add(dataclasses.replace(one, next=[]))
    return kernel


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "device"), [(["--device", "H100"], "NVIDIA H100 80GB HBM3"), ([], "NVIDIA H200")])
def test_a_device_that_tables_alone_know_is_exported_where_it_is_named(
    tune: Tune, tmp_path: Path, swizzled: str, asked: list[str], device: str
) -> None:
    folder = tmp_path / "bundle"
    done = tune("export", swizzled, "--to", "dispatch", *asked, "--output", folder, "--json")
    assert done.status == 0, done.err
    assert [one["device"] for one in done.json["devices"]] == [device]
    tables, _ = time_tables.read_file(time_tables.path(swizzled, folder / "records"))
    assert ({table.device for table in tables}, done.json["builds"] > 0) == ({device}, True)


def test_what_is_far_behind_everywhere_is_not_in_it(exported: Path) -> None:
    held = json.loads((exported / "dispatch.json").read_text())
    files = {each["file"] for each in held["binaries"]}
    assert len(files) == 3, "two for one size each, and one for both"
    assert files | {"dispatch.json", "records"} == {path.name for path in exported.iterdir()}


def test_a_bundle_that_is_not_what_was_exported_is_refused(exported: Path, scales: Path, host: Device) -> None:
    file = exported / "dispatch.json"
    text = file.read_text()
    held = json.loads(text)
    (exported / held["binaries"][0]["file"]).write_bytes(b"other")
    with pytest.raises(RequestError, match="has changed since it was exported; export it again"):
        tuner.dispatch(scales, binaries=exported)
    file.write_text(json.dumps({**held, "binaries": [], "architecture": "other"}))
    with pytest.raises(DeviceError, match=f"its builds are for host other, .*, not for host {host.architecture}, "):
        tuner.dispatch(scales, binaries=exported)(np.ones(8, np.float32), np.ones(8, np.float32))
    file.write_text(json.dumps({**held, "binaries": [], "device": "Another processor x4"}))
    with pytest.raises(DeviceError, match=r"its builds are for host .*, Another processor, not for host"):
        tuner.dispatch(scales, binaries=exported)(np.ones(8, np.float32), np.ones(8, np.float32))
    for damaged in (text[:40], "[]", text.replace('"version": 2', '"version": 9')):
        file.write_text(damaged)
        with pytest.raises(RequestError, match="is damaged, or of another version; export it again"):
            tuner.dispatch(scales, binaries=exported)


def test_builds_for_a_processor_that_is_not_here_are_not_made(tune: Tune, scales: Path, host: Device) -> None:
    store, version = Store(catalog.load(str(scales)).name), Version.of(catalog.load(str(scales)))
    assert store.add(
        record(
            device="Another processor x4", kind="host", architecture=host.architecture, sizes={"n": 1000}, options={},
            config=config(1), time_ms=1.0, signature=version.signature, code=version.code,
        )
    )  # fmt: skip
    done = tune("export", scales, "--to", "dispatch", "--device", "Another")
    assert (done.status, "host builds run only on the device that compiled them" in done.err) == (2, True), done.err


def test_what_cannot_be_exported_is_one_message(tune: Tune, scales: Path, host: Device) -> None:
    space = catalog.load(str(scales))
    of_the_library = TimeTable(host.kind, host.name, Version.of(space).code, ("n",), {}, {}, conditions=host.conditions)
    of_the_library.library[(1000,)] = 1.0
    time_tables.write(space.name, [of_the_library])
    for arguments, message in (
        (["1000"], "--to dispatch: it serves every size; leave out '1000'"),
        (["--device", "host"], "run `tune cover"),
        (["--device", "H300"], "nor a device with times in the store"),
    ):
        done = tune("export", scales, *arguments, "--to", "dispatch")
        assert done.status == 2, done.out
        assert message in done.err
