"""The time models that ship: a first choice reads them, and trains nothing."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers import ROOT
from helpers.records import record, sizes
from tuner import paths
from tuner.devices.conditions import DEFAULT
from tuner.devices.cuda.architectures import limits_of
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.devices.product import HostTimes, MatrixProduct, Tiles
from tuner.families import family, library_answers, model_files, products
from tuner.families.choice import Choice, FamilyTable
from tuner.families.matrices import precisions
from tuner.prediction import array_file, trained
from tuner.prediction.grids import scope_at
from tuner.prediction.learning import Learner
from tuner.space.sources.rendering import Version
from tuner.store import time_table, time_tables
from tuner.store.store import Store

H200, H100 = "NVIDIA H200", "NVIDIA H100 80GB HBM3"
# The files of time tables and models of gemm16: without them, only its records are known.
UNRECORDED = [file.name for file in (ROOT / "results/gemm16").iterdir() if file.suffix != ".jsonl"]


@functools.cache
def said(family_name: str) -> dict[tuple[int, ...], Tiles]:
    """What the library said at the measured sizes."""
    return dict(library_answers.read(ROOT / f"results/{family_name}/sm_90a_132.tiles").tiles)


def answered(product: MatrixProduct) -> Tiles:
    """What the library said at the nearest measured size."""
    answers = said("hgemm" if "float16" in product.dtypes else "sgemm")
    wanted = np.log([product.M, product.N, product.K, product.batch])
    distances = np.abs(np.log(np.array([*answers], float)) - wanted).sum(axis=1)
    return [*answers.values()][int(distances.argmin())]


def gpu(name: str, host: HostTimes | None = None) -> Any:
    """A GPU that is not here, as far as a choice asks; its library tells how it would run any product."""
    return SimpleNamespace(
        id="cuda:0", kind="cuda", language="cuda", name=name, architecture="sm_90a", limits=limits_of("sm_90a"),
        units=132, last_cache=50 << 20, on_processor=False, compiler=NvrtcCompiler("sm_90a"), conditions=DEFAULT,
        tiles=answered, host_times=lambda: host,
    )  # fmt: skip


def table(
    name: str,
    device: str = H200,
    library: bool = True,
    results: Path | None = None,
    host: HostTimes | None = None,
    **types: str,
) -> FamilyTable:
    found, there = family.find(name), gpu(device, host)
    op = found.operation
    scope = op.scope(dict.fromkeys(op.sizes, 1), dict(op.options), "cuda", there.limits, types)
    return FamilyTable(found.spaces, there, scope, library, results)


def first(of: FamilyTable, m: int, n: int | None = None, k: int | None = None) -> Choice:
    return next(of.choices({"M": m, "N": n or m, "K": k or m, "batch": 1}))


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be trained, and no times of tables read."""
    monkeypatch.setattr(Learner, "learn", lambda self: pytest.fail("it trains"))
    monkeypatch.setattr(time_table.TimeTable, "from_arrays", lambda *_: pytest.fail("it reads times"))


