"""What the times of a GPU tell of its sibling: the same chip under another name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.records import record, sizes
from tuner.catalog import catalog
from tuner.devices.conditions import DEFAULT
from tuner.devices.cuda.architectures import limits_of
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.families.choice import Choice, FamilyTable
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources.rendering import Version
from tuner.store import merge, time_tables
from tuner.store.store import Store
from tuner.store.time_tables import TimeTable
from tuner.tuning.several.table import Setting, TrialTable

OPTIONS = {"alpha": 1.0, "beta": 0.0}


def table_of(space: Space, device: str = "NVIDIA H900", units: int = 132) -> TimeTable:
    """An empty table of a GPU."""
    code, names = Version.of(space).code, ("M", "N", "K", "batch")
    return TimeTable("cuda", device, code, names, OPTIONS, {}, architecture="sm_90a", units=units)


def sibling_times(folder: Path, slower: Mapping[str, float], device: str = "NVIDIA H900", units: int = 132) -> None:
    """Times of two kernels of sgemm on a GPU, at five sizes: the work, times so much."""
    for name, factor in slower.items():
        space = catalog.load(name)
        table = table_of(space, device, units)
        for size in (768, 1024, 1536, 2048, 3072):
            waves = 1.0 + (size == 1536) * (factor > 1.5)  # what is slower is uneven
            table.add(space.default, (size, size, size, 1), size**3 * factor * waves / 1e8)
        time_tables.write(name, [table], folder)


def gpu(name: str, units: int = 132, kind: str = "cuda") -> Any:
    """A GPU that is not here, as far as a choice asks."""
    return SimpleNamespace(
        id="cuda:0", kind=kind, language="cuda", name=name, architecture="sm_90a", limits=limits_of("sm_90a"),
        units=units, last_cache=0, on_processor=False, compiler=NvrtcCompiler("sm_90a"), tiles=lambda product: None,
        conditions=DEFAULT, host_times=lambda: None,
    )  # fmt: skip


def chosen(
    folder: Path,
    device: Any,
    size: int,
    names: Sequence[str] = ("sgemm/06_tiled", "sgemm/09_coarsened_2d"),
    library: bool = False,
) -> Choice:
    spaces = [catalog.load(name) for name in names]
    scope = Scope({"M": 1, "N": 1, "K": 1, "batch": 1}, OPTIONS, "cuda", device.limits)
    table = FamilyTable(spaces, device, scope, library, folder)
    return next(table.choices({"M": size, "N": size, "K": size, "batch": 1}))


def test_the_times_of_a_sibling_tell_where_a_device_has_none(tmp_path: Path) -> None:
    sibling_times(tmp_path, {"sgemm/06_tiled": 1.0, "sgemm/09_coarsened_2d": 2.0})
    sibling_times(tmp_path, {"sgemm/06_tiled": 3.0, "sgemm/09_coarsened_2d": 1.0}, device="a larger chip", units=144)
    choice = chosen(tmp_path, gpu("NVIDIA H901"), 1400)
    assert (choice.name, choice.candidate.match, choice.candidate.sibling) == (
        "sgemm/06_tiled", "architecture", "NVIDIA H900",
    )  # fmt: skip
    assert chosen(tmp_path, gpu("another", units=144), 1400).name == "sgemm/09_coarsened_2d"
    assert not chosen(tmp_path, gpu("NVIDIA H901", units=114), 1400).candidate.sibling
    assert not chosen(tmp_path, gpu("NVIDIA H901", kind="opencl"), 1400).candidate.sibling, "it names no chip there"


def test_a_devices_own_time_at_a_near_size_comes_before_what_a_sibling_tells(tmp_path: Path) -> None:
    sibling_times(tmp_path, {"sgemm/06_tiled": 1.0, "sgemm/09_coarsened_2d": 2.0})
    space, here = catalog.load("sgemm/09_coarsened_2d"), gpu("NVIDIA H901")
    version = Version.of(space)
    own = record(
        device=here.name, kind="cuda", architecture="sm_90a", sizes=sizes(1024), config=space.default, time_ms=1.0,
        signature=version.signature, code=version.code, next=[],
    )  # fmt: skip
    assert Store(space.name, tmp_path).add(own)
    found = {size: chosen(tmp_path, here, size) for size in (1024, 1040, 2000)}
    assert {size: (choice.name, choice.candidate.match) for size, choice in found.items()} == {
        1024: ("sgemm/09_coarsened_2d", "exact"),
        1040: ("sgemm/09_coarsened_2d", "nearest_size"),
        2000: ("sgemm/06_tiled", "architecture"),
    }


def test_a_sibling_whose_model_is_not_to_be_trusted_tells_by_its_nearest_size(tmp_path: Path) -> None:
    space = catalog.load("sgemm/06_tiled")
    table = table_of(space)
    other = {**space.default, "unroll_k": 8}
    table.add(space.default, (1024, 1024, 1024, 1), 2.0)
    table.add(other, (1024, 1024, 1024, 1), 1.0)
    time_tables.write(space.name, [table], tmp_path)
    choice = chosen(tmp_path, gpu("NVIDIA H901"), 1100)
    assert (choice.name, choice.candidate.config) == (space.name, other)
    assert (choice.candidate.match, choice.candidate.sibling) == ("architecture", "NVIDIA H900")


@pytest.mark.slow
def test_a_sibling_lends_its_times_where_a_device_has_few(tmp_path: Path) -> None:
    """At the sizes that were measured on the device the first kernel is faster, but at large ones it is not."""
    tried = [64 * n for n in (4, 5, 6, 7, 8, 9, 10, 11, 12, 18, 24, 30, 36, 42, 48)]
    for name, factor, at_large in (("sgemm/06_tiled", 1.0, 3.0), ("sgemm/09_coarsened_2d", 1.3, 1.3)):
        space = catalog.load(name)
        theirs, own = table_of(space), table_of(space, "NVIDIA H901")
        for size in tried:
            time_ms = size**3 / 1e8 * (at_large if size > 1000 else factor)
            theirs.add(space.default, (size, size, size, 1), time_ms)
            if size < 800:
                own.add(space.default, (size, size, size, 1), 1.1 * time_ms)
        time_tables.write(name, [own], tmp_path)
        time_tables.write(name, [theirs], tmp_path / "with sibling")
        time_tables.write(name, [own], tmp_path / "with sibling")
    names = [chosen(folder, gpu("NVIDIA H901"), 2200).name for folder in (tmp_path, tmp_path / "with sibling")]
    assert names == ["sgemm/06_tiled", "sgemm/09_coarsened_2d"]


@pytest.mark.slow
def test_a_sibling_lends_what_was_measured_there_alone(tmp_path: Path) -> None:
    """A configuration that is faster than the others, but at one size, by which the nearest size is misled."""
    tried = [64 * n for n in (4, 5, 6, 7, 8, 9, 10, 11, 12, 18, 24, 30, 36, 42, 48)]
    tiled, coarsened = catalog.load("sgemm/06_tiled"), catalog.load("sgemm/09_coarsened_2d")
    quick = {**tiled.default, "unroll_k": 8}
    for space, config, factor in (
        (tiled, tiled.default, 2.0), (coarsened, coarsened.default, 3.0), (tiled, quick, 1.0),
    ):  # fmt: skip
        theirs, own = table_of(space), table_of(space, "NVIDIA H901")
        for size in tried:
            time_ms = size**3 / 1e8 * (0.9 if space is coarsened and size == 704 else factor)
            theirs.add(config, (size, size, size, 1), time_ms)
            if config is not quick:
                own.add(config, (size, size, size, 1), 1.1 * time_ms)
        time_tables.write(space.name, [theirs, own], tmp_path)
    for size in (540, 2200):
        choice = chosen(tmp_path, gpu("NVIDIA H901"), size)
        found = choice.candidate
        assert (found.config, found.match, found.sibling) == (quick, "predicted", "NVIDIA H900")


def measured(folder: Path, name: str, time_ms: float, launch_ms: float, **changes: Any) -> None:
    """A record of a kernel of sgemm at 1024 on a GPU."""
    space = catalog.load(name)
    version = Version.of(space)
    own = record(
        device="NVIDIA H900", kind="cuda", architecture="sm_90a", sizes=sizes(1024), config=space.default,
        time_ms=time_ms, launch_ms=launch_ms, signature=version.signature, code=version.code, next=[],
    )  # fmt: skip
    assert Store(space.name, folder).add(replace(own, **changes))


def tabulated(folder: Path, name: str, time_ms: float, launch_ms: float, **changes: Any) -> None:
    """A table of a kernel of sgemm that has its time at 1024 on a GPU."""
    space = catalog.load(name)
    table = replace(table_of(space), launch_ms=launch_ms, **changes)
    table.add(space.default, (1024, 1024, 1024, 1), time_ms)
    time_tables.write(name, [table], folder)


@pytest.mark.slow
@pytest.mark.parametrize("launches", [(0.002, 0.004), (0.0, 0.0)])
@pytest.mark.parametrize("add", [tabulated, measured])
def test_times_of_a_machine_whose_launches_take_longer_are_compared_without_that(
    tmp_path: Path, add: Callable[..., None], launches: tuple[float, float]
) -> None:
    there, here = launches
    add(tmp_path, "sgemm/06_tiled", 0.0100, there or None if add is measured else there)
    add(tmp_path, "sgemm/09_coarsened_2d", 0.0115, here or None if add is measured else here)
    best = "sgemm/09_coarsened_2d" if here else "sgemm/06_tiled"
    for size in (1024, 1040) if add is measured else (1040,):
        assert chosen(tmp_path, gpu("NVIDIA H900"), size).name == best


def test_times_in_graphs_replace_those_of_launches_alone_and_no_other_way_of_launching_counts(tmp_path: Path) -> None:
    """Calls that a program repeats launch a graph of a kernel's steps, which takes less than single launches."""
    tiled, coarsened = "sgemm/06_tiled", "sgemm/09_coarsened_2d"
    tabulated(tmp_path, tiled, 0.0150, 0.002)
    tabulated(tmp_path, coarsened, 0.0120, 0.002)
    tabulated(tmp_path, coarsened, 0.0010, 0.001, deployment="stream")
    assert chosen(tmp_path, gpu("NVIDIA H900"), 1040).name == coarsened
    for in_graphs, best in ((0.0105, tiled), (0.0115, coarsened), (0.0500, coarsened)):  # 0.001 more behind a launch
        tabulated(tmp_path, tiled, in_graphs, 0.001, deployment="graph")
        assert chosen(tmp_path, gpu("NVIDIA H900"), 1040).name == best
    merge.merge([tmp_path], tmp_path / "other")
    merged, _ = time_tables.read_file(time_tables.path(tiled, tmp_path / "other"))
    as_text = [time_tables.TimeTable.from_json(table.to_json()) for table in merged]
    assert as_text == merged
    assert {table.deployment: [*table.times.values()] for table in merged} == {
        "graph": [{(1024, 1024, 1024, 1): 0.0500}],
        "isolated": [{(1024, 1024, 1024, 1): 0.0150}],
    }


