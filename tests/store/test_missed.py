"""Look-ups without an exact record leave a line in a file of the user's, and disturb nobody."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tuner
from helpers.own_kernels import scaled
from helpers.processes import Tune, nobody, run
from tuner.devices import Device
from tuner.store import missed
from tuner.store.missed import Miss

WRITER = """
import sys
from types import SimpleNamespace
from tuner.store import missed
device = SimpleNamespace(name="a device", kind="host", conditions=SimpleNamespace(values={}))
for size in range(int(sys.argv[1]), int(sys.argv[2])):
    missed.note("a/kernel", {"n": size}, device, {}, {})
"""


@pytest.mark.slow
def test_a_load_without_an_exact_record_is_noted_once_per_process(tmp_path: Path, host: Device) -> None:
    file = scaled(tmp_path, "twice")
    for _ in range(3):
        tuner.load(file, 64)
    tuner.load(file, 96, device=host)
    counts = {(miss.kernel, miss.sizes["n"]): miss.count for miss in missed.read()}
    assert counts == {(str(file), 64): 1, (str(file), 96): 1}
    run(sys.executable, "-c", f"import tuner; tuner.load({str(file)!r}, 96)")
    first = missed.read()[0]
    assert (first.sizes, first.count, first.device, first.kind) == ({"n": 96}, 2, host.name, "host")


@pytest.mark.slow
def test_an_exact_load_and_a_given_configuration_are_not_noted(tmp_path: Path, tune: Tune) -> None:
    file = scaled(tmp_path, "twice")
    assert tune(file, "64").status == 0
    assert tuner.load(file, 64).match == "exact"
    assert tuner.load(file, 65, config={"unroll": 2}).match == "default"
    assert not missed.path().exists()


@pytest.mark.slow
def test_what_was_missed_is_kept_until_a_look_up_finds_it(tmp_path: Path, tune: Tune) -> None:
    file = scaled(tmp_path, "twice")
    best = tune(file, "64", "--json", "--budget", "1").json["best"]["config"]["unroll"]
    text = file.read_text()
    file.write_text(f"{text}restrictions: [{{that: unroll != {best}, because: it is forbidden now}}]\n")
    tuner.load(file, 64)
    assert "n=64" in tune("missed").out
    assert "n=64" in tune("missed").out, "it is still missed"
    file.write_text(text)
    assert "the list is empty" in tune("missed").err


def test_nothing_is_noted_where_that_is_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_MISSED", "0")
    tuner.load(scaled(tmp_path, "twice"), 64)
    assert not missed.path().exists()


def test_a_folder_that_cannot_be_written_breaks_no_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with nobody() as folder:
        folder.chmod(0o500)
        monkeypatch.setenv("TUNER_STATE", str(folder))
        tuner.load(scaled(tmp_path, "twice"), 64)
        folder.chmod(0o700)
        assert not [*folder.iterdir()]


@pytest.mark.slow
def test_many_processes_lose_no_line(tmp_path: Path) -> None:
    script = tmp_path / "writer.py"
    script.write_text(WRITER)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: run(sys.executable, script, str(20 * i), str(20 * i + 40)), range(4)))
    counts = {miss.sizes["n"]: miss.count for miss in missed.read()}
    assert counts == {size: 2 if 20 <= size < 80 else 1 for size in range(1, 100)}


@pytest.mark.slow
def test_the_file_stays_small_and_keeps_what_is_used_most(tmp_path: Path, host: Device) -> None:
    often = Miss("often/used", {"n": 1}, host.name, host.kind, {}, {}, count=7)
    missed.path().write_bytes(often.to_line() + b"no miss\n" * (missed.MOST_BYTES // 8 - 100))
    for size in range(1, 40):
        missed.note("seldom/used", {"n": size}, host, {"factor": 2.0})
    kept = missed.read()
    assert missed.path().stat().st_size < missed.MOST_BYTES
    assert kept[0] == often
    assert {miss.sizes["n"] for miss in kept[1:]} == {*range(1, 40)}
    missed.forget([often.key])
    assert [miss for miss in kept if miss != often] == missed.read()


@pytest.mark.parametrize("change", [{"sizes": {"n": 0}}, {"kernel": 3}, {"count": 1.5}, {"types": {"real": "\x1b"}}])
def test_a_line_that_is_no_miss_is_left_out(change: dict[str, Any], host: Device) -> None:
    right = Miss("a/kernel", {"n": 1}, host.name, host.kind, {}, {})
    missed.path().write_bytes(replace(right, **change).to_line() + right.to_line() + b"[" * 100_000)
    assert missed.read() == [right]