def test_the_models_that_ship_are_of_the_tables_that_ship(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("models", ROOT / "docs/hooks/models.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    models = {str(model.path.relative_to(ROOT)): model.matches() for model in hook.models([])}
    assert len(models) >= 4
    assert [path for path, matches in models.items() if not matches] == [], "run `python docs/hooks/models.py`"
    monkeypatch.setattr(model_files, "VERSION", model_files.VERSION + 1)
    assert not next(hook.models(["sgemm3x"])).matches()


def test_the_tables_and_models_that_ship_are_small() -> None:
    suffixes = (*time_tables.SUFFIXES, library_answers.SUFFIX, model_files.SUFFIX)
    files = [file for file in (ROOT / "results").rglob("*") if file.name.endswith(suffixes)]
    assert sum(file.stat().st_size for file in files) <= 6_000_000


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(("name", "device"), [("sgemm", H200), ("hgemm", H100)])
def test_a_first_choice_at_a_size_that_nobody_measured_is_predicted_by_the_model_that_ships(
    name: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path))
    for library in (True, False):
        of = table(name, device, library, tmp_path)
        choice = first(of, 1999, 777, 4001)
        assert (choice.candidate.match, of.is_outdated) == ("predicted", False)
        assert 0 < (choice.candidate.regret or 0) < 0.03
        assert library or choice.space is not None


@pytest.mark.slow
def test_a_size_of_which_the_library_says_nothing_does_not_take_its_tiles_from_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = library_answers.read(ROOT / "results/sgemm3x/sm_90a_132.tiles")

    def known(tiles: dict[tuple[int, ...], Tiles]) -> bool:
        of = table("sgemm3x", results=ROOT / "results")
        of.device.tiles = lambda product: None
        monkeypatch.setattr(library_answers, "read", lambda path: answers._replace(tiles=tiles))
        file = array_file.read(of.trained() or b"", trained.FORMAT, trained.VERSION)
        return bool(file.header["routines"]["known"])

    assert known(dict([*answers.tiles.items()][1:]))
    assert not known({})


@pytest.mark.usefixtures("untrained")
def test_types_without_times_take_those_of_other_types_of_their_size_but_for_their_own_records() -> None:
    own, other = (table("gemm16", real=real) for real in ("bfloat16", "float16"))
    for shape in ((100, 1000, 8192), (128, 2048, 4096), (384, 512, 512)):
        measured, lent = first(own, *shape), first(other, *shape)
        assert (lent.name, lent.candidate.config) == (measured.name, measured.candidate.config)
        assert (measured.candidate.sibling, lent.candidate.sibling) == ("", "bfloat16")
        assert lent.candidate.match == "predicted"
        assert lent.instance is None or lent.instance.scope.types == {"real": "float16"}
    exact = first(other, 4096)
    assert exact.candidate.match == "exact"
    assert exact.candidate.record is not None
    assert exact.candidate.record.types == {"real": "float16"}


@pytest.mark.usefixtures("untrained")
def test_a_users_record_is_exact_there_and_changes_what_is_predicted_beside_it(tmp_path: Path) -> None:
    choices = table("sgemm", library=False, results=tmp_path / "none").choices(sizes(1999))
    best, other = itertools.islice((each for each in choices if each.candidate.match == "predicted"), 2)
    space = other.space
    assert space is not None
    version = Version.of(space)
    own = record(
        device=H200, kind="cuda", architecture="sm_90a", sizes=sizes(1999), config=other.candidate.config, time_ms=0.01,
        signature=version.signature, code=version.code, next=[],
    )  # fmt: skip
    assert Store(space.name, tmp_path).add(own)
    of = table("sgemm", library=False, results=tmp_path)
    exact, beside = first(of, 1999), first(of, 1999, 1999, 2003)
    assert (exact.name, exact.candidate.config, exact.candidate.match) == (space.name, other.candidate.config, "exact")
    assert (beside.name, beside.candidate.config) == (space.name, other.candidate.config) != (best.name, {})
    assert beside.candidate.match == "predicted"


@pytest.mark.parametrize("content", [b"tuner model 1 9\n", f"tuner model {trained.VERSION} 9\n\n".encode()])
def test_without_a_model_that_can_be_read_none_is_trained_while_a_caller_waits(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "results/sgemm", tmp_path / "shipped/sgemm")
    (tmp_path / "shipped/sgemm/NVIDIA_H200.model").write_bytes(content)
    shipped = paths.shipped
    monkeypatch.setattr(paths, "shipped", lambda name: tmp_path / "shipped" if name == "results" else shipped(name))
    monkeypatch.setattr(Learner, "learn", lambda self: pytest.fail("it trains"))
    of = table("sgemm", results=tmp_path / "none")
    assert first(of, 1999).candidate.match != "predicted"
    assert of.is_outdated


def test_a_model_that_an_earlier_version_trained_on_this_machine_is_trained_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "results/sgemm3x", tmp_path / "shipped/sgemm3x", ignore=shutil.ignore_patterns("*.model"))
    shipped = paths.shipped
    monkeypatch.setattr(paths, "shipped", lambda name: tmp_path / "shipped" if name == "results" else shipped(name))
    now, before = (f"tuner model {version} ".encode() for version in (trained.VERSION, trained.VERSION - 1))
    without = first(table("sgemm3x"), 1999)
    path = table("sgemm3x")._own.path
    data = (ROOT / "results/sgemm3x/NVIDIA_H200.model").read_bytes()
    model_files.write_cached(path, data.replace(now, before, 1))
    of = table("sgemm3x")
    assert [*model_files.candidates(of._queries, of.device.units)] == []
    assert first(of, 1999) == without
    of.train()
    assert len([*model_files.candidates(of._queries, of.device.units)]) == 1
    assert (paths.read_checked(path) or b"").startswith(now)


