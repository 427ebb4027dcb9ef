"""`tuner.dispatch`: which kernel of a family runs at a size, in which configuration, and what that needs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers import ROOT
from helpers.kernels import MULTIPLY, c_kernel
from helpers.own_kernels import scaled
from helpers.records import record, sizes
from helpers.scripts import HEAVY
from helpers.spaces import scope_of
from tuner import devices
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.builds import build_cache
from tuner.devices.product import ProductLaunch
from tuner.errors import ArgumentError, DeviceError, RequestError
from tuner.families.code import SizedCode
from tuner.families.vendor import Substitute
from tuner.space.config import Config
from tuner.space.model import Space
from tuner.space.sources.rendering import Version
from tuner.store import missed, rejected, time_tables
from tuner.store.lookup import Query
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.store.time_tables import TimeTable

STAGE = """\
title: {title}
operation: operation.yaml
kernel: {stem}
source: {stem}.c
languages: [c]
parameters: {{mode: [0, 1, 2, 3], fixed: [0, 1]}}
derived:
  fixed_m: M if fixed else 0
  wide: mode == 1 and M % 4 == 0
  rows: M + 1                          # of nothing that the source names
restrictions:
  - {{that: mode < 3 or M < 50, because: larger ones are not for mode 3}}
default: {{mode: 0, fixed: 0}}
"""
OPERATION = """\
sizes: {M: , N: , K: , batch: 1}
options: {alpha: 1.0, beta: 0.0}
arguments:
  - {name: C, dtype: float32, shape: [batch, M, N], role: inout}
  - {name: A, dtype: float32, shape: [batch, M, K], role: in}
  - {name: B, dtype: float32, shape: [batch, K, N], role: in}
  - {name: M, dtype: int32}
  - {name: N, dtype: int32}
  - {name: K, dtype: int32}
  - {name: batch, dtype: int32}
  - {name: alpha, dtype: float32}
  - {name: beta, dtype: float32}
reference: alpha * (A @ B) + beta * C if beta != 0 else alpha * (A @ B)
tolerance: epsilon * (16 * abs(alpha) * K + 16 * abs(beta))
flops: 2 * M * N * K * batch
"""
CHECKED = "#if fixed_m\nif (M != fixed_m) return;\n#endif\nint chosen = mode + wide; (void)chosen;\n"


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """A folder of two stages that multiply matrices."""
    folder = tmp_path / "products"
    folder.mkdir()
    (folder / "operation.yaml").write_text(OPERATION)
    for stem in ("plain", "quick"):
        (folder / f"{stem}.yaml").write_text(STAGE.format(stem=stem, title=stem))
        (folder / f"{stem}.c").write_text(c_kernel(stem, CHECKED + MULTIPLY))
    return folder


def measured(space: Space, device: Device, size: int, *timed: tuple[Config, float], **changes: Any) -> Record:
    (config, time_ms), *others = timed
    version = Version.of(space)
    plain = record(
        device=device.name, kind=device.kind, architecture=device.architecture, sizes=sizes(size), config=config,
        time_ms=time_ms, signature=version.signature, code=version.code,
        next=[{"config": config, "time_ms": time_ms} for config, time_ms in others],
        conditions=dict(device.conditions.values),
    )  # fmt: skip
    return replace(plain, **changes)


OPTIONS = {"alpha": 1.0, "beta": 0.0}


def mode(number: int, fixed: int = 0) -> Config:
    return {"mode": number, "fixed": fixed}


def stored(products: Path, device: Device, **records: list[tuple[int, list[tuple[Config, float]]]]) -> Path:
    """A store with records of the stages by name: each with a size, and what was measured there."""
    folder = products.parent / "records"
    for stem, of_stage in records.items():
        space = catalog.load(str(products / f"{stem}.yaml"))
        for size, timed in of_stage:
            assert Store(space.name, folder).add(measured(space, device, size, *timed))
    return folder


def matrices(m: int, n: int | None = None, k: int | None = None, batch: int = 1) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(m)
    shapes = ((batch, m, n or m), (batch, m, k or m), (batch, k or m, n or m))
    return [random.random(shape, dtype=np.float32) for shape in shapes]


def builds() -> set[str]:
    """The files of builds in the cache, which also has the compiler's list of folders."""
    return {path.name for path in build_cache.folder().iterdir() if not path.name.startswith("folders-")}


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(7, 5, 3, 1), (64, 64, 64, 1), (1, 33, 20, 4)])
def test_one_handle_multiplies_at_any_size(shape: tuple[int, int, int, int], host: Device) -> None:
    gemm = tuner.dispatch("sgemm", device=host)
    C, A, B = matrices(*shape)
    gemm(C, A, B)
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)
    gemm(C, A, B, alpha=2.0, beta=1.0)
    np.testing.assert_allclose(C, 3 * (A @ B), rtol=1e-5)


