"""Several sizes in one run, and the kernels of a family."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.own_kernels import project
from helpers.processes import Tune
from helpers.records import choosy
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.space import size_lists
from tuner.store.store import Store

SLOW = """\
void scale(float *y, const float *x, int n) {
    for (volatile int turn = 0; turn < 200; turn++) for (int i = 0; i < n; i++) y[i] = 2 * x[i];
}
"""


@pytest.mark.slow
def test_one_process_tunes_at_every_size_and_each_has_a_record(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    tell = f'FILE *file = fopen("{tmp_path}/pids", "a"); fprintf(file, "%d\\n", (int) getppid()); fclose(file);'
    file = stage(c_kernel("told", tell + MULTIPLY, "#include <stdio.h>"), "told", "{unread: [0, 1]}")
    done = tune(file, "8", "12x8x4", "--sizes", "16:32*2", "--repeats", "2", "--json")
    assert done.status == 0, done.err
    sizes = [tuple(result["size"].values()) for result in done.json["results"]]
    assert sizes == [(8, 8, 8, 1), (12, 8, 4, 1), (16, 16, 16, 1), (32, 32, 32, 1)]
    assert all(result["stored"] and result["evaluated"] == 2 for result in done.json["results"])
    assert done.err.count("parameters.unread: neither") == 1, "of the file, at whatever size"
    assert all("parameters.unread: neither" in result["warnings"][0] for result in done.json["results"])
    assert len({*(tmp_path / "pids").read_text().split()}) == 1
    for size in ("8", "12x8x4", "16", "32"):
        assert tune("best", file, size, "--json").json["match"] == "exact"


@pytest.mark.slow
def test_the_last_lines_and_the_table_show_what_the_store_keeps(tune: Tune, stage: Stage, host: Device) -> None:
    """The record's configuration is so slow here that the finals leave it out: its time was taken elsewhere."""
    body = f"if (mode) usleep(mode == 6 ? 80000 : 200); {MULTIPLY}"
    file = stage(c_kernel("kept", body), "kept", "{mode: [0, 1, 2, 3, 4, 5, 6]}")
    space = catalog.load(str(file))
    Store.of(space).put([replace(choosy(host, space, [6]), time_ms=1e-5, toolchain=host.toolchain)])
    done = tune(file, "8", "16", "--repeats", "1")
    assert "best of this run: mode=0\n" in done.err
    assert "\nthe store already has a better record and keeps it:\nbest: mode=6\n1e-05 ms" in done.err
    _, *rows = done.out.splitlines()
    assert [row.split()[-1] for row in rows] == ["mode=0", "mode=6"]
    assert ("\nno gain: the default is the best" in done.err, rows[0].split()[-2]) == (True, "none")


@pytest.mark.slow
def test_a_size_that_fails_stops_no_other(tune: Tune, stage: Stage) -> None:
    text = c_kernel("fails", f"if (N == 8) abort();{MULTIPLY}")
    refused = "restrictions: [{that: N != 12, because: it is refused here}]"
    file = stage(text, "fails", "{a: [0, 1]}", more=refused)
    done = tune(file, "12", "8", "16", "--repeats", "1", "--json")
    assert done.status == 1
    assert [(r["size"]["N"], r["best"] is not None) for r in done.json["results"]] == [(8, False), (16, True)]
    (untuned,) = done.json["untuned"]
    assert untuned["sizes"]["N"] == 12
    assert untuned["reason"].startswith("no configuration is valid at ")  # the line around it names the kernel
    assert "it is refused here" in untuned["reason"]


@pytest.mark.slow
def test_of_a_family_what_is_far_behind_drops_out(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, 'name = "mine"\nspaces = ["tuning"]\n', "scales/fast", "scales/slow")
    (root / "tuning" / "scales" / "slow.c").write_text(SLOW)
    monkeypatch.chdir(root)
    done = tune("mine/scales", "40000", "50000", "--repeats", "2", "--json")
    assert done.status == 0, done.err
    assert {result["kernel"] for result in done.json["results"]} == {"mine/scales/fast"}
    assert [(d["kernel"], d["sizes"]["n"], d["near"]) for d in done.json["dropped"]] == [
        ("mine/scales/slow", 40000, None),
        ("mine/scales/slow", 50000, {"n": 40000}),
    ]
    assert "mine/scales/slow at 50000: dropped" in done.err
    assert tune("best", "mine/scales/slow", "40000", "--json").json["match"] == "default"


def test_kernels_that_compute_different_things_are_no_family(tune: Tune) -> None:
    done = tune("gallery", "64")
    assert done.status == 2
    assert "name kernels of one operation" in done.err


def test_sizes_come_from_files_with_weights_and_from_grids(tmp_path: Path) -> None:
    op, file = catalog.load("sgemm/03_naive").operation, tmp_path / "sizes"
    file.write_text("# often\n512 8\n\nM=1:4*2,N=64,K=32\n128:136+4 0.5  # rarely\n512\n")
    found = [(*size.sizes.values(), size.weight) for size in size_lists.read(str(file), op)]
    skinny = [(m, 64, 32, 1, 1.0) for m in (1, 2, 4)]
    assert found == [(512, 512, 512, 1, 9.0), *skinny, *((n, n, n, 1, 0.5) for n in (128, 132, 136))]
    two = size_lists.read("2:4*2x8x1:2+1", op)
    assert [tuple(size.sizes.values())[:3] for size in two] == [(2, 8, 1), (2, 8, 2), (4, 8, 1), (4, 8, 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("64 heavy", "sizes:1: 'heavy': after a size, write nothing but its weight"),
        ("64\n64x32", "sizes:2: size '64x32': 2 numbers for M, N, K"),
        ("1:8", "sizes:1: size '1:8': write a range with a factor or a step"),
        ("8:1*2", "sizes:1: size '8:1*2': 8:1*2 is no range"),
        ("1:9000+1", "sizes:1: size '1:9000+1': 4097 sizes; at most 4096 are taken"),
        ("# none", "sizes: no size in it"),
    ],
)
def test_a_faulty_list_of_sizes_is_one_message(text: str, message: str, tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "sizes").write_text(text)
    done = tune("sgemm/03_naive", "--sizes", tmp_path / "sizes", "--device", "opencl")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert message in done.err
    missing = tune("sgemm/03_naive", "--sizes", tmp_path / "none.txt", "--device", "opencl")
    assert (missing.status, "there is no such file" in missing.err) == (2, True)