def test_times_count_as_where_most_was_measured(tmp_path: Path) -> None:
    """So what tells nothing of launches, as earlier records, stays comparable to most."""
    for name in ("sgemm/03_naive", "sgemm/04_strided"):
        tabulated(tmp_path, name, 0.1, 0.004)
    tabulated(tmp_path, "sgemm/06_tiled", 0.0100, 0.0)
    tabulated(tmp_path, "sgemm/09_coarsened_2d", 0.0090, 0.002)
    names = ["sgemm/03_naive", "sgemm/04_strided", "sgemm/06_tiled", "sgemm/09_coarsened_2d"]
    assert chosen(tmp_path, gpu("NVIDIA H900"), 1040, names).name == "sgemm/06_tiled"


def test_the_library_is_compared_where_ours_was_fastest_launches_apart(tmp_path: Path) -> None:
    with_library = {"library": "the library", "vs_library": 1.0}
    measured(tmp_path, "sgemm/06_tiled", 0.0100, 0.002, library_ms=0.0105, **with_library)
    measured(tmp_path, "sgemm/09_coarsened_2d", 0.0115, 0.004, library_ms=0.0110, **with_library)
    assert chosen(tmp_path, gpu("NVIDIA H900"), 1024, library=True).name == "library"


def test_a_cover_compares_with_what_launches_take_here(tmp_path: Path) -> None:
    here = gpu("NVIDIA H900")
    measured(tmp_path, "sgemm/06_tiled", 0.0100, 0.002)
    tabulated(tmp_path, "sgemm/09_coarsened_2d", 0.0115, 0.004)
    spaces = [catalog.load(name) for name in ("sgemm/06_tiled", "sgemm/09_coarsened_2d")]
    scope = Scope({"M": 1, "N": 1, "K": 1, "batch": 1}, OPTIONS, "cuda", here.limits)
    history = TrialTable()
    setting = Setting(spaces, scope, here, tmp_path, 0.004)
    history.recall_tables(setting)
    history.recall(setting)
    found = [(kernel, round(trial.value or 0.0, 6)) for (kernel, _), trial in history.ranking(sizes(1024))]
    assert found == [("sgemm/09_coarsened_2d", 0.0115), ("sgemm/06_tiled", 0.012)]