@pytest.mark.parametrize("family", sorted(path.parent.name for path in (ROOT / "spaces").glob("*/operation.yaml")))
def test_kernels_that_ship_with_one_operation_are_a_family(family: str) -> None:
    stages = [path for path in (ROOT / "spaces" / family).glob("*.yaml") if path.stem != "operation"]
    assert len(tuner.dispatch(family).family.spaces) == len(stages)


@pytest.mark.slow
def test_the_arrays_say_where_a_call_runs(opencl: Device) -> None:
    from pyopencl import array

    gemm = tuner.dispatch(["sgemm/00_host_simple", "sgemm/03_naive"])
    C, A, B = matrices(16)
    gemm(C, A, B)
    on_opencl = tuner.dispatch(["sgemm/00_host_simple", "sgemm/03_naive"], device=opencl)
    there = [array.to_device(opencl.queue, x) for x in (np.zeros_like(C), A, B)]
    on_opencl(*there)
    np.testing.assert_allclose(there[0].get(), C, rtol=1e-5)
    assert (gemm.explain(C, A, B).kernel, on_opencl.explain(*there).device) == ("sgemm/00_host_simple", opencl.name)


@pytest.mark.slow
def test_stage_and_configuration_follow_the_size(products: Path, host: Device) -> None:
    records = stored(
        products, host,
        plain=[(16, [(mode(1), 1.0)]), (64, [(mode(1), 9.0)])],
        quick=[(16, [(mode(2), 2.0)]), (64, [(mode(2), 8.0)])],
    )  # fmt: skip
    gemm = tuner.dispatch(products, results=records)
    told = {size: gemm.explain(*matrices(size)) for size in (16, 17, 60, 64)}
    stages = {size: (one.kernel.rpartition("/")[2], one.config["mode"], one.match) for size, one in told.items()}
    assert stages == {
        16: ("plain", 1, "exact"),
        17: ("plain", 1, "nearest_size"),
        60: ("quick", 2, "nearest_size"),
        64: ("quick", 2, "exact"),
    }
    assert "at the nearest size, M=16" in told[17].why
    C, A, B = matrices(17)
    gemm(C, A, B)
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)


def test_what_a_size_needs_is_loaded_once(products: Path) -> None:
    gemm = tuner.dispatch(str(products))
    one, same, other = (gemm.kernel(*matrices(size)) for size in (16, 16, 17))
    assert one is same
    assert other is not one
    assert "2 loaded" in repr(gemm)


@pytest.mark.slow
def test_a_configuration_that_is_not_valid_there_gives_way(products: Path, host: Device) -> None:
    records = stored(products, host, plain=[(16, [(mode(3), 1.0), (mode(1), 2.0)])])
    gemm = tuner.dispatch(products, results=records)
    assert [gemm.explain(*matrices(size)).config["mode"] for size in (16, 60)] == [3, 1]


@pytest.mark.slow
def test_a_first_call_at_a_size_that_nobody_measured_compiles_nothing(
    products: Path, host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))  # to that of all tests others add
    compiled = [(mode(1, fixed=1), 1.0), (mode(2), 2.0)]
    records = stored(products, host, plain=[(16, compiled), (24, compiled)])
    gemm = tuner.dispatch(products, results=records)
    for size in (16, 24):
        kernel = gemm.kernel(*matrices(size))
        assert (kernel.config, kernel.match) == (mode(1, fixed=1), "exact")
    tuner.load(products / "plain.yaml", 16, config=mode(2))  # as measuring it did
    before = builds()
    C, A, B = matrices(20)
    gemm(C, A, B)
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)
    assert gemm.explain(C, A, B).config == mode(2)
    assert builds() == before


@pytest.mark.slow
def test_code_for_another_kind_of_size_is_compiled_only_where_nothing_is_built_yet(
    products: Path, host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = stored(products, host, plain=[(16, [(mode(1), 1.0), (mode(2), 1.5)])])
    (products / "plain.c").write_text((products / "plain.c").read_text() + f"// {products}\n")  # built by no other test
    tuner.load(products / "plain.yaml", 16, config=mode(2))
    assert tuner.dispatch(products, results=records).kernel(*matrices(17)).config == mode(2), "which is built"
    tuner.load(products / "plain.yaml", 17, config=mode(1))
    assert tuner.dispatch(products, results=records).kernel(*matrices(19)).config == mode(1), "which is built since"
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "empty"))
    assert tuner.dispatch(products, results=records).kernel(*matrices(21)).config == mode(1), "as nothing is built"


