"""What `tune best` says beside the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.own_kernels import scaled
from helpers.processes import Tune
from helpers.records import KERNEL, at, imported, record, sizes
from tuner.cli import output
from tuner.devices import Device
from tuner.store.store import Store


def test_best_tells_variants_and_what_was_imported(tune: Tune, tmp_path: Path, host: Device) -> None:
    name, kernel = f"{host.name} (TM)", "sgemm/01_host_blocked"
    Store(kernel, tmp_path).add(imported(record(device=name, architecture=host.architecture, sizes=sizes(64))))
    done = tune("best", kernel, "64", "--results", tmp_path, "--json")
    assert (done.json["match"], done.json["variant"]) == ("nearest_size", True)
    assert "imported and has not been verified" in done.err
    assert "of a variant" in tune("best", kernel, "64", "--results", tmp_path).out


def test_best_says_how_a_stale_record_stands_with_strict(tune: Tune, tmp_path: Path, host: Device) -> None:
    kernel, size = "sgemm/01_host_blocked", "M=61,N=62,K=63"
    here = {"device": host.name, "architecture": host.architecture, "sizes": {"M": 61, "N": 62, "K": 63, "batch": 1}}
    here["conditions"] = dict(host.conditions.values)
    Store(kernel, tmp_path).add(record(**here, signature="an earlier one"))
    done = tune("best", kernel, size, "--results", tmp_path, "--json")
    assert (done.json["match"], done.json["stale"]) == ("exact", True)
    assert "of an earlier version of the kernel, which strict=True refuses; tune it again" in done.err


def test_the_best_of_a_device_that_is_not_here_is_told(tune: Tune) -> None:
    done = tune("best", "sgemm/13_double_buffered", "4096", "--device", "h200", "--json")
    assert (done.status, done.json["device"], done.json["match"]) == (0, "NVIDIA H200", "exact"), done.err
    refused = tune("best", "sgemm/13_double_buffered", "4096", "--device", "H2000")
    assert (refused.status, refused.out) == (2, "")
    assert "--device H2000: neither a kind of device (cuda, opencl, host) nor" in refused.err


def test_a_board_of_another_name_is_another_board(tune: Tune) -> None:
    for device, match, named in (
        ("H200 NVL", "architecture", "H200 NVL"),
        ("NVIDIA H200 NVL", "architecture", "NVIDIA H200 NVL"),
        ("NVIDIA H200", "exact", "NVIDIA H200"),
        ("h200", "exact", "NVIDIA H200"),
    ):
        done = tune("best", "sgemm/13_double_buffered", "4096", "--device", device, "--json")
        assert (done.json["match"], done.json["device"]) == (match, named), done.err


def test_both_anchors_and_what_was_sustained_are_told(tune: Tune, tmp_path: Path) -> None:
    run = {"time_ms": 1.25, "clock_mhz": 1755.0, "power_w": 698.6}
    anchors = {
        "library": "cuBLAS 1", "library_ms": 0.9, "vs_library": 0.9,
        "best_library": "cuBLASLt 1 (best of 32)", "best_library_ms": 0.8, "vs_best_library": 0.8,
        "sustained": {"kernel": run, "best_library": {**run, "time_ms": 1.0, "power_w": None}},
    }  # fmt: skip
    Store("sgemm/01_host_blocked", tmp_path).add(record(device="Fast", **anchors))
    told = tune("best", "sgemm/01_host_blocked", "64", "--device", "Fast", "--results", tmp_path)
    assert "90.0% of cuBLAS 1, 80.0% of cuBLASLt 1 (best of 32)\n" in told.out, told.err
    assert "sustained: 1.25 ms at 1755 MHz and 699 W; cuBLASLt 1 (best of 32) 1 ms at 1755 MHz\n" in told.out


@pytest.mark.parametrize(
    ("kind", "best_ms", "default_ms", "launch_ms", "gain"),
    [
        ("opencl", 0.00033, 0.01, None, "too short to tell from the default (0.01 ms)"),
        ("opencl", 0.033, 1.0, None, "30.30 x as fast as the default"),
        ("opencl", 0.003, 0.009, 0.002, "3.00 x as fast as the default"),
        ("host", 0.0001, 0.0019, None, "too short to tell from the default (0.0019 ms)"),
        ("host", 0.0001, 0.0051, None, "51.00 x as fast as the default"),
        ("cuda", 0.0024, 0.0029, 0.002, "too short to tell from the default (0.0029 ms)"),
        ("cuda", 0.0024, 0.006, 0.002, "2.50 x as fast as the default"),
        ("cuda", 0.0024, 0.0024, 0.002, "no gain: the default is the best"),
    ],
)
def test_no_gain_is_claimed_between_times_that_are_launch_overhead(
    kind: str, best_ms: float, default_ms: float, launch_ms: float | None, gain: str, tune: Tune, tmp_path: Path
) -> None:
    of_finals: dict[str, Any] = {"default_ms": default_ms, "default_spread": 0.01, "launch_ms": launch_ms}
    of_finals |= {"kind": kind, "time_ms": best_ms}
    kernel = "sgemm/01_host_blocked" if kind == "host" else KERNEL
    Store(kernel, tmp_path).add(record(device="Fast", **of_finals) if kind == "host" else at(64, "Fast", **of_finals))
    told = tune("best", kernel, "64", "--device", "Fast", "--results", tmp_path)
    assert gain in told.out, told.err


def test_a_gain_that_a_busy_machine_distorts_has_that_by_the_shortest_times(tune: Tune, tmp_path: Path) -> None:
    remark = "; 4 x by the shortest times, which a busy machine distorts less\n"
    of_default = {"time_ms": 1.0, "default_ms": 9.0, "default_spread": 0.8}
    for size, least_gain, is_told in ((64, 4.0, True), (128, 8.5, False)):
        Store(KERNEL, tmp_path).add(at(size, "Fast", **of_default, least_gain=least_gain))
        told = tune("best", KERNEL, str(size), "--device", "Fast", "--results", tmp_path)
        gain = "9.00 x as fast as the default (9 ms, spread 80.0%)"
        assert told.out.endswith(gain + (remark if is_told else "\n")), told.out
    asked = (KERNEL, "64", "--device", "Fast", "--results", tmp_path, "--no-measure")
    assert remark.strip() in tune("explain", *asked).out, "what shows the same gain says the same"
    Store(KERNEL, tmp_path).put([at(64, "Fast", **of_default, least_gain=0.8)])
    for verb, words in (("best", asked[:-1]), ("explain", asked)):
        assert "too noisy to tell" in tune(verb, *words).out, "by the shortest times, the default is faster"
    distorted = at(64, "Fast", **of_default, least_gain=4.0)
    assert output.gain_for_table(distorted) == "9.00 x (4 x by the shortest times)", "so does a table of several sizes"


@pytest.mark.slow
def test_trials_without_a_record_are_told_with_the_command_that_makes_one(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    assert "no record yet" not in tune("best", file).out
    assert tune(file, "--fresh", "--results", tmp_path / "elsewhere").status == 0  # here, as if the finals were cut off
    told = tune("best", file)
    assert f"2 trials have no record yet; run `tune {file} --device host:0` again to finish: it measures" in told.out
    assert "fastest of them: " in told.out
    assert "no record; the default, which was verified in the search: unroll=1\n" in told.out, told.out
    assert tune("best", file, "--json").json["waiting"]["trials"] == 2
    assert tune(file).status == 0
    assert "no record yet" not in tune("best", file).out


@pytest.mark.slow
def test_a_default_that_ties_with_the_best_is_no_gain(tune: Tune, tmp_path: Path) -> None:
    for default_ms, said in ((1.005, "a tie with"), (1.15, "too noisy to tell from")):
        Store("sgemm/01_host_blocked", tmp_path).add(record(device="Fast", default_ms=default_ms, default_ties=True))
        told = tune("best", "sgemm/01_host_blocked", "64", "--device", "Fast", "--results", tmp_path).out
        assert (told.splitlines()[-1], "x as fast" in told) == (f"{said} the default ({default_ms} ms)", False)
    file = scaled(tmp_path, "twice")
    ties = [tied["config"] for tied in tune(file, "--json").json["ties"]]
    assert tune("best", file, "--json").json["record"]["default_ties"] == ({"unroll": 1} in ties)