@pytest.mark.parametrize("shape", [(777, 5120, 4096), (17, 3001, 5001), (35, 407, 253)])
def test_where_no_kernel_was_measured_near_a_size_the_library_is_the_first(
    shape: tuple[int, int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "results/gemm16", tmp_path / "gemm16", ignore=lambda *_: UNRECORDED)
    shipped = paths.shipped
    monkeypatch.setattr(paths, "shipped", lambda name: tmp_path if name == "results" else shipped(name))
    choice = first(table("gemm16", H100, real="bfloat16"), *shape)
    assert (choice.name, choice.candidate.match) == ("library", "default")
    for device, match in ((H200, "exact"), (H100, "architecture")):
        near = first(table("gemm16", device, real="bfloat16"), 4096)
        assert near.space is not None
        assert near.candidate.match in ("exact", match)


def test_what_a_library_said_is_read_as_it_was_said(tmp_path: Path) -> None:
    queries, sizes_asked = table("sgemm")._queries, [(777, 64, 4096, 1), (64, 64, 64, 3), (1, 5, 7, 1)]
    path = library_answers.path_of(queries, tmp_path)
    assert path is not None
    path.parent.mkdir()
    assert library_answers.ask(queries, sizes_asked, gpu(H200), "cuBLASLt 13.1", path) == 3
    answers = library_answers.read(path)
    assert answers.library == "cuBLASLt 13.1"
    for size in sizes_asked:
        scope = scope_at(queries[0].scope, size)
        assert answers.tiles[size] == products.tiles(queries[0].space, scope, gpu(H200))
    path.write_bytes(path.read_bytes()[:-4])
    assert library_answers.read(path) == library_answers.read(None) == library_answers.Answers()


def test_a_model_of_other_code_or_another_device_is_not_taken() -> None:
    query = table("sgemm")._queries[-1]
    problem = model_files.problem_of(query, 132)
    data = (ROOT / "results/sgemm/NVIDIA_H200.model").read_bytes()
    assert model_files.ModelFile.of(data, problem) is not None
    for changed in ({"device": H100}, {"units": 114}, {"types": {"real": "float16"}}):
        assert model_files.ModelFile.of(data, {**problem, **changed}) is None


def test_where_kernels_are_shorter_than_a_launch_the_hosts_time_of_each_way_counts() -> None:
    """At the small sizes of a grid, either way may be the shorter one for the device alone."""
    shapes = [(m, n, 64) for m in (128, 256) for n in (160, 512)] + [(4096, 4096, 4096)]
    ways = {}
    for kernel_us, library_us in ((1, 1), (20, 40), (40, 20)):
        of = table("hgemm", host=HostTimes(kernel_us / 1e3, library_us / 1e3, 1.0))
        ways[kernel_us, library_us] = [first(of, *shape).space is None for shape in shapes]
    assert not any(ways[20, 40][:-1])
    assert all(ways[40, 20][:-1])
    assert {each[-1] for each in ways.values()} == {ways[1, 1][-1]}, "a long kernel hides what the host does"


def test_calls_in_a_row_do_not_wait_for_the_launch_overhead_that_is_in_measured_times() -> None:
    shape, host = (100, 64, 64), HostTimes(0.003, 0.005, 1.0)
    sizes = dict(zip("MNK", shape, strict=True)) | {"batch": 1}
    assert (table("hgemm", library=False).shortest_ms(sizes) or 0.0) < host.kernel_ms, "5.3 us, with the overhead"
    assert first(table("hgemm"), *shape).space is None
    assert first(table("hgemm", host=host), *shape).space is not None


def test_a_library_call_that_splits_sums_counts_as_two_launches_for_the_host() -> None:
    plain, equal = table("hgemm"), table("hgemm", host=HostTimes(0.006, 0.006, 1.0))
    split, whole = (64, 84, 4096), (17, 160, 64)
    assert [first(plain, *shape).space is None for shape in (split, whole)] == [True, True]
    assert [first(equal, *shape).space is None for shape in (split, whole)] == [False, True]


def test_the_library_is_asked_of_the_own_type_beside_that_of_the_times_only_where_its_launches_matter() -> None:
    asked: list[str] = []
    of = table("gemm16", host=HostTimes(0.003, 0.004, 1.0), real="float16")
    of.device.tiles = lambda product: asked.append(product.dtypes[0]) or answered(product)  # type: ignore[method-assign,func-returns-value]
    for shape in ((100, 64, 64), (1032, 1040, 2056)):
        first(of, *shape)
    assert asked == ["bfloat16", "float16", "bfloat16"], "the second product takes some 15 us, and a launch 3"


def test_what_the_host_saves_does_not_choose_a_kernel_that_is_much_longer_than_the_library_on_the_device() -> None:
    """A CUDA graph of such calls would wait for the device alone."""
    device, saving = table("hgemm"), table("hgemm", host=HostTimes(0.02, 0.04, 1.0))
    ways = {}
    for shape in ((100, 1000, 8192), (100, 2048, 4096), (100, 1024, 768)):
        assert first(device, *shape).space is None
        sizes = dict(zip("MNK", shape, strict=True)) | {"batch": 1}
        kernel, library = (table("hgemm", library=each).shortest_ms(sizes) or 0.0 for each in (False, True))
        ways[round(kernel / library, 1)] = first(saving, *shape).space is None
    assert ways == {1.7: True, 1.2: True, 1.0: False}
    little_longer, hosts = (17, 320, 768), [HostTimes(0.004, library_ms, 1.0) for library_ms in (0.005, 0.009)]
    assert [first(table("hgemm", host=host), *little_longer).space is None for host in hosts] == [True, False]


def test_float32_by_tensor_cores_is_compared_with_float32_by_the_times_of_both() -> None:
    halves, plain = table("sgemm3x"), table("sgemm")

    def gain(m: int, n: int, k: int) -> float:
        sizes = {"M": m, "N": n, "K": k, "batch": 1}
        own, other = halves.shortest_ms(sizes), plain.shortest_ms(sizes)
        assert own is not None
        assert other is not None
        return other / own

    assert gain(4096, 4096, 4096) > 3, "both have records"
    assert gain(3210, 2345, 1234) > 2, "both times are predicted"
    assert gain(512, 512, 512) < precisions.LEAST_GAIN


def test_the_shortest_time_of_a_size_with_a_record_is_that_of_the_record() -> None:
    sizes = {"M": 4096, "N": 4096, "K": 4096, "batch": 1}
    (query,) = family.find("sgemm3x").spaces
    (own,) = (r for r in Store.of(query, ROOT / "results").records if r.sizes == sizes)
    assert table("sgemm3x").shortest_ms(sizes) == pytest.approx(own.time_ms, rel=0.1)
