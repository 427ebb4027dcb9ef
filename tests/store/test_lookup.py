"""What a look-up answers: stores written by hand, which are the table of docs/launching.md too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT
from helpers.records import (
    A100,
    H100,
    H200,
    H200_NVL,
    KERNEL,
    SLICE,
    SPACE,
    at,
    config,
    imported,
    sizes,
    stale,
)
from tuner import paths
from tuner.errors import NoConfiguration
from tuner.space import parsing
from tuner.space.scope import Limits, Scope
from tuner.space.sources.rendering import Version
from tuner.store import rejected
from tuner.store.board_names import chip, normalised
from tuner.store.lookup import Candidate, Query
from tuner.store.record import Record
from tuner.store.store import Store

BEGIN, END = "<!-- look-up: begin -->", "<!-- look-up: end -->"

STORES: dict[str, tuple[list[Record], Record | None, str]] = {
    "the very device and size": ([at(1024), at(4096), at(4096, H200_NVL)], at(4096), "exact"),
    "other sizes": ([at(1024), at(8192), at(4096, H100)], at(8192), "nearest_size"),
    "another board": ([at(4096, H100), at(4096, SLICE), at(4096, H200_NVL)], at(4096, H200_NVL), "architecture"),
    "a relative": ([at(4096, A100), imported(at(4096)), at(8192, H100)], at(8192, H100), "architecture"),
    "an earlier version": ([stale(at(4096)), at(4096, A100)], at(4096, A100), "other_device"),
    "nothing valid": ([at(4096, tile=7)], None, "default"),
}


def query(device: str = H200) -> Query:
    scope = Scope(
        parsing.parse_size("4096", SPACE.operation), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(compute_capability=9)
    )
    return Query(SPACE, scope, device, "cuda", "sm_90a", Version.of(SPACE))


def look_up(tmp_path: Path, records: list[Record], device: str = H200) -> list[Candidate]:
    for one in records:
        Store(KERNEL, tmp_path).add(one)
    store = Store(KERNEL, tmp_path)
    store.records = [r for r in store.records if r in records]  # the shipped ones lie below
    found = store.candidates(query(device))
    assert store.look_up(query(device)) == found[0]
    return found


@pytest.mark.parametrize("name", STORES)
def test_a_hand_written_store_gives_what_fits_best(name: str, tmp_path: Path) -> None:
    records, expected, match = STORES[name]
    (found, *_) = look_up(tmp_path, records)
    assert (found.record, found.match, found.stale) == (expected, match, False)
    assert found.variant == (name == "another board")
    assert found.config == (expected.config if expected else SPACE.default)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "opencl"}, {"device": H100}, {"sizes": sizes(1024)}, {"options": {"alpha": 1.0, "beta": 1.0}},
        {"types": {"real": "float16"}}, {"conditions": {"CUDA_FORCE_PTX_JIT": 1}},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_record_is_of_a_query_with_its_problem_device_and_conditions_alone(change: dict[str, Any]) -> None:
    assert query().is_of(at(4096, architecture="sm_90", signature="another", config={}))
    assert not query().is_of(at(4096, **change))


def test_what_failed_verification_here_comes_last_with_a_note_even_where_a_record_has_it(tmp_path: Path) -> None:
    assert SPACE.default != config(8)
    of_near = [at(8192).config, SPACE.default]
    for found_wrong, found_right, wrong, order in (
        ([0], [], [0], [1, 0]),
        ([], [], [0], [1, 0]),  # of a run that met neither
        ([1], [], [0, 1], [0, 1]),
        ([], [0, 1], [], [0, 1]),
    ):
        reasons = [(of_near[place], "C[0] is 1") for place in found_wrong]
        rejected.keep(query(), reasons, [of_near[place] for place in found_right])
        found = look_up(tmp_path, [at(8192)])
        assert [candidate.config for candidate in found] == [of_near[place] for place in order]
        assert [candidate.rejected for candidate in found] == ["C[0] is 1" if place in wrong else "" for place in order]
        for candidate in found:
            assert bool(candidate.rejected) == ("failed verification on NVIDIA H200" in " ".join(candidate.notes))
    rejected.keep(query(), [(config(8), "C[0] is 1")])
    assert look_up(tmp_path, [at(8192)], A100)[0].config == config(8)
    (file,) = (paths.state() / "rejected").rglob("*.jsonl")
    for damaged in ("[", '{"problem": 1}', file.read_text().replace('"rejected": [[', '"rejected": [[1, ')):
        file.write_text(damaged)
        assert look_up(tmp_path, [at(8192)])[0].config == config(8)
    file.unlink()
    exact, *_ = look_up(tmp_path, [at(8192), at(4096)])
    assert (exact, exact.is_exact) == (Candidate(config(8), "exact", at(4096)), True)
    rejected.keep(query(), [(config(8), "C[0] is 1")])
    *_, wrong = look_up(tmp_path, [at(8192), at(4096)])
    assert (wrong.record, wrong.rejected, wrong.is_exact) == (at(4096), "C[0] is 1", False)


def test_more_that_failed_verification_than_a_file_may_hold_leaves_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_near = [at(8192).config, SPACE.default]
    rejected.keep(query(), [(of_near[0], "C[0] is 1")])
    (file,) = (paths.state() / "rejected").rglob("*.jsonl")
    monkeypatch.setattr(rejected, "MOST_BYTES", file.stat().st_size)
    rejected.keep(query(), [(of_near[1], "C[0] is 2")])
    assert [candidate.rejected for candidate in look_up(tmp_path, [at(8192)])] == ["", "C[0] is 2"]


def words(one: Record) -> str:
    about = {
        "of an earlier version of the kernel": not one.is_of(Version.of(SPACE)),
        "imported": not one.is_verified,
        "with a parameter value that the space does not declare": one.config["tile_size_y"] == 7,
    }
    return ", ".join([f"{one.device} at {one.sizes['M']}", *(word for word, true in about.items() if true)])


def test_the_table_of_the_launching_page_shows_what_the_stores_give(tmp_path: Path) -> None:
    lines = ["| the store's records | what it gives for NVIDIA H200 at 4096 | match |", "|---|---|---|"]
    for name, (records, _, _) in STORES.items():
        (found, *_) = look_up(tmp_path / name, records)
        given = words(found.record) if found.record else "the space's default"
        match = f"`{found.match}`" + (", of a variant" if found.variant else "")
        lines.append(f"| {'; '.join(map(words, records))} | {given} | {match} |")
    shown = (ROOT / "docs/launching.md").read_text().partition(BEGIN)[2].partition(END)[0].strip()
    assert shown == "\n".join(lines)


SAME = [
    ("GeForce RTX 3090", "NVIDIA GeForce RTX 3090"),
    ("Intel(R) Arc(TM) A770 Graphics", "Intel Arc A770 Graphics"),
    ("Tesla V100-SXM2-16GB", "V100 SXM2 16GB"),
]

SAME_CHIP = [
    (H200, H200_NVL),
    ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe"),
    (H100, "NVIDIA H100 PCIe"),
    (H100, "NVIDIA H100 NVL"),
    ("Tesla V100-SXM2-16GB", "Tesla V100-PCIE-32GB"),
    ("Tesla V100-SXM2-16GB", "Tesla V100-SXM3-32GB"),
    ("NVIDIA GH200 480GB", "NVIDIA GH200 144G HBM3e"),
    ("NVIDIA RTX PRO 6000 96GB GDDR7", "NVIDIA RTX PRO 6000"),
]

DIFFERENT = [
    (H200, H100),
    (H200, SLICE),
    (SLICE, "NVIDIA H200 MIG 2g.35gb"),
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"),
    ("NVIDIA GeForce RTX 3070", "NVIDIA GeForce RTX 3070 Laptop GPU"),
    ("NVIDIA GeForce RTX 3070", "NVIDIA GeForce RTX 3070 Ti"),
    ("NVIDIA GeForce RTX 2070", "NVIDIA GeForce RTX 2070 with Max-Q Design"),
    ("Quadro RTX 6000", "NVIDIA RTX 6000 Ada Generation"),
    ("NVIDIA A10", "NVIDIA A100-SXM4-40GB"),
    ("NVIDIA A100-40C", "NVIDIA A100-SXM4-40GB"),
    ("AMD EPYC 7B13 x2", "AMD EPYC 7B13 x4"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_board_has_one_name_however_the_driver_writes_its_vendor(one: str, other: str) -> None:
    assert normalised(one) == normalised(other) != ""


@pytest.mark.parametrize(("one", "other"), [*SAME_CHIP, *DIFFERENT])
def test_a_board_of_another_name_is_of_the_architecture_at_most(one: str, other: str, tmp_path: Path) -> None:
    assert normalised(one) != normalised(other)
    assert (chip(one) == chip(other)) == ((one, other) in SAME_CHIP)
    for measured, asked in ((one, other), (other, one)):
        store = Store(KERNEL, tmp_path / asked)
        store.records = [at(4096, measured, architecture="sm_90a")]
        (found, *_) = store.candidates(query(asked))
        assert (found.match, found.variant) == ("architecture", (one, other) in SAME_CHIP)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_chip_or_a_part_of_one_has_another_name(one: str, other: str) -> None:
    assert chip(one) != chip(other)


def test_one_name_on_another_architecture_is_another_device(tmp_path: Path) -> None:
    (found, *_) = look_up(tmp_path, [at(4096, "Quadro H200", architecture="sm_75")])
    assert (found.match, found.variant) == ("other_device", False)


def test_at_any_size_the_device_itself_comes_before_its_variants(tmp_path: Path) -> None:
    found = look_up(tmp_path, [at(4096, H200_NVL), at(8192, tile=4), at(4096, "H200", tile=16)])
    assert [(f.record.device, f.match) for f in found if f.record] == [
        ("H200", "nearest_size"),
        (H200, "nearest_size"),
        (H200_NVL, "architecture"),
    ]


def test_candidates_go_on_with_runners_up_and_end_with_the_default(tmp_path: Path) -> None:
    def after(*tiles: int) -> list[dict[str, Any]]:
        return [{"config": config(tile), "time_ms": 2.0} for tile in tiles]

    found = look_up(tmp_path, [at(1024, tile=2, next=after(8)), at(4096, tile=16, next=after(7, 8, 1))])
    assert [(f.config["tile_size_y"], f.match, f.rank) for f in found] == [
        (16, "exact", 0),
        (8, "exact", 2),
        (1, "exact", 3),
        (2, "nearest_size", 0),
        (4, "default", 0),
    ]


def test_where_the_best_is_not_valid_here_a_runner_up_stands_for_it(tmp_path: Path) -> None:
    (found, *_) = look_up(tmp_path, [at(4096, tile=7, next=[{"config": config(16), "time_ms": 2.0}])])
    assert (found.match, found.config, found.rank) == ("exact", config(16), 1)


def test_an_imported_record_is_never_exact_and_says_so(tmp_path: Path) -> None:
    (found, *_) = look_up(tmp_path, [imported(at(4096, tile=16)), at(4096, A100)])
    assert (found.match, found.config) == ("nearest_size", config(16))
    assert "has not been verified" in found.notes[0]


def test_an_imported_record_hides_no_verified_one(tmp_path: Path) -> None:
    fast = imported(at(4096, tile=16, time_ms=0.1))
    store = Store(KERNEL, tmp_path)
    assert store.add(fast)
    assert store.add(at(4096, time_ms=5.0)), "a verified one takes its place, however slow"
    assert not store.add(fast)
    (shipped,) = [r for r in Store(KERNEL, tmp_path / "none").records if r.sizes["M"] == 4096]
    Store(KERNEL, tmp_path / "other").add(imported(replace(shipped, time_ms=0.1)))
    assert shipped in Store(KERNEL, tmp_path / "other").records


def test_an_own_record_of_an_earlier_protocol_does_not_hide_a_shipped_one_of_a_later(tmp_path: Path) -> None:
    (shipped,) = [r for r in Store(KERNEL, tmp_path / "none").records if r.sizes["M"] == 4096]
    for protocol, time_ms in ((shipped.protocol - 1, shipped.time_ms), (shipped.protocol, 0.1)):
        Store(KERNEL, tmp_path).add(replace(shipped, protocol=protocol, time_ms=0.1))
        records = [r for r in Store(KERNEL, tmp_path).records if r.key == shipped.key]
        assert [record.time_ms for record in records] == [time_ms]


def test_of_the_records_that_a_merge_has_put_into_one_file_the_better_one_counts(tmp_path: Path) -> None:
    """Git's merge of two branches keeps the lines of both, if told so, and either may be the later one."""
    fast, slow = at(4096, tile=2, time_ms=1.0), at(4096, tile=8, time_ms=2.0)
    for number, dates in enumerate((("2026-11-28", "2026-11-29"), ("2026-11-29", "2026-11-28"))):
        records = [replace(each, date=f"{date}T00:00:00+00:00") for each, date in zip((slow, fast), dates, strict=True)]
        store = Store(KERNEL, tmp_path / str(number))
        store.add(records[0])
        file = store.paths[0]
        file.write_text(file.read_text() + records[1].to_line() + "\n")
        found = Store(KERNEL, tmp_path / str(number)).look_up(query())
        assert (found.match, found.config) == ("exact", config(2))


def test_a_device_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    Store(KERNEL, tmp_path).add(at(4096))
    scope = Scope(sizes(4096), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(max_threads=1))
    with pytest.raises(NoConfiguration):
        Store(KERNEL, tmp_path).candidates(Query(SPACE, scope, H200, "cuda", "sm_90a", Version.of(SPACE)))
