"""The look-up between sizes: recorded times, and records written by hand."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy
import pytest

import tuner
from helpers import ROOT
from helpers.processes import Tune
from helpers.records import H200, HOST_KERNEL, HOST_SIGNATURE, record, sizes
from helpers.spaces import on
from tuner.catalog import catalog, kernel_lists
from tuner.devices import Device
from tuner.devices.product import Tiles
from tuner.prediction import array_file
from tuner.prediction.array_file import ArrayFile
from tuner.prediction.grids import Measured
from tuner.prediction.model import TimeModel
from tuner.prediction.trained import FORMAT, Trained
from tuner.prediction.trained import VERSION as FORM
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.scope import Limits, Scope
from tuner.space.sources.rendering import Version
from tuner.store import lookup
from tuner.store.lookup import Candidate, Query
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.tuning.recordings import recording

KERNEL = "sgemm/09_coarsened_2d"
SPACE = catalog.load(KERNEL)
VERSION = Version.of(SPACE)
SIZES = (2048, 2560, 3072, 3584, 4096)
UNITS = 132  # of an H200
LARGE = {"BM": 128, "BN": 128, "BK": 32, "TM": 8, "TN": 8, "strided": 0, "min_blocks": 0, "fixed_sizes": 0}
SMALL = {**LARGE, "BM": 64, "BN": 64, "TM": 4, "TN": 4}


@functools.cache
def recorded(size: int) -> dict[ConfigKey, tuple[Config, float]]:
    found = recording.read(ROOT / f"results/recordings/09_coarsened_2d-{size}.json.gz")
    return {config_key(c): (c, entry.time_ms) for c, entry in found.configs() if entry.time_ms is not None}


def measured(size: int, *timed: tuple[Config, float], **changes: object) -> Record:
    (config, time_ms), *others = sorted(timed, key=lambda entry: entry[1])
    runners_up = [{"config": config, "time_ms": time_ms} for config, time_ms in others]
    plain = record(
        device=H200, kind="cuda", architecture="sm_90a", sizes=sizes(size), config=config, time_ms=time_ms,
        next=runners_up, signature=VERSION.signature, code=VERSION.code,
    )  # fmt: skip
    return replace(plain, **changes)


def found(records: list[Record], size: int, units: int = UNITS) -> list[Candidate]:
    scope = Scope(sizes(size), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(compute_capability=9))
    return list(lookup.candidates(records, Query(SPACE, scope, H200, "cuda", "sm_90a", VERSION, units)))


def covered(left_out: int) -> list[Record]:
    """Records of all other sizes, each with the times of what is best at any of them."""
    others = [size for size in SIZES if size != left_out]
    best = {min(recorded(size), key=lambda key: recorded(size)[key][1]) for size in others}
    return [measured(size, *(recorded(size)[key] for key in best)) for size in others]


@pytest.mark.slow
@pytest.mark.parametrize("left_out", SIZES)
def test_the_model_is_right_at_sizes_of_a_recorded_space_where_the_nearest_size_is_wrong(left_out: int) -> None:
    records = covered(left_out)
    taken, *others = found(records, left_out)
    here = {key: recorded(left_out)[key][1] for one in records for key in map(config_key, one.configs)}
    assert taken.match == "predicted"
    assert taken.regret is not None
    assert taken.regret < 0.02
    assert here[config_key(taken.config)] <= 1.002 * min(here.values())
    assert taken.record in records
    assert taken.config in taken.record.configs
    assert {one.match for one in others} <= {"predicted", "nearest_size", "default"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in kernel_lists.names() if "cuda" in catalog.load(name).languages])
def test_every_kernel_with_records_is_found_at_a_size_between_them(name: str) -> None:
    space = catalog.load(name)
    store = Store.of(space)
    limits = Limits(compute_capability=9, max_shared_memory=227 * 1024)
    measured_there = [one for one in store.records if one.device == H200]
    every = sorted({tuple(one.sizes.items()) for one in measured_there})
    for measured_at in every[len(every) // 2 :][:1]:
        usual = space.operation.sizes  # the widths that a kernel is usually for; others may be restricted
        between = {size: length + 16 if length > 16 and usual[size] is None else length for size, length in measured_at}
        scope = replace(on(space, between, limits), language="cuda")
        query = Query(space, scope, H200, "cuda", "sm_90a", Version.of(space), UNITS)
        assert list(lookup.candidates(store.records, query))


def test_an_exact_record_is_never_predicted() -> None:
    assert "predicted" not in {one.match for one in found(covered(0), 3072)}


def by_waves(size: int) -> Record:
    """Both take as long as their waves do, except that large tiles do 1.9 times as much in a time."""
    blocks = {128: (size // 128) ** 2, 64: (size // 64) ** 2}
    waves = {tile: -(-count // UNITS) * tile**2 * size for tile, count in blocks.items()}
    return measured(size, (LARGE, waves[128] / 1.9e8), (SMALL, waves[64] / 1e8))


@pytest.mark.slow
def test_a_small_result_goes_to_small_tiles_and_a_large_one_to_large() -> None:
    records = [by_waves(size) for size in (256, 512, 1024, 4096)]
    assert [found(records, size)[0].match for size in (384, 3840)] == ["predicted"] * 2
    assert [found(records, size)[0].config["BM"] for size in (384, 3840)] == [64, 128]


PERSISTENT = catalog.load("hgemm/11_wgmma_persistent")
WIDE = {**PERSISTENT.default, "block_m": 128, "block_n": 256, "cluster_m": 1}
NARROW = {**WIDE, "block_n": 128, "stages": 6}


def by_tiles(size: int) -> Record:
    """132 blocks walk over tiles; a narrow tile takes 0.55 of the time of a wide one."""
    wide, narrow = (math.ceil(math.ceil(size / 128) * math.ceil(size / width) / UNITS) for width in (256, 128))
    timed = [(WIDE, wide * size / 1e4), (NARROW, 0.55 * narrow * size / 1e4)]
    version = Version.of(PERSISTENT)
    return measured(size, *timed, signature=version.signature, code=version.code)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "width"), [(1408, 128), (1536, 256), (8192, 256)])
def test_where_blocks_walk_over_tiles_the_rounds_of_tiles_decide(size: int, width: int) -> None:
    assert by_tiles(size).config["block_n"] == width
    records = [by_tiles(other) for other in (1024, 1280, 1792, 2048, 2304, 3072, 3584, 4096, 5120, 6144)]
    scope = Scope(
        sizes(size), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(compute_capability=9, max_shared_memory=232448)
    )
    query = Query(PERSISTENT, scope, H200, "cuda", "sm_90a", Version.of(PERSISTENT), UNITS)
    taken = next(iter(lookup.candidates(records, query)))
    assert (taken.match, taken.config["block_n"]) == ("predicted", width)


def by_alignment(size: int) -> Record:
    """Rows that are not aligned make one of them three times as slow."""
    work = size**3 / 1e8
    return measured(size, (LARGE, work * (1.0 if size % 4 == 0 else 3.0)), (SMALL, 1.6 * work))


@pytest.mark.slow
def test_rows_that_are_not_aligned_go_to_the_kernel_that_reads_them_well() -> None:
    records = [by_alignment(size) for size in (1024, 1153, 1408, 1793, 2048, 2305, 3072, 3073)]
    assert [found(records, size)[0].config["BM"] for size in (1536, 1537, 2560, 2563)] == [128, 64, 128, 64]


def by_lines(size: int) -> Record:
    """Rows that begin amid a line of the cache make one of them twice as slow."""
    work = size**3 / 1e8
    return measured(size, (LARGE, work * (1.0 if size % 32 == 0 else 2.0)), (SMALL, 1.4 * work))


def test_rows_that_begin_amid_a_line_of_the_cache_are_told_from_others_far_from_what_was_measured() -> None:
    records = [by_lines(size) for size in (1024, 1124, 1540, 2048, 2148, 3072)]
    tiles = [found(records, size)[0].config["BM"] for size in (1536, 1544, 2560, 2564, 8192, 8196)]
    assert tiles == [128, 64, 128, 64, 128, 64]


def with_fewer(size: int) -> Record:
    """Small tiles find room on 120 of 132 multiprocessors alone."""
    waves = {
        tile: math.ceil(math.ceil(size / tile) ** 2 / units) * tile**2 * size for tile, units in ((128, 132), (64, 120))
    }
    return measured(size, (LARGE, waves[128] / 2.4e8), (SMALL, waves[64] / 2e8))


@pytest.mark.slow
def test_what_runs_on_fewer_multiprocessors_is_known_by_its_times() -> None:
    tried = [64 * blocks for blocks in (5, 7, 9, 11, 13, 15, 16, 19, 22, 25, 28, 31, 35, 39, 43, 48)]
    records = [with_fewer(size) for size in tried]
    taken = {blocks: found(records, 64 * blocks)[0].config["BM"] for blocks in (18, 26, 27, 45)}
    assert taken == {18: 64, 26: 64, 27: 128, 45: 128}  # with all of them, small tiles would win at 27 and 45


def with_five_at_once(size: int) -> Record:
    """Five small tiles find room on each of 120 of 132 multiprocessors: 600 of them run at once."""
    large, small = math.ceil(math.ceil(size / 128) ** 2 / 132), math.ceil(math.ceil(size / 64) ** 2 / 600)
    return measured(size, (LARGE, large * 132 * 128**2 * size / 2e8), (SMALL, small * 600 * 64**2 * size / 2e8))


@pytest.mark.slow
def test_how_many_blocks_run_at_once_is_known_by_the_times() -> None:
    tried = (5, 7, 9, 12, 14, 15, 17, 20, 22, 27, 29, 30, 32, 37, 38, 40, 41, 44, 47, 51)
    records = [with_five_at_once(64 * blocks) for blocks in tried]
    taken = {blocks: found(records, 64 * blocks)[0].config["BM"] for blocks in (24, 26, 34, 36)}
    assert taken == {24: 64, 26: 128, 34: 64, 36: 128}  # 576, 676, 1156 and 1296 small tiles


@pytest.mark.slow
def test_the_steps_of_the_depth_are_known_by_the_times() -> None:
    """Each block walks the depth in whole steps of BK; those of 8 take a tenth longer."""
    fine = {**LARGE, "BK": 8}

    def time_ms(config: Config, m: int, k: int) -> float:
        steps = math.ceil(k / config["BK"]) * config["BK"]
        return math.ceil(math.ceil(m / 128) ** 2 / UNITS) * steps * (1.1 if config is fine else 1.0) / 1e4

    tried = [(m, k) for m in (640, 1280, 1920, 2560) for k in (40, 61, 93, 121, 150, 187, 221)]
    entries = [Measured(SPACE, c, {(m, m, k, 1): time_ms(c, m, k) for m, k in tried}) for c in (LARGE, fine)]
    model = TimeModel(entries, Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits()), UNITS)
    for depth in (64, 96, 128, 160, 192):
        for k, is_even in ((depth, True), (depth + 1, False)):
            large, finer = model.times(dict(zip(sizes(1), (1024, 1024, k, 1), strict=True)))
            assert (large < finer) == is_even


@pytest.mark.slow
def test_blocks_that_share_the_depth_of_tiles_are_known_to_wait_for_one_another() -> None:
    """Steps along the depth are split evenly; but the sums of those that share a tile are added one after the other."""
    space = catalog.load("sgemm/16_stream_k")
    scope = Scope(dict.fromkeys(space.operation.sizes, 1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits())

    def time_ms(m: int, n: int, k: int, batch: int) -> float:
        tiles = batch * math.ceil(m / 128) * math.ceil(n / 256)
        steps = tiles * math.ceil(k / 8)
        return math.ceil(steps / UNITS) / 1e3 + min(steps, UNITS) / tiles / 1e2

    every = [
        (128 * m, 256 * n, k, 1) for m in (1, 2, 3, 5) for n in (1, 2, 4, 7) for k in (2000, 3500, 6000, 9500, 15000)
    ]
    known = {at: time_ms(*at) for at in every[::2]}
    entries = [Measured(space, config, known) for config in (space.default, {**space.default, "stages": 3})]
    model = TimeModel(entries, scope, UNITS)
    for at in every[1::2]:
        told = model.times(dict(zip(space.operation.sizes, at, strict=True)))
        assert told == pytest.approx(time_ms(*at), rel=0.1)


def test_clusters_leave_as_many_multiprocessors_idle_as_other_configurations_with_such_clusters_show() -> None:
    """15 clusters of 8 blocks run at once on 132 multiprocessors; of one configuration, no time tells."""
    space = catalog.load("gemm16/wgmma_shared")
    scope = Scope(
        dict.fromkeys(space.operation.sizes, 1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(), {"real": "bfloat16"}
    )
    shape = {"together": 4, "cluster_m": 1, "cluster_n": 2, "block_m": 64}

    def time_ms(tiles: int, width: int, k: int) -> float:
        return 0.005 + math.ceil(tiles * 4 / 120) * width * k * 1e-8

    entries = []
    for width, rows in ((64, range(2, 34)), (128, (2, 4, 7, 10, 13, 15, 18, 21, 24, 27, 30))):
        times = {
            (64 * m, 2 * width, k, 1): time_ms(2 * m, width, k) for m in rows if m != 16 for k in (4096, 9000, 16000)
        }
        entries.append(Measured(space, {**space.default, **shape, "block_n": width}, times))
    model = TimeModel(entries, scope, UNITS)
    told = model.times(dict(zip(space.operation.sizes, (64 * 16, 256, 12000, 1), strict=True)))[1]
    assert told == pytest.approx(time_ms(32, 128, 12000), rel=0.1)


@pytest.mark.slow
def test_what_was_measured_at_few_of_many_sizes_is_not_predicted_at_others() -> None:
    """The large tile alone would be the fastest everywhere; but it was measured at large sizes, with aligned rows."""
    rare = {**LARGE, "TM": 4}
    records = []
    for size in (*range(256, 4000, 181), 3072, 4096):
        work = size**3 / 1e8
        timed = [(LARGE, work * (1 + 300 / size)), (SMALL, work * (1.3 + 10 / size))]
        records.append(measured(size, *timed, *([(rare, 0.5 * work)] if size in (3072, 4096) else [])))
    assert {config_key(one.config) for one in found(records, 900)[:2]} == {config_key(LARGE), config_key(SMALL)}
    assert found(records, 4096)[0].config == rare


def test_the_one_size_with_unaligned_rows_does_not_judge_the_model_of_the_others() -> None:
    """Left out, it is predicted for no configuration, and the fastest at all others was not measured there."""
    fastest, records = {**LARGE, "BK": 16}, []
    for size in (*range(640, 1216, 64), 833):
        work = size**3 / 1e9
        timed = [(fastest, 0.8 * work)] if size != 833 else []
        records.append(measured(size, *timed, (LARGE, 0.9 * work), (SMALL, work)))
    assert found(records, 600)[0].config == fastest


@pytest.mark.slow
def test_what_was_measured_far_away_alone_is_not_taken_for_what_its_sums_promise() -> None:
    def time_ms(size: int) -> float:
        return math.ceil((size / 64) ** 2 / UNITS) * size / 1e6

    everywhere, large = [128 * n for n in (*range(2, 23), *range(32, 52))], [128 * n for n in range(32, 52)]
    known = {(size, size, size, 1): time_ms(size) for size in everywhere}
    faster = {(size, size, size, 1): 0.5 * time_ms(size) for size in large}
    scope = Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits())
    for count in (1, 40):  # more than are looked at closely
        others = [Measured(SPACE, {**SMALL, "BK": 8 * (2 + n)}, faster) for n in range(count)]
        model = TimeModel([Measured(SPACE, SMALL, known), *others], scope, UNITS)
        for size, is_far in ((288, True), (700, True), (5000, False)):
            one, *rest = model.times(sizes(size))
            assert (one < min(rest)) == is_far


@pytest.mark.slow
def test_what_was_measured_at_large_sizes_alone_does_not_launch_in_no_time() -> None:
    """Both tiles launch in 5 us, which shows at small sizes; for one of them these are unknown."""

    def time_ms(size: int, tile: int, k: int) -> float:
        return 0.005 + math.ceil((size / tile) ** 2 / UNITS) * tile**2 * k * 1e-10

    small, large = ([*range(first, 4097, 128)] for first in (64, 2112))
    known = [
        {(size, size, k, 1): time_ms(size, tile, k) for size in tried for k in (64, 256)}
        for tile, tried in ((64, small), (128, large))
    ]
    entries = [Measured(SPACE, config, times) for config, times in zip((SMALL, LARGE), known, strict=True)]
    model = TimeModel(entries, Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits()), UNITS)
    for size in (96, 224, 480):
        of_small, of_large = model.times(dict(zip(sizes(1), (size, size, 64, 1), strict=True)))
        assert 0.0045 < of_small < of_large


@pytest.mark.slow
def test_a_library_that_was_measured_at_few_of_many_sizes_is_not_asked_for_its_tiles() -> None:
    def tiles(at: Scope) -> Tiles:
        raise AssertionError(f"asked at {at.sizes}")

    known = {(64 * n, 64 * n, 64 * n, 1): n**3 / 1e3 for n in range(8, 208)}
    entries = [Measured(SPACE, LARGE, known), Measured(None, {}, dict([*known.items()][:4]))]
    scope = Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(compute_capability=9))
    kernel, library = TimeModel(entries, scope, UNITS, 0, tiles).times(sizes(2048))
    assert math.isfinite(kernel)
    assert math.isinf(library)


@pytest.mark.slow
def test_what_times_nearby_show_to_be_hard_to_predict_is_mostly_passed_over() -> None:
    """What jumps from size to size is no faster than the other on average."""
    records = []
    for position in range(32):
        size, jump = 32 * round(32 * 1.08**position), (0.8, 1.25, 0.9, 0.75, 1.3, 1.15)[position % 6]
        records.append(measured(size, (LARGE, size**3 / 1e8), ({**LARGE, "TM": 4}, jump * size**3 / 1e8)))
    new = [32 * round(32 * 1.08 ** (position + 0.5)) for position in range(4, 24, 3)]
    assert [found(records, size)[0].config["TM"] for size in new].count(8) > len(new) / 2


def unpredictable(size: int) -> Record:
    """The tile that is best changes with the size, whatever its waves are."""
    return measured(size, (LARGE, 1.0 if size > 1000 else 3.0), (SMALL, 2.0))


REFUSED = {
    "what follows no model": [unpredictable(size) for size in (512, 768, 1536, 2048)],
    "too few sizes": [by_waves(size) for size in (256, 4096)],
    "nothing shared": [measured(256, (SMALL, 1.0)), measured(512, (SMALL, 2.0)), measured(4096, (LARGE, 3.0))],
    "times with cold caches": [replace(by_waves(size), caches="cold") for size in (256, 512, 1024, 4096)],
    "times of a variant": [replace(by_waves(size), device="NVIDIA H200 NVL") for size in (256, 512, 1024, 4096)],
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_is_no_better_than_the_nearest_size_is_not_used(name: str) -> None:
    assert "predicted" not in {one.match for one in found(REFUSED[name], 640)}


def test_a_device_of_unknown_multiprocessors_gets_the_nearest_size() -> None:
    assert found(covered(3072), 3072, units=0)[0].match == "nearest_size"


@pytest.mark.slow
def test_best_tells_what_is_expected_to_be_lost(tune: Tune, tmp_path: Path, host: Device) -> None:
    here = {"device": host.name, "kind": "host", "architecture": host.architecture, "signature": HOST_SIGNATURE}
    here["conditions"] = host.conditions.values
    steady, fast_at_112 = {"block_size": 8, "openmp": 0}, {"block_size": 64, "openmp": 0}
    for size in (80, 96, 112, 128, 144):
        time = size**3 / 1e6
        timed = [(steady, time), (fast_at_112, time * (0.9 if size == 112 else 2.0))]
        assert Store(HOST_KERNEL, tmp_path).add(measured(size, *timed, **here, code=None))
    done = tune("best", HOST_KERNEL, "104", "--results", tmp_path, "--json")
    assert (done.json["match"], done.json["config"], round(done.json["regret"], 3)) == ("predicted", steady, 0.022)
    assert "predicted, expected regret 2.2%" in tune("best", HOST_KERNEL, "104", "--results", tmp_path).out
    loaded = tuner.load(HOST_KERNEL, 104, device=host, results=tmp_path)
    assert (loaded.match, loaded.config) == ("predicted", steady)


@pytest.mark.slow
def test_a_library_that_tells_its_tiles_is_predicted_by_their_waves() -> None:
    def tiles(at: Scope) -> Tiles:
        there = math.ceil(at.sizes["M"] / 128) ** 2
        return Tiles(there, (at.sizes["M"] / 128) ** 2, there, at_once=1.0, algorithm=1, cut=(128, 128, 1))

    def library(size: int) -> float:
        return math.ceil(math.ceil(size / 128) ** 2 / UNITS) * size / 1e6

    tried = [64 * n for n in (9, 13, 17, 20, 21, 22, 24, 26, 28, 30, 31, 33, 35, 37, 39, 42, 45, 48)]
    known = {(size, size, size, 1): library(size) for size in tried}
    entries = [Measured(SPACE, LARGE, {at: 3 * time_ms for at, time_ms in known.items()}), Measured(None, {}, known)]
    scope = Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(compute_capability=9))
    for size in (64 * 23, 64 * 32, 64 * 38):
        told, untold = (
            TimeModel(entries, scope, UNITS, 0, *how).times(sizes(size))[1] / library(size) for how in ([tiles], [])
        )
        assert abs(told - 1) < 0.05
        assert abs(told - 1) < abs(untold - 1)


def test_where_times_are_uncertain_the_library_is_preferred_to_a_kernel_that_is_as_fast() -> None:
    def time_ms(size: int) -> float:
        return size**3 / 1e9 * (1.5 if size % 256 else 1.0)  # which follows no cost

    known = {(size, size, size, 1): time_ms(size) for size in range(640, 4096, 192)}
    entries = [Measured(SPACE, LARGE, known), Measured(None, {}, known)]
    model = TimeModel(entries, Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits()), UNITS)
    for size in (700, 1500, 3000):
        kernel, library = model.times(sizes(size))
        assert library < kernel / 1.05


@pytest.mark.parametrize(("jump", "wins"), [(0.0, True), (0.2, False)])
def test_a_kernel_replaces_the_library_where_its_gain_is_large_against_the_uncertainty(jump: float, wins: bool) -> None:
    shares = itertools.cycle((0.85 + jump, 0.85 - jump))
    library = {(size, size, size, 1): size**3 / 1e9 for size in range(640, 4096, 128)}
    kernel = {at: next(shares) * time_ms for at, time_ms in library.items()}
    entries = [Measured(SPACE, LARGE, kernel), Measured(None, {}, library)]
    model = TimeModel(entries, Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits()), UNITS)
    for size in (1088, 1984, 2880):
        of_kernel, of_library = model.times(sizes(size))
        assert bool(of_kernel < of_library) is wins


@pytest.mark.parametrize(("share", "lent_aligned"), [(0.9, True), (0.93, False)])
def test_times_of_another_type_say_less_of_the_library_least_where_rows_are_not_aligned(
    share: float, lent_aligned: bool
) -> None:
    library = {(size, size, size, 1): size**3 / 1e9 for size in range(640, 4096, 61)}
    entries = [
        Measured(SPACE, LARGE, {at: share * time_ms for at, time_ms in library.items()}),
        Measured(None, {}, library),
    ]
    model = TimeModel(entries, Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits()), UNITS)
    for size, wins, wins_lent in ((1984, True, lent_aligned), (1985, True, False)):
        (kernel, of_library), (lent, of_other) = (model.times(sizes(size), lent=each) for each in (False, True))
        assert of_library == of_other
        assert (bool(kernel < of_library), bool(lent < of_library)) == (wins, wins_lent)


def test_kernels_that_precede_the_library_are_in_the_order_that_they_have_without_it() -> None:
    shares = itertools.cycle((0.46, 0.54))
    library = {(size, size, size, 1): size**3 / 1e9 for size in range(640, 4096, 128)}
    entries = [
        Measured(SPACE, LARGE, {at: next(shares) * time_ms for at, time_ms in library.items()}),
        Measured(SPACE, SMALL, {at: 0.65 * time_ms for at, time_ms in library.items()}),
    ]
    scope = Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits())
    alone, beside = (TimeModel([*entries, *each], scope, UNITS) for each in ([], [Measured(None, {}, library)]))
    for size in (1088, 1984, 2880):
        large, small = alone.times(sizes(size))
        *both, of_library = beside.times(sizes(size))
        assert large < small < of_library
        assert both == pytest.approx([large, small], rel=1e-3)


def test_a_kernel_whose_sum_alone_is_known_does_not_count_as_hardly_longer_than_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Callers of short calls choose among such kernels."""
    library = {(size, size, size, 1): size**3 / 1e9 for size in range(640, 4096, 128)}
    times = {at: 1.05 * time_ms for at, time_ms in library.items()}
    entries = [Measured(SPACE, each, times) for each in (LARGE, SMALL)] + [Measured(None, {}, library)]
    model = TimeModel(entries, Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits()), UNITS)
    monkeypatch.setattr("tuner.prediction.model.BATCH", 1)
    *kernels, of_library = model.times(sizes(1984))
    assert min(kernels) > 1.15 * of_library


