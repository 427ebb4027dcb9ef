"""What was published stands in the files as printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.experiments import EXPERIMENT
from helpers.processes import Tune
from tuner.errors import SpaceError
from tuner.experiments import reading
from tuner.experiments.experiment import PublishedRow, Table
from tuner.space.instance import checked
from tuner.space.scope import Limits, Scope

AMPERE = Limits(compute_capability=8.0, max_shared_memory=163 * 1024)


def rows(name: str) -> list[tuple[Table, PublishedRow]]:
    return [(table, row) for table in reading.find(name).tables for row in table.rows]


@pytest.mark.slow
@pytest.mark.parametrize("name", reading.names())
def test_every_published_row_is_a_valid_point_of_the_space_of_its_stage(name: str) -> None:
    for table, row in rows(name):
        if row.stage is None:
            continue
        assert row.space is not None, f"{row.stage} is not in the catalogue"
        language = row.space.languages[0]
        checked(row.space, row.config, Scope(table.sizes, row.space.operation.options, language, AMPERE))


@pytest.mark.slow
def test_the_published_figures_fit_one_another_as_their_sources_say() -> None:
    counts = {name: len(rows(name)) for name in reading.names()}
    assert counts == {
        "gemm-from-scratch": 15, "kernel-tuner-tutorial": 39, "lecture": 12, "rtx3050-batched": 6, "studylog": 4
    }  # fmt: skip
    for table in reading.find("gemm-from-scratch").tables:
        for row in table.rows:  # its shares are its rates over that of cuBLAS
            of_cublas = (row.published.gflops or 0) / (table.rows[0].published.gflops or 1)
            assert of_cublas == pytest.approx(row.published.share, abs=6e-4)
    best = [min(table.rows, key=lambda row: row.published.time_ms or 0) for table in reading.find("tutorial").tables]
    assert [(row.name, row.published.printed["time"]) for row in best] == [
        ("block_size_x=16, block_size_y=32", "494.040820312ms"),
        ("block_size_x=32, block_size_y=32", "177.680996704ms"),
        ("block_size_x=32, block_size_y=8, tile_size_x=4, tile_size_y=4", "56.9498825073ms"),
    ]
    contradicting = [(row.name, table.sizes["M"]) for table, row in rows("lecture") if row.published.contradicts]
    assert contradicting == [("Simple++ CUDA", 1024), ("Simple++ CUDA", 2048), ("Block C++", 2048)]
    batched = {row.name: row.published for _, row in rows("rtx3050-batched")}
    assert batched["cublas"].time_ms == 70
    assert batched["a simple first attempt"].share == pytest.approx(1 / 12)


@pytest.mark.slow
def test_the_experiments_are_listed_and_found_by_a_part_of_their_name(tune: Tune) -> None:
    for arguments in ((), ("--list",)):
        done = tune("reproduce", *arguments)
        assert done.status == 0
        assert [line.split()[0] for line in done.out.splitlines()[1:]] == reading.names()
    assert [one["name"] for one in tune("reproduce", "--json").json] == reading.names()
    assert reading.find("rtx").name == "rtx3050-batched"
    unknown, several = tune("reproduce", "nothing"), tune("reproduce", "t")
    assert unknown.status == several.status == 2
    assert "there is no such experiment; there are: gemm-from-scratch, kernel-tuner-tutorial, lecture" in unknown.err
    assert "write more of the name" in several.err


ROW = "      - {name: a, stage: sgemm/03_naive, config: {block_size_x: 16}, time: 1 ms}\n"

FAULTS = {
    "misspelt": ("{name: a, stge: sgemm/03_naive}", ":10: tables.0.rows.0.stge: unknown key; did you mean `stage`?"),
    "no stage": ("{name: a}", ":10: tables.0.rows.0: a: a row has either `stage` or `reference`"),
    "nothing": ("{name: a, reference: library}", ":9: tables.0.rows: no row has a `stage`"),
    "parameter": ("{name: a, stage: sgemm/03_naive, config: {block: 1}}", "config.block: unknown name 'block'"),
    "value": (
        "{name: a, stage: sgemm/03_naive, config: {block_size_x: 7}}",
        ":10: tables.0.rows.0.config.block_size_x: 7 ",
    ),
    "number": (
        "{name: a, stage: sgemm/03_naive, time: 840}",
        ":10: tables.0.rows.0.time: 840: write it as it is printed",
    ),
    "unit": ("{name: a, stage: sgemm/03_naive, time: 840 s}", "a number and its unit, such as 840 ms"),
    "contradiction": (
        "{name: a, stage: sgemm/03_naive, time: 1 ms, rate: 9 GFLOPS}",
        ":10: tables.0.rows.0.rate: 9 GFLOPS does not follow from 1 ms; say so in a `note`",
    ),
    "loads": (
        "{name: a, stage: sgemm/03_naive, loads: {printed: many, counted: 2 * L}}",
        ":10: tables.0.rows.0.loads.counted: unknown name 'L'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_experiment_is_one_message_with_file_line_and_key(fault: str, tmp_path: Path, tune: Tune) -> None:
    row, expected = FAULTS[fault]
    file = tmp_path / "own.yaml"
    file.write_text(f"{EXPERIMENT}      - {row}\n")
    done = tune("reproduce", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert str(file) in done.err
    assert expected in done.err


def test_sizes_that_do_not_fit_the_operation_are_named(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(EXPERIMENT.replace("size: 64", "size: Q=64", 1) + ROW)
    with pytest.raises(SpaceError, match=r":7: tables.0.size: size 'Q=64': no size 'Q'"):
        reading.read(file)
