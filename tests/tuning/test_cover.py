"""The fewest configurations that serve many sizes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers.own_kernels import project, scaled
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.builds import build_cache
from tuner.devices.cuda.blas import cublas_tiles
from tuner.measure.results import Outcome
from tuner.search.listing import listed
from tuner.space.config import Config, config_key
from tuner.space.scope import Scope
from tuner.space.size_lists import WeightedSize
from tuner.space.sources.rendering import Version
from tuner.store import time_tables
from tuner.store.store import Store
from tuner.store.time_tables import TimeTable
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.several.cover_times import CoverTimes
from tuner.tuning.several.covering import SizedBuild, choose, spread_out
from tuner.tuning.several.predicted_winners import PredictedWinners
from tuner.tuning.several.problems import members
from tuner.tuning.several.size_independent import made_size_independent, size_independent
from tuner.tuning.several.table import TrialTable

A, B, C, D = (SizedBuild((name, ())) for name in "abcd")

# At small sizes the first is slow, at large ones the others; the third never pays.
CROSSING = """\
#include <unistd.h>
void scale(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
    usleep(unroll == 3 ? 30000 : (unroll == 1) == (n < 3000) ? 1000 : 20000);
}
"""
FIXED, ALWAYS = "derived: {fixed_n: n if fixed else 0}\n", "derived: {fixed_n: n}\n"


@pytest.mark.slow
def test_a_cover_serves_every_size_with_few_configurations_and_records_them(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    (tmp_path / "twice.c").write_text(CROSSING)
    file.write_text(file.read_text().replace("[1, 2]", "[1, 2, 3]"))
    done = tune("cover", file, "--sizes", "1000:9000*9", "--within", "4", "--budget", "60s", "--json")
    assert done.status == 0, done.err
    found = done.json
    assert [each["config"] for each in found["chosen"]] == [{"unroll": 1}, {"unroll": 2}]
    assert [(s["size"]["n"], s["chosen"], s["stored"]) for s in found["sizes"]] == [
        (1000, 1, True), (9000, 2, True),
    ]  # fmt: skip
    assert all(0 <= served["regret"] <= 3 for served in found["sizes"])
    assert found["measured"] == found["pairs"] == 4
    assert (found["tuned"], found["unserved"]) == (2, [])
    for size, unroll in (("1000", 1), ("9000", 2)):
        best = tune("best", file, size, "--json").json
        assert (best["match"], best["config"]) == ("exact", {"unroll": unroll})
    (table,), _ = time_tables.read(Store.of(catalog.load(str(file))).files)
    assert {key: [*times] for key, times in table.times.items()} == {
        config_key({"unroll": unroll}): [(1000,), (9000,)] for unroll in (1, 2)
    }


@pytest.mark.slow
def test_after_a_cover_a_first_call_at_another_size_compiles_nothing(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    file = scaled(tmp_path, "twice")
    text = CROSSING.replace("usleep(", "usleep(fixed_n ? 100 : ")  # what is compiled for one size is the fastest there
    (tmp_path / "twice.c").write_text(text)
    file.write_text(file.read_text().replace("[1, 2]", "[1, 2], fixed: [0, 1]") + FIXED)
    done = tune("cover", file, "1000", "2000", "9000", "--within", "4", "--budget", "60s", "--json")
    assert [(each["config"], each["builds"]) for each in done.json["chosen"]] == [
        ({"unroll": 1, "fixed": 0}, 1), ({"unroll": 2, "fixed": 0}, 1),
    ]  # fmt: skip
    built = {path.name for path in build_cache.folder().iterdir()}
    scale, x = tuner.dispatch(file), np.ones(1500, np.float32)
    y = np.empty_like(x)
    scale(y, x)
    assert (y == 2).all()
    assert scale.explain(y, x).config == {"unroll": 1, "fixed": 0}
    assert {path.name for path in build_cache.folder().iterdir()} == built


def test_what_serves_many_sizes_is_left_of_a_pool_and_all_where_nothing_does(tmp_path: Path, host: Device) -> None:
    file = scaled(tmp_path, "twice")
    (tmp_path / "twice.c").write_text(CROSSING.replace("i < n;", "i < fixed_n;"))
    plain, more = file.read_text(), "[1, 2], fixed: [0, 1]"
    for text, left in (
        (plain.replace("[1, 2]", more) + FIXED, [0, 0]),
        (plain.replace("[1, 2]", more) + ALWAYS, [0, 1] * 2),
    ):
        file.write_text(text)
        space = catalog.load(file)
        scope = Scope({"n": 1000}, {}, host.language, host.limits)
        pool = size_independent(space, scope, listed(space, scope))
        assert sorted(config["fixed"] for config in pool.configs()) == sorted(left)
        assert made_size_independent(space, scope, {"unroll": 2, "fixed": 1}) == {"unroll": 2, "fixed": left[1]}


@pytest.mark.slow
def test_a_cover_says_what_it_had_no_time_for(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    (tmp_path / "twice.c").write_text(CROSSING.replace("usleep(", "usleep(100000); usleep("))
    done = tune("cover", file, "500", "600", "--budget", "1s")
    assert done.status == 1
    assert "tuned at 1 of 2 sizes: " in done.out
    assert "no record, out of time: 500; run again with a longer --budget to continue" in done.out
    assert "not served: 600; run again" in done.out


@pytest.mark.slow
def test_a_cover_tells_sizes_without_a_valid_configuration_from_those_without_time(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    file.write_text(file.read_text() + "restrictions: [n >= 16 * unroll]\n")
    done = tune("cover", file, "5", "50", "--budget", "20s", "--json")
    assert (done.status, done.json["unserved"], done.json["invalid"]) == (1, [], [{"n": 5}]), done.err
    done = tune("cover", file, "5", "6", "--budget", "20s")
    assert (done.status, "0 configurations serve 0 of 2 sizes" in done.out) == (1, True), done.err
    assert "no valid configuration: 5, 6; `tune validate` shows why" in done.out
    done = tune("cover", file, "50", "--within", "nan")
    assert (done.status, "--within 'nan': write a number above 1 and at most 10" in done.err) == (2, True), done.err


@pytest.mark.slow
def test_a_cover_of_a_family_goes_on_where_the_trials_of_its_kernels_took_all_the_time(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path, 'name = "mine"\nspaces = ["tuning"]\n', "scales/one", "scales/other")
    late = "static int called; if (!called++) sleep(4);\n    usleep("  # in the trial that comes last
    (root / "tuning" / "scales" / "other.c").write_text(CROSSING)
    (root / "tuning" / "scales" / "one.c").write_text(CROSSING.replace("usleep(", late))
    monkeypatch.chdir(root)
    done = tune("cover", "mine/scales", "500", "600", "--budget", "6s")
    assert "tuned at 1 of 2 sizes: " in done.out, done.err


@pytest.mark.slow
def test_times_alone_are_measured_at_other_sizes_and_recorded_nowhere(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    (tmp_path / "twice.c").write_text(CROSSING)
    assert tune("cover", file, "1000", "9000", "--within", "4", "--budget", "60s").status == 0
    done = tune("cover", file, "500", "800", "1200", "--times", "--within", "4", "--part", "2/2", "--budget", "60s")
    assert done.out == "2 winners, 1 of 1 sizes: measured 2 of 2 (winner, size) pairs, and the library at 0 sizes\n"
    (table,), _ = time_tables.read(Store.of(catalog.load(str(file))).files)
    assert table.sizes == [(800,), (1000,), (9000,)]
    assert all((800,) in times for times in table.times.values())
    assert tune("best", file, "800", "--json").json["match"] != "exact"
    assert tune("cover", file, "500", "--times", "--as", "stream", "--budget", "60s").status == 0
    repeated, own = time_tables.read(Store.of(catalog.load(str(file))).files)[0]
    assert (own.deployment, own.times) == ("isolated", table.times)
    assert (repeated.deployment, repeated.sizes) == ("stream", [(500,)])
    short = tune("cover", file, "600", "--times", "--budget", "0.01s")
    assert short.status == 1
    assert "measured 0 of 2 (winner, size) pairs, and the library at 0 sizes; a longer --budget measures" in short.out


@pytest.mark.gpu
def test_times_alone_begin_with_what_the_tables_of_a_sibling_know(tune: Tune, tmp_path: Path, cuda: Device) -> None:
    kernel, space = "sgemm/06_tiled", catalog.load("sgemm/06_tiled")
    other, stranger = ({**space.default, "unroll_k": unroll} for unroll in (8, 4))
    for device, units in (("a larger chip", cuda.units + 1), ("another memory", cuda.units)):
        table = TimeTable(
            "cuda", device, Version.of(space).code, ("M", "N", "K", "batch"), {"alpha": 1.0, "beta": 0.0}, {},
            architecture=cuda.architecture, units=units,
        )  # fmt: skip
        table.add(stranger if units > cuda.units else other, (64, 64, 64, 1), 1.0)
        time_tables.write(kernel, [table], tmp_path)
    done = tune("cover", kernel, "96", "--times", "--budget", "60s", "--results", tmp_path)
    assert done.status == 0, done.err
    (own,) = (t for t in time_tables.read_file(time_tables.path(kernel, tmp_path))[0] if t.device == cuda.name)
    assert other in own.configs.values()
    assert stranger not in own.configs.values()
    assert 0 < own.launch_ms < min(time_ms for times in own.times.values() for time_ms in times.values())


def test_numbers_of_the_librarys_algorithms_cover_no_sizes(tune: Tune) -> None:
    done = tune("cover", "gemm16/vendor", "64")
    assert done.status == 2
    assert done.err.startswith(
        "error: gemm16/vendor: serves no other size: the numbers of its algorithms are of one size;"
    )


def test_a_family_is_tuned_without_the_algorithms_of_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublas_tiles, "version", lambda: "")
    spaces, _, notes = members("gemm16", "cuda:0")
    assert "gemm16/mma_any" in [space.name for space in spaces]
    assert notes == [
        "gemm16/vendor: left out: algorithms of cuBLASLt need it; pip install nvidia-cublas, as `.[cuda]` does"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["2", "0/2", "3/2", "a/b", "3/3"])
def test_a_part_of_the_sizes_is_one_of_several(part: str, tune: Tune) -> None:
    done = tune("cover", "sgemm", "64", "65", "--part", part)
    assert done.err.startswith(f"error: --part '{part}': ")
    assert "write" in done.err
    assert done.status == 2


def test_records_of_a_cover_are_of_launches_alone(tune: Tune) -> None:
    done = tune("cover", "sgemm", "64", "--as", "stream")
    assert done.err == "error: --as 'stream': only with --times; `tune KERNEL SIZE --as NAME` tunes for it\n"


def test_a_cover_takes_a_time(tune: Tune) -> None:
    for budget in ("100", "soon"):
        done = tune("cover", "sgemm", "64", "--budget", budget)
        assert done.err == f"error: --budget '{budget}': write a time for all of it: 90s, 10m or 1h\n"


def trial(value: float) -> Trial:
    return Trial({"unroll": 1}, Outcome(times=(value,)), (value,))


def test_each_kernel_brings_its_own_record_from_the_nearest_size_that_is_aligned_alike(tmp_path: Path) -> None:
    spaces = {name: catalog.load(scaled(tmp_path / name, name)) for name in ("even", "odd", "slow")}
    times = CoverTimes(spaces)
    times.history.add({"n": 1000}, "even", [trial(1.0)])
    times.history.add({"n": 1500}, "odd", [trial(9.0)])
    times.history.add({"n": 1500}, "even", [trial(1.0)])
    times.history.add({"n": 3001}, "odd", [trial(1.0)])
    times.history.add({"n": 3001}, "slow", [trial(2.0)])
    sizes = [WeightedSize({"n": n}, 1.0) for n in (1001, 1100)]
    assert times.winners(sizes, 1.03) == {"even": [{"unroll": 1}], "odd": [{"unroll": 1}], "slow": []}


def test_the_sizes_that_stand_for_all_are_of_both_alignments() -> None:
    sizes = [WeightedSize({"n": n}, 1.0) for n in (*range(800, 2400, 128), 801, 1803)]
    assert sorted(size.sizes["n"] % 8 == 0 for size in spread_out(sizes)[:2]) == [False, True]


def test_finals_have_the_last_word_on_what_they_refute() -> None:
    table, sizes = TrialTable(), {"n": 64}
    trials = [Trial({"unroll": unroll}, Outcome(times=(1.0,)), (1.0,)) for unroll in (1, 2)]
    table.add(sizes, "k", trials)
    table.settle(sizes, "k", zip(trials, (900.0, 1.05), strict=True))
    assert [(pair[1][0][2], trial.value) for pair, trial in table.ranking(sizes)] == [(2, 1.0), (1, 900.0)]


def test_no_needless_build_is_chosen() -> None:
    times = [{A: 1.0, B: 1.02}, {A: 1.0, C: 1.01}, {B: 1.0, A: 1.2}, {C: 1.0, A: 1.5}]
    assert set(choose(times, [1.0] * 4, 1.03)) == {B, C}


def test_weights_decide_between_builds_that_reach_as_far() -> None:
    times = [{A: 1.0, B: 1.0}, {A: 1.0}, {B: 1.0}, {D: 1.0}]
    assert choose(times, [1.0, 1.0, 5.0, 1.0], 1.03)[0] == B


@pytest.mark.slow
def test_a_winner_that_other_sizes_tell_to_be_far_behind_is_not_measured(host: Device) -> None:
    kernel, sizes = "sgemm/01_host_blocked", range(32, 512, 32)
    space, table = catalog.load(kernel), TrialTable()
    quick, slow, new = ({"block_size": block, "openmp": 0} for block in (8, 16, 32))
    scope = Scope(dict.fromkeys(space.operation.sizes, 1), dict(space.operation.options), "c", host.limits)

    def kept(known: Iterable[int]) -> list[Config]:
        for size in known:
            trials = [
                Trial(c, Outcome(times=(ms,)), (ms,)) for c, ms in ((quick, size**3 / 1e6), (slow, size**3 / 3e5))
            ]
            table.add({"M": size, "N": size, "K": size, "batch": 1}, kernel, trials)
        winners = PredictedWinners({kernel: space}, {kernel: [quick, slow, new]}, [table], scope, host.info)
        return winners.of({kernel: [quick, slow, new]}, {"M": 100, "N": 100, "K": 100, "batch": 1})[kernel]

    assert kept(sizes[:4]) == [quick, slow, new], "too little is known"
    assert kept(sizes) == [quick, new]
    alike = [{"block_size": block, "openmp": 0} for block in range(64, 464, 10)]
    for size in sizes:
        times = [size**3 / 1e6 * (1 + number / 200) for number in range(len(alike))]
        trials = [Trial(c, Outcome(times=(ms,)), (ms,)) for c, ms in zip(alike, times, strict=True)]
        table.add({"M": size, "N": size, "K": size, "batch": 1}, kernel, trials)
    winners = PredictedWinners({kernel: space}, {kernel: [quick, *alike]}, [table], scope, host.info)
    at = {"M": 100, "N": 100, "K": 100, "batch": 1}
    assert winners.of({kernel: alike}, at)[kernel] == alike, "none is over 1.2 x the best"