@pytest.mark.slow
def test_a_library_is_asked_once_for_what_it_would_run_at_a_size() -> None:
    asked: list[int] = []

    def tiles(at: Scope) -> Tiles:
        asked.append(size := at.sizes["M"])
        there = math.ceil(size / 128) ** 2
        return Tiles(there, (size / 128) ** 2, there, at_once=there / UNITS, algorithm=1, cut=(128, 128, 1))

    known = {(64 * n, 64 * n, 64 * n, 1): n**3 / 1e3 for n in range(8, 28)}
    entries = [Measured(SPACE, LARGE, {at: 2 * time_ms for at, time_ms in known.items()}), Measured(None, {}, known)]
    model = TimeModel(entries, Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits()), UNITS, 0, tiles)
    asked.clear()
    model.times(sizes(2048))
    assert asked == [2048]


@pytest.mark.slow
def test_each_algorithm_of_a_library_that_runs_at_many_sizes_is_told_from_its_own_times() -> None:
    """One takes three times as long for the same tiles."""

    def tiles(at: Scope) -> Tiles:
        size = at.sizes["M"]
        there = math.ceil(size / 64) ** 2
        return Tiles(there, (size / 64) ** 2, there, 1.0, 7 if size == 4096 else size // 32 % 2, cut=(64, 64, 1))

    def library(size: int) -> float:
        return (1 + 2 * (size // 32 % 2)) * math.ceil(math.ceil(size / 64) ** 2 / UNITS) * size / 1e6

    tried = [32 * n for n in range(8, 240) if n % 7]
    known = {(size, size, size, 1): library(size) for size in (*tried, 4096)}
    entries = [Measured(SPACE, LARGE, {at: 9 * time_ms for at, time_ms in known.items()}), Measured(None, {}, known)]
    scope = Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(compute_capability=9))
    model = TimeModel(entries, scope, UNITS, 0, tiles)
    for size in (32 * 21, 32 * 98, 32 * 1000, 32 * 1001):  # the last ones are nowhere near
        assert 0.8 * library(size) < model.times(sizes(size))[1] < 1.05 * library(size)  # its times are optimistic


@pytest.mark.slow
def test_what_many_sizes_leave_open_is_known_at_each_of_them() -> None:
    """Which is faster follows from no sum of parts, at more sizes than are inverted at once."""
    tried = {(64 * m, 64 * n, 1024, 1): m * n % 3 == 0 for m in range(8, 23) for n in range(8, 23)}
    times = [
        {at: at[0] * at[1] / 1e6 * (1.0 if is_third == wins else 1.2) for at, is_third in tried.items()}
        for wins in (True, False)
    ]
    entries = [Measured(SPACE, LARGE, times[0]), Measured(SPACE, SMALL, times[1])]
    model = TimeModel(entries, Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits()), UNITS)
    names = list(sizes(1))
    for at, is_third in [*tried.items()][::7]:
        large, small = model.times(dict(zip(names, at, strict=True)))
        assert (large < small) == is_third


@functools.cache
def learnt() -> TimeModel:
    """A model of two kernels and a library of two algorithms; the small tiles are faster at every third size."""
    tried = [(64 * m, 64 * n, 1024, 1) for m in range(8, 19) for n in range(8, 19)]
    large = {at: at[0] * at[1] / 1e6 * (1.1 if at[0] * at[1] // 4096 % 3 else 1.3) for at in tried}
    small = {at: at[0] * at[1] / 1e6 * 1.2 for at in tried}
    library = {at: at[0] * at[1] / 5e5 for at in tried}
    entries = [Measured(SPACE, LARGE, large), Measured(SPACE, SMALL, small), Measured(None, {}, library)]
    return TimeModel(entries, ANY, UNITS, 0, tiled)


def tiled(at: Scope) -> Tiles:
    """How the library tiles a size: it has two algorithms."""
    there = math.ceil(at.sizes["M"] / 128) * math.ceil(at.sizes["N"] / 128)
    return Tiles(there, at.sizes["M"] * at.sizes["N"] / 128**2, there, 1.0, at.sizes["M"] // 64 % 2, (128, 128, 1))


ANY = Scope(sizes(1), {"alpha": 1.0, "beta": 0.0}, "cuda", Limits(compute_capability=9))


def written(about: dict[str, str]) -> bytes:
    trained = learnt().trained
    assert trained is not None
    return trained.to_bytes(about)


@pytest.mark.slow
def test_a_model_in_a_file_predicts_what_it_did_before_without_what_it_was_trained_on() -> None:
    file = array_file.read(written({"of": "a test"}), FORMAT, FORM)
    restored = TimeModel.restored(Trained.of_file(file), [SPACE], ANY, tiled)
    assert (file.header["of"], restored.regret, restored.kernels_regret) == (
        "a test", learnt().regret, learnt().kernels_regret,
    )  # fmt: skip
    for size in (576, 600, 1111, 5000):
        assert [*restored.times(sizes(size))] == pytest.approx([*learnt().times(sizes(size))], rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("at", [3, 60, -3])
def test_a_file_of_a_model_that_is_damaged_is_refused(at: int) -> None:
    content = bytearray(written({}))
    content[at] ^= 1
    with pytest.raises(ValueError, match=r"\w"):
        Trained.of_file(array_file.read(bytes(content), FORMAT, FORM))


def test_blocks_may_be_compressed_to_less_and_are_read_alike_but_not_damaged_ones() -> None:
    arrays = {"times": numpy.arange(5000, dtype=numpy.uint16) * 7, "none": numpy.zeros((0, 3))}
    plain, small = (array_file.packed("a test", 1, {"of": "both"}, [arrays], small=each) for each in (False, True))
    assert len(small) < len(plain)
    for data in (plain, small):
        file = array_file.read(data, "a test", 1)
        assert file.header == {"of": "both"}
        assert {name: array.tolist() for name, array in file.arrays(0).items()} == {
            name: array.tolist() for name, array in arrays.items()
        }
    assert array_file.read(plain, "a test", 1).digests == array_file.read(small, "a test", 1).digests
    cut = ArrayFile({}, [{"digest": "", "small": 1, "arrays": []}], [small[-40:-3]])
    with pytest.raises(ValueError, match=r"LZMA|cut off"):
        cut.arrays(0)


@pytest.mark.slow
def test_new_times_are_added_to_a_model_and_change_what_it_predicts_near_them_alone() -> None:
    new, near, far = (2000, 2000, 2000, 1), sizes(2000, K=2016), sizes(640)
    at = dict(zip(sizes(1), new, strict=True))
    before = learnt().times(at)
    model, other = (learnt().with_times({1: {new: share * before[1]}}) for share in (0.5, 0.6))
    after = model.times(at)
    assert after[1] / other.times(at)[1] == pytest.approx(0.5 / 0.6, rel=0.02)
    assert after[1] < model.times(near)[1] < 0.8 * learnt().times(near)[1]
    assert [*after[[0, 2]]] == pytest.approx([*before[[0, 2]]])
    assert [*model.times(far)] == pytest.approx([*learnt().times(far)], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("size", [704, 1088])
def test_an_invalid_configuration_does_not_hide_that_another_takes_longer_than_its_cost_terms_say(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small, _ = learnt().times(sizes(size))
    monkeypatch.setattr("tuner.prediction.model.BATCH", 1)
    assert small < large < 0.9 * learnt().times(sizes(size))[0]  # it is not looked at, as it cannot be the fastest
    assert learnt().times(sizes(size), is_valid=lambda position: position != 1)[0] == large
    assert learnt().times(sizes(size), within=large / small)[0] == large