@pytest.mark.slow
def test_the_times_at_other_sizes_predict_which_stage_is_best(products: Path, host: Device) -> None:
    steady, quick_at_112 = [], []
    for size in (80, 96, 112, 128, 144):
        time = size**3 / 1e6
        steady.append((size, [(mode(1), time)]))
        quick_at_112.append((size, [(mode(2), time * (0.9 if size == 112 else 2.0))]))
    gemm = tuner.dispatch(products, results=stored(products, host, plain=steady, quick=quick_at_112))
    told = gemm.explain(*matrices(104))
    assert (told.kernel.rpartition("/")[2], told.match, round(told.regret or 0, 3)) == ("plain", "predicted", 0.022)
    assert "expected regret 2.2%" in str(told)


def tabulated(products: Path, host: Device, stem: str, timed: dict[int, tuple[Config, float]]) -> TimeTable:
    """The times of one configuration of a stage at several sizes."""
    space = catalog.load(str(products / f"{stem}.yaml"))
    table = TimeTable(
        host.kind, host.name, Version.of(space).code, ("M", "N", "K", "batch"), OPTIONS, {},
        architecture=host.architecture, units=host.units, conditions=host.conditions,
    )  # fmt: skip
    for size, (config, time_ms) in timed.items():
        table.add(config, (size, size, size, 1), time_ms)
    time_tables.write(space.name, [table], products.parent / "records")
    return table


def test_a_table_of_times_tells_what_is_best_between_its_sizes_and_goes_with_its_code(
    products: Path, host: Device
) -> None:
    tried = (80, 96, 112, 128, 144)
    tabulated(products, host, "plain", {size: (mode(1), size**3 / 1e6) for size in tried})
    slow = {size: (mode(2), size**3 / 1e6 * (0.9 if size == 112 else 2.0)) for size in tried}
    tabulated(products, host, "quick", slow)
    told = tuner.dispatch(products, results=products.parent / "records").explain(*matrices(104))
    assert (told.kernel.rpartition("/")[2], told.config, told.match) == ("plain", mode(1), "predicted")
    source = products / "plain.c"
    source.write_text(source.read_text().replace("chosen", "taken"))
    told = tuner.dispatch(products, results=products.parent / "records").explain(*matrices(104))
    assert (told.kernel.rpartition("/")[2], told.config, told.match) == ("quick", mode(2), "nearest_size")


def test_new_times_take_the_place_of_old_ones_in_a_table(products: Path, host: Device) -> None:
    tabulated(products, host, "plain", {16: (mode(1), 1.0), 24: (mode(1), 2.0)})
    tabulated(products, host, "plain", {24: (mode(1), 3.0), 32: (mode(2), 4.0)})
    space = catalog.load(str(products / "plain.yaml"))
    (table,), problems = time_tables.read(Store.of(space, products.parent / "records").files)
    at = {size[0]: time_ms for times in table.times.values() for size, time_ms in times.items()}
    assert (at, problems) == ({16: 1.0, 24: 3.0, 32: 4.0}, [])


def damaged(file: Path, before: str, after: str) -> bytes:
    """The text of a table, as earlier versions wrote it, with a fault; it takes the place of the table."""
    text = time_tables.text("plain", time_tables.read_file(file)[0])
    assert before in text
    file.unlink()
    content = text.replace(before, after).encode()
    file.with_suffix(".times.json").write_bytes(content)
    return content