def test_a_table_holds_the_times_of_one_machine_and_the_latest_come_first(tmp_path: Path) -> None:
    space = catalog.load("sgemm/06_tiled")
    for launch_ms, time_ms in ((0.002, 1.0), (0.004, 2.0), (0.002, 3.0)):
        tabulated(tmp_path / "one", space.name, time_ms, launch_ms)
    merge.merge([tmp_path / "one"], tmp_path / "other")
    for folder in (tmp_path / "one", tmp_path / "other"):
        tables, problems = time_tables.read_file(time_tables.path(space.name, folder))
        found = [(table.launch_ms, *times.values()) for table in tables for times in table.times.values()]
        assert (found, problems) == ([(0.002, 3.0), (0.004, 2.0)], [])


def test_a_tuned_algorithm_of_the_library_runs_at_its_size_with_the_version_that_numbered_it(tmp_path: Path) -> None:
    here, space = gpu("NVIDIA H901"), catalog.load("gemm16/vendor")
    here.toolchain_of = lambda compiler: f"{version}, CUDA driver 13.0"
    types, version = {"real": "bfloat16"}, "cuBLASLt 13.1.0"
    of_code = Version.of(space)
    tuned = record(
        device=here.name, kind="cuda", architecture="sm_90a", sizes=sizes(1024), config={"algorithm": 7}, time_ms=1.0,
        signature=of_code.signature, code=of_code.code, next=[], toolchain="cuBLASLt 13.1.0, CUDA driver 12.9",
        types=types, library="cuBLAS", library_ms=1.1,
    )  # fmt: skip
    assert Store(space.name, tmp_path).add(tuned)
    spaces = [catalog.load(name) for name in ("gemm16/mma_any", space.name)]
    scope = Scope({"M": 1, "N": 1, "K": 1, "batch": 1}, OPTIONS, "cuda", here.limits, types)

    def first(size: int, library: bool = True) -> tuple[str, Mapping[str, object], str]:
        table = FamilyTable(spaces, here, scope, library, tmp_path)
        problem = {"M": size, "N": size, "K": size, "batch": 1}
        choice = next(table.choices(problem))
        assert table.is_built(choice) == (choice.name != "gemm16/mma_any")
        return choice.name, choice.candidate.config, table.passed_over(problem)

    assert first(1024) == (space.name, {"algorithm": 7}, "")
    assert first(1025)[0] != space.name, "there the number is of another algorithm"
    assert first(1024, library=False)[0] == "gemm16/mma_any"
    version = "cuBLASLt 13.2.0"
    name, _, words = first(1024)
    assert name != space.name
    assert words == "what gemm16/vendor was tuned to at this size with cuBLASLt 13.1.0 does not count here"