def cut(file: Path) -> bytes:
    """The first half of a file, which takes its place."""
    content = file.read_bytes()[: file.stat().st_size // 2]
    file.write_bytes(content)
    return content


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        '"tuner times"|"else"', "1.0|-1.0", "[16,16,16,1]|[16]", "{|[", '"launch_ms":0.0|"launch_ms":"2"',
        '"launch_ms":0.0|"launch_ms":-1', '"times_ms":[1.0|"times_ms":[1' + 400 * "0", "cut",
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_is_told_and_left_as_it_is(products: Path, host: Device, damage: str) -> None:
    name, folder = catalog.load(str(products / "plain.yaml")).name, products.parent / "records"
    tabulated(products, host, "plain", {16: (mode(1), 1.0)})
    file = time_tables.path(name, folder)
    content = cut(file) if damage == "cut" else damaged(file, *damage.split("|"))
    file = file if damage == "cut" else file.with_suffix(".times.json")
    tables, (problem,) = time_tables.read(Store(name, folder).files)
    assert tables == []
    assert f"{file.name}: " in problem
    with pytest.raises(RequestError, match="move it away"):
        tabulated(products, host, "plain", {24: (mode(1), 1.0)})
    assert file.read_bytes() == content
    for use in (lambda gemm: gemm, lambda gemm: gemm.kernel, lambda gemm: gemm.explain):
        with pytest.warns(UserWarning, match="move it away") as warned:
            use(tuner.dispatch(products, results=folder))(*matrices(16))
        assert {warning.filename for warning in warned} == {__file__}


def test_a_text_of_an_earlier_version_is_read_and_goes_into_the_file_at_the_next_write(
    products: Path, host: Device
) -> None:
    tabulated(products, host, "plain", {16: (mode(1), 1.25), 24: (mode(1), 2.0)})
    space, folder = catalog.load(str(products / "plain.yaml")), products.parent / "records"
    file = time_tables.path(space.name, folder)
    text = file.with_suffix(".times.json")
    text.write_text(time_tables.text(space.name, time_tables.read_file(file)[0]))
    file.unlink()
    assert json.loads(text.read_text())["tables"][0]["configs"][0]["times_ms"] == [1.25, 2.0]
    tabulated(products, host, "plain", {24: (mode(1), 3.0)})
    (table,), _ = time_tables.read(Store.of(space, folder).files)
    assert [*table.times.values()] == [{(16, 16, 16, 1): 1.25, (24, 24, 24, 1): 3.0}]
    assert not text.exists()


def test_times_in_a_file_are_within_a_thousandth_whatever_their_magnitude(products: Path, host: Device) -> None:
    times = [1.2345678e-9, 3e-4, 0.99996, 1.0, 12.34567, 9.9999e8]
    tabulated(products, host, "plain", {16 * n: (mode(1), time_ms) for n, time_ms in enumerate(times, 1)})
    (table,), _ = time_tables.read(
        Store.of(catalog.load(str(products / "plain.yaml")), products.parent / "records").files
    )
    (found,) = table.times.values()
    assert [*found.values()] == pytest.approx(times, rel=5.01e-4)


def test_without_a_record_it_is_the_default_of_the_last_stage(products: Path) -> None:
    told = tuner.dispatch(products).explain(*matrices(16))
    assert (told.kernel.rpartition("/")[2], told.config, told.match) == ("quick", mode(0), "default")


@pytest.mark.slow
def test_a_time_with_other_inputs_gives_way_to_a_later_one(products: Path, host: Device, tmp_path: Path) -> None:
    space = catalog.load(str(products / "plain.yaml"))
    before = measured(space, host, 16, (mode(1), 1.0), signature="of another fill", date="2026-01-01T00:00:00")
    now = measured(space, host, 16, (mode(2), 5.0), date="2026-02-01T00:00:00")
    store = Store(space.name, tmp_path / "records")
    assert store.add(before)
    assert store.add(now)
    assert tuner.dispatch(products, results=tmp_path / "records").explain(*matrices(16)).config == mode(2)


def test_what_failed_verification_here_comes_last(products: Path, host: Device) -> None:
    records = stored(products, host, plain=[(16, [(mode(2), 1.0)])])
    assert tuner.dispatch(products, results=records).explain(*matrices(17)).config == mode(2)
    space = catalog.load(str(products / "plain.yaml"))
    rejected.keep(Query.of(space, scope_of(space, host, "17"), host), [(mode(2), "C[0, 0, 0] = 1, 2 expected")])
    gemm = tuner.dispatch(products, results=records)
    assert [gemm.explain(*matrices(size)).config for size in (16, 17)] == [mode(2), mode(0)]
    there = replace(measured(space, host, 16, (mode(2), 1.0), (mode(1), 2.0)), device="another")
    assert Store(space.name, products.parent / "theirs").add(there)
    gemm = tuner.dispatch(products / "plain.yaml", results=products.parent / "theirs")
    assert [gemm.explain(*matrices(size)).config for size in (16, 17)] == [mode(2), mode(1)]


def test_sizes_without_an_exact_match_are_noted_and_looked_up_again_where_they_were_tuned(
    products: Path, host: Device
) -> None:
    records = stored(products, host, plain=[(16, [(mode(1), 1.0)])])
    gemm = tuner.dispatch(products, results=records)
    for size in (16, 17, 17):
        gemm(*matrices(size))
    tuner.dispatch(["sgemm/00_host_simple"])(*matrices(9))
    noted = [(miss.kernel, miss.sizes["M"], miss.device, miss.results) for miss in missed.read()]
    assert noted == [
        (str(products), 17, host.name, str(records)),
        ("sgemm/00_host_simple", 9, host.name, None),
    ]

    C, A, B = matrices(19)
    for wrong in ((C, A, B[:, 1:]), (C, A, B.astype(np.float64))):
        with pytest.raises(ArgumentError):
            gemm(*wrong)
    assert len(missed.read()) == len(noted), "a call that fails is none to tune for"

    def tuned(miss: missed.Miss, device: str) -> bool:
        stored(products, host, quick=[(miss.sizes["M"], [(mode(2), 0.1)])])
        return True

    with missed.handled(tuned):
        told = gemm.explain(*matrices(18))
    assert (told.kernel.rpartition("/")[2], told.config, told.match) == ("quick", mode(2), "exact")


@pytest.mark.slow
def test_sizes_that_no_shape_tells_are_given_or_solved(tmp_path: Path) -> None:
    file = tmp_path / "shifted.yaml"
    (tmp_path / "shifted.c").write_text(
        "void shifted(float *y, const float *x, int count, int by) { while (count--) y[count] = x[count + 2] + by; }"
    )
    file.write_text(
        "title: the sum with a size\noperation:\n  sizes: {n: , by: }\n  extent: [n]\n  arguments:\n"
        "    - {name: y, dtype: float32, shape: [2 * n], role: out}\n"
        "    - {name: x, dtype: float32, shape: [2 * n + 2], role: in}\n"
        "    - {name: count, dtype: int32, value: 2 * n}\n    - {name: by, dtype: int32}\n"
        "  reference: x[2:] + by\nkernel: shifted\nlanguages: [c]\nparameters: {unused: [0]}\n"
    )
    x, y = np.arange(12, dtype=np.float32), np.zeros(10, np.float32)
    tuner.dispatch(file, sizes={"by": 3})(y, x)
    np.testing.assert_array_equal(y, x[2:] + 3)
    with pytest.raises(RequestError, match="size by: no array shape determines it; pass sizes="):
        tuner.dispatch(file)(y, x)
    with pytest.raises(ArgumentError, match="x: has shape"):
        tuner.dispatch(file, sizes={"by": 3})(y, x[:-1])
    with pytest.raises(ArgumentError, match="arrays of n=0, by=3: each size must be at least 1; skip the call"):
        tuner.dispatch(file, sizes={"by": 3})(y[:0], x[:2])


@pytest.mark.slow
@pytest.mark.parametrize(("extent", "length"), [("ceil_div(n, 2)", 4), ("min(n, 4)", 4)])
def test_a_size_that_several_fit_is_not_guessed(tmp_path: Path, extent: str, length: int) -> None:
    (tmp_path / "half.c").write_text("void half(float *y, const float *x, int n) { y[0] = n + 0 * x[0]; }")
    (tmp_path / "half.yaml").write_text(
        "title: a size that two lengths have\noperation:\n  sizes: {n: }\n  arguments:\n"
        "    - {name: y, dtype: float32, shape: [1], role: out}\n"
        f"    - {{name: x, dtype: float32, shape: ['{extent}'], role: in}}\n    - {{name: n, dtype: int32}}\n"
        "  reference: n + 0 * x[:1]\nkernel: half\nlanguages: [c]\nparameters: {unused: [0]}\n"
    )
    x, y = np.ones(length, np.float32), np.zeros(1, np.float32)
    with pytest.raises(RequestError, match="size n: no array shape determines it; pass sizes="):
        tuner.dispatch(tmp_path / "half.yaml")(y, x)
    tuner.dispatch(tmp_path / "half.yaml", sizes={"n": 8})(y, x)
    assert y[0] == 8


def test_of_a_list_each_kernel_is_noted_and_of_a_family_its_folder(products: Path, host: Device) -> None:
    files = [str(products / f"{stem}.yaml") for stem in ("plain", "quick")]
    tuner.dispatch(files)(*matrices(7))
    tuner.dispatch(products)(*matrices(8))
    tuner.dispatch("sgemm", device=host)(*matrices(9))
    limited = Path(files[0])
    limited.write_text(limited.read_text().replace("restrictions:", "restrictions:\n  - M > 20"))
    tuner.dispatch(files)(*matrices(10))
    noted = sorted((miss.sizes["M"], miss.kernel) for miss in missed.read())
    assert noted == [(7, files[0]), (7, files[1]), (8, str(products)), (9, "sgemm"), (10, files[1])]


def test_a_size_of_a_table_alone_is_explained(products: Path, host: Device) -> None:
    tabulated(products, host, "plain", {16: (mode(1), 1.0)})
    told = tuner.dispatch(products / "plain.yaml", results=products.parent / "records").explain(*matrices(17))
    assert (told.config, told.why) == (mode(1), "the fastest measured at the nearest size")


def test_code_that_only_an_option_of_the_compiler_changes_is_other_code(products: Path, host: Device) -> None:
    file = products / "plain.yaml"
    file.write_text(file.read_text() + "compile_options: {c: ['-DEXTENT={rows}']}\n")
    space = catalog.load(str(file))
    code = SizedCode(space)
    scope = scope_of(space, host, "16")
    assert code.values_at(mode(0), scope) != code.values_at(mode(0), scope, (17, 16, 16, 1))
    assert code.is_for_one_size(mode(0), scope)


@pytest.mark.slow
def test_types_follow_the_arrays(tmp_path: Path) -> None:
    (tmp_path / "twice.c").write_text("void twice(real *y, const real *x, int n) { while (n--) y[n] = 2 * x[n]; }")
    (tmp_path / "twice.yaml").write_text(
        "title: double\noperation:\n  sizes: {n: }\n  extent: [n]\n  types: {real: [float32, float64, int32]}\n"
        "  arguments:\n    - {name: y, dtype: real, shape: [n], role: out}\n"
        "    - {name: x, dtype: real, shape: [n], role: in}\n    - {name: n, dtype: int32}\n"
        "  reference: 2 * x\nkernel: twice\nlanguages: [c]\nparameters: {unused: [0]}\n"
    )
    twice = tuner.dispatch(tmp_path / "twice.yaml")
    for dtype in (np.float64, np.int32, np.float32):
        x, y = np.arange(5, dtype=dtype), np.zeros(5, dtype)
        twice(y, x)
        np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(ArgumentError, match="y: has dtype 'float16'; required: float32 or float64 or int32"):
        twice(y.astype(np.float16), x)
    with pytest.raises(ArgumentError, match=r"x: has shape \(5,\) and dtype int32; required: .* and dtype float32"):
        twice(y, x.astype(np.int32))  # the kernel of this size says it
    with pytest.raises(ArgumentError, match="x: has dtype 'int32'; required: float32"):
        twice(np.zeros(6, np.float32), np.zeros(6, np.int32))


def test_arrays_that_tell_no_size_are_checked_at_known_sizes(products: Path) -> None:
    handle = tuner.dispatch(products, device="host")
    C, A, B = matrices(16)
    handle(C, A, B)
    for wrong in (B[:, :8], B[0], B.astype(np.float64)):
        with pytest.raises(ArgumentError, match=r"^B: "):
            handle(C, A, wrong)
    for arrays in ([C, A], [C, A, B, B]):
        with pytest.raises(ArgumentError, match="C, A, B"):
            handle(*arrays)


def refusal(kernels: Any, **keywords: Any) -> str:
    with pytest.raises(RequestError) as refused:
        tuner.dispatch(kernels, **keywords)
    return str(refused.value)


@pytest.mark.slow
def test_what_is_no_family_is_refused_in_one_message(tmp_path: Path, products: Path) -> None:
    double, triple = scaled(tmp_path / "own", "double"), scaled(tmp_path / "own", "triple", factor=3)
    assert "differ in reference" in refusal(tmp_path / "own")
    assert "own/double" in refusal([double, triple])
    assert "there is no such kernel" in refusal("sgmm")
    assert "no space file is in the folder" in refusal(build_cache.folder())
    assert "write a family such as sgemm, a folder, or a list" in refusal(7)
    assert "the sizes are M, N, K, batch" in refusal(products, sizes={"rows": 3})
    assert "option gamma: no such option" in refusal(products, options={"gamma": 3})
    assert "that `tune export` wrote with --to dispatch or --to cubin" in refusal(products, binaries=tmp_path)
    assert "there is no such folder" in refusal(products, binaries=tmp_path / "none")
    with pytest.raises(DeviceError, match="runs on host, not on opencl"):
        tuner.dispatch(products, device="opencl")


def test_arrays_that_do_not_fit_are_named(products: Path) -> None:
    gemm = tuner.dispatch(products)
    C, A, B = matrices(16)
    for arrays, told in (
        ((C, A), "2 arrays given; it takes 3: C, A, B"),
        ((C, A, [1]), "B: of type list"),
        ((C, A, B[0]), r"B: has shape \(16, 16\); required: \(batch, K, N\)"),
        ((C, A, B[:, 1:]), r"B: has shape \(1, 15, 16\)"),
        ((C, A, B.astype(np.float64)), "B: has shape .* and dtype float64"),
        ((C, A, np.asfortranarray(B)), "B: has strides"),
        ((C, C, B), "C: shares memory with A"),
    ):
        with pytest.raises(ArgumentError, match=told):
            gemm(*arrays)


def beginning(array: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    """The same array, which begins so many bytes after a multiple of 64."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    moved = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


@pytest.mark.slow
def test_arrays_that_the_best_kernel_takes_not_where_they_begin_are_given_to_the_best_that_does(
    products: Path, host: Device
) -> None:
    for stem, alignment in (("quick", 64), ("plain", 16)):
        file = products / f"{stem}.yaml"
        file.write_text(file.read_text() + f"alignment: {alignment}\n")
    (products / "slow.yaml").write_text(STAGE.format(stem="slow", title="slow"))
    (products / "slow.c").write_text(c_kernel("slow", CHECKED + MULTIPLY))
    stages = {"quick": 1.0, "plain": 2.0, "slow": 3.0}
    records = stored(products, host, **{stem: [(16, [(mode(1), ms)])] for stem, ms in stages.items()})
    gemm = tuner.dispatch(products, results=records)
    C, A, B = matrices(16)
    for offsets, stem in (((0, 0, 0), "quick"), ((0, 0, 32), "plain"), ((0, 32, 8), "slow"), ((0, 64, 0), "quick")):
        arrays = [beginning(array, offset) for array, offset in zip((C, A, B), offsets, strict=True)]
        gemm(*arrays)
        np.testing.assert_allclose(arrays[0], A @ B, rtol=1e-5)
        assert gemm.kernel(*arrays).space.name == f"products/{stem}"
        assert (gemm.explain(*arrays).kernel, gemm.explain(*arrays).config) == (f"products/{stem}", mode(1))
    with pytest.raises(ArgumentError, match="B: begins 2 bytes after a multiple of 4"):
        gemm(C, A, beginning(B, 2))
    (products / "plain.yaml").unlink()
    (products / "slow.c").write_text(c_kernel("slow", "#error no\n" + MULTIPLY))
    gemm = tuner.dispatch(products, results=records)
    beyond = [beginning(array, offset) for array, offset in ((C, 0), (A, 0), (B, 32))]
    for _ in range(2):
        with pytest.raises(
            ArgumentError, match="B: begins 32 bytes after a multiple of 64; it must begin at a multiple"
        ):
            gemm(*beyond)
        assert gemm.explain(*beyond).kernel == "products/quick"


FORK = """
import os, signal, sys, threading, numpy as np, tuner
products, records = sys.argv[1:]
gemm = tuner.dispatch(products, results=records)
arrays = {n: [np.ones((1, n, n), np.float32) for _ in "CAB"] for n in (8, 9)}
os.mkfifo(f"{records}/products/quick.times")
thread = threading.Thread(target=gemm, args=arrays[8])
thread.start()  # it reads the times of its kernels, and waits for somebody to write them
while True:
    try:
        pipe = os.open(f"{records}/products/quick.times", os.O_WRONLY | os.O_NONBLOCK)
        break
    except OSError:
        pass
child = os.fork()
if child == 0:
    signal.alarm(60)
    os.unlink(f"{records}/products/quick.times")
    gemm(*arrays[9])
    os._exit(int(arrays[9][0].sum() != 9**3))
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
os.close(pipe)
thread.join()
sys.exit(ended or int(arrays[8][0].sum() != 8**3))
"""


@pytest.mark.slow
def test_a_fork_goes_on_while_a_thread_of_its_parent_loads(products: Path) -> None:
    (products.parent / "records/products").mkdir(parents=True)
    script = [sys.executable, "-c", FORK, str(products), str(products.parent / "records")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_dispatched_call_imports_nothing_heavy_and_a_new_size_does_not_either() -> None:
    script = f"""
import sys, numpy as np, tuner
gemm = tuner.dispatch(["sgemm/00_host_simple", "sgemm/01_host_blocked"])
for size in (16, 17):
    C, A, B = (np.ones((1, size, size), np.float32) for _ in "CAB")
    gemm(C, A, B)
    assert (C == size).all()
assert (tuner.matmul(A[0], B[0]) == 17).all()
print(sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    for _ in range(2):  # the first leaves launch forms and builds in the cache
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_what_was_measured_under_other_conditions_serves_below_exact_and_is_told(
    products: Path, host: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stored(products, host, plain=[(16, [(mode(1), 1.0)])], quick=[(16, [(mode(1), 2.0)])])
    monkeypatch.setenv("OMP_SCHEDULE", "guided")
    elsewhere = devices.open_device("host")
    scale = tuner.dispatch([products / "plain.yaml", products / "quick.yaml"], device=elsewhere, results=folder)
    with pytest.warns(UserWarning, match="the times were measured with the default OMP_SCHEDULE instead of guided"):
        told = scale.explain(*matrices(16))
    assert (told.kernel, told.config, told.match) == ("products/plain", mode(1), "nearest_size")


def multiply(arrays: Any, stream: Any, alpha: float, beta: float) -> None:
    """What a vendor's library does."""
    C, A, B = arrays
    C[...] = alpha * (A @ B) + beta * C


@pytest.fixture
def with_library(products: Path, host: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Records of stages that nobody has built, on a host with a vendor's library."""
    launch = ProductLaunch(multiply, lambda key: pytest.fail("of arrays on the host, no addresses are passed"))
    monkeypatch.setattr(type(host), "product", lambda self, product, specs, algorithm: launch)
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    with (products / "operation.yaml").open("a") as file:
        file.write("library: gemm\n")
    return stored(products, host, plain=[(16, [(mode(1), 1.0)])])


def until_built(gemm: Any, arrays: list[Any]) -> str:
    """Call until the library no longer serves in place of a kernel, and return what does."""
    for _ in range(600):
        gemm(*arrays)
        if not isinstance(gemm.kernel(*arrays), Substitute):
            return str(gemm.explain(*arrays))
        time.sleep(0.05)
    raise AssertionError(gemm.explain(*arrays))


@pytest.mark.slow
def test_until_a_kernel_is_built_beside_the_program_the_library_serves_its_calls(
    products: Path, with_library: Path
) -> None:
    gemm, (C, A, B) = tuner.dispatch(products, results=with_library), matrices(16)
    gemm(C, A, B, alpha=2.0)
    np.testing.assert_allclose(C, 2 * (A @ B), rtol=1e-5)
    assert gemm.explain(C, A, B).why.startswith("the library, until ")
    assert "plain is built by a process beside this one" in str(gemm.explain(C, A, B))
    assert "the fastest measured at this size" in until_built(gemm, [C, A, B])
    C[:] = 0
    gemm(C, A, B)
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)
    assert len({name.removesuffix(build_cache.FIGURES) for name in builds()}) == 1
    waiting = tuner.dispatch(products, results=with_library, wait=True)
    waiting(*matrices(16))
    assert isinstance(waiting.kernel(*matrices(16)), tuner.Kernel)


@pytest.mark.slow
def test_a_call_that_waits_builds_first_and_one_without_a_library_must(products: Path, with_library: Path) -> None:
    for keywords in ({"wait": True}, {"library": False}):
        gemm = tuner.dispatch(products, results=with_library, **keywords)
        assert isinstance(gemm.kernel(*matrices(16)), tuner.Kernel)
    gemm = tuner.dispatch(products, results=with_library)
    assert isinstance(gemm.kernel(*matrices(16)), tuner.Kernel), "which is built now"


@pytest.mark.slow
def test_a_build_that_fails_beside_the_program_is_told_once_and_the_library_remains(
    products: Path, host: Device, with_library: Path
) -> None:
    source = products / "plain.c"
    source.write_text(source.read_text().replace("int chosen", "nothing chosen"))
    stored(products, host, plain=[(16, [(mode(1), 1.0)])])
    gemm, (C, A, B) = tuner.dispatch(products, results=with_library), matrices(16)
    with pytest.warns(UserWarning, match="plain, mode=1 .* could not be built, so the library runs: .*nothing"):
        assert "could not be built" in until_built(gemm, [C, A, B])
    gemm(C, A, B)
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)


@pytest.mark.slow
def test_at_a_size_near_which_nothing_was_measured_the_library_runs_and_says_so(
    products: Path, with_library: Path
) -> None:
    gemm = tuner.dispatch(products, results=with_library, wait=True)
    told = {size: gemm.explain(*matrices(size)) for size in (16, 17, 40)}
    assert [one.kernel.partition(" ")[0].rpartition("/")[2] for one in told.values()] == ["plain", "library", "library"]
    assert "no kernel of the family was measured near this size" in told[40].why
