"""What lies in a cache is loaded and run, so it is read only if nobody but its owner and root can have written it. What
lies in a store is never code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tuner
from helpers import ROOT
from helpers.forked import HOST, Forks, forks
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.records import HOST_KERNEL, NEAR, host_config, record
from helpers.short_finals import SHORT
from tuner import paths
from tuner.catalog import catalog
from tuner.devices.builds import build_cache
from tuner.errors import RequestError
from tuner.store.store import Store

SOMEBODY = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    return paths.cache()


def test_a_home_folder_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TUNER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "somewhere")
    with pytest.raises(RequestError, match="HOME is 'somewhere'; set it to an absolute path"):
        paths.cache()


@as_root
def test_a_build_that_somebody_else_has_put_there_is_not_loaded(cache: Path) -> None:
    build_cache.write("kernel", b"code")
    assert build_cache.read("kernel") == b"code"
    os.chown(cache / "builds" / "kernel", SOMEBODY, SOMEBODY)
    with pytest.raises(RequestError, match="belongs to another user, who could put code into it"):
        build_cache.read("kernel")


@as_root
def test_a_launch_form_that_somebody_else_has_put_there_is_not_believed(cache: Path) -> None:
    file = str(ROOT / "spaces/sgemm/00_host_simple.yaml")
    catalog.load(file)
    (form,) = (cache / "forms").iterdir()
    os.chown(form, SOMEBODY, SOMEBODY)
    with pytest.raises(RequestError, match=f"{form}: belongs to another user"):
        tuner.load(file, 8)


@pytest.mark.parametrize("what", ["", "builds", "builds/kernel"])
def test_what_everybody_may_write_to_is_refused_in_one_message(what: str, cache: Path) -> None:
    build_cache.write("kernel", b"code")
    path = cache / what
    path.chmod(path.stat().st_mode | 0o020)
    with pytest.raises(RequestError, match=f"{path}: other users may write to it.*chmod go-w {path}"):
        build_cache.read("kernel")
    path.chmod(path.stat().st_mode & ~0o022)
    assert build_cache.read("kernel") == b"code"


def test_a_cache_that_may_only_be_read_serves(cache: Path) -> None:
    build_cache.write("kernel", b"code")
    for folder in (cache, cache / "builds"):
        folder.chmod(0o555)
    assert build_cache.read("kernel") == b"code"


def test_a_folder_of_results_that_a_team_shares_gives_configurations_and_no_code(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    hostile = record(time_ms=1e-3, config={**host_config(8), "block_size": "8, system(0)"})
    Store(HOST_KERNEL, folder).add(hostile)
    (folder / f"{HOST_KERNEL}.jsonl").chmod(0o666)
    folder.chmod(0o777)
    assert tuner.load(HOST_KERNEL, 64, device="host", results=folder).match == "default"
    Store(HOST_KERNEL, folder).add(NEAR)
    loaded = tuner.load(HOST_KERNEL, 64, device="host", results=folder)
    assert (loaded.match != "default", loaded.config) == (True, NEAR.config)


@pytest.fixture(scope="module")
def commands() -> Iterator[Forks]:
    """Each command has a process of its own, which finds and keeps nothing but files."""
    verbs = "tuner.cli.app", "tuner.cli.verbs.tune", "tuner.cli.verbs.best"
    of_a_run = "tuner.tuning.driver", "tuner.tuning.exploration", "tuner.tuning.ledger.ledger"
    with forks(*HOST, "tuner", "tuner.launch.launcher", *verbs, *of_a_run) as started:
        yield started


WITH_MASK = f"""
{SHORT}
import os
os.umask(int(sys.argv.pop(1)))
"""
COMMAND = f"{WITH_MASK}from tuner.cli import app; app.main()"
LOAD = f"{WITH_MASK}import tuner; print(tuner.load(sys.argv[1], 8, device='host').match)"


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0o000, 0o177])  # none, and one that lets nobody enter; other tests have the usual one
def test_the_first_command_works_with_any_umask_and_so_does_the_next(
    mask: int, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: Forks
) -> None:
    for name in ("TUNER_CACHE", "TUNER_STATE", "TUNER_RESULTS", "TUNER_TURNS"):
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    file = stage(c_kernel("right", f"if (v == 1) return; {MULTIPLY}"), "right", "{v: [0, 1]}")
    for _ in range(2):
        commands.run(COMMAND, str(mask), file, "8", "--device", "host", "--repeats", "1")
        commands.run(COMMAND, str(mask), "best", file, "8", "--device", "host")
        commands.run(LOAD, str(mask), file)
    ours = (home / ".cache" / "tuner", home / ".local" / "state" / "tuner")
    folders = [path for path in home.rglob("*") if path.is_dir()]
    assert {*ours} <= {*folders}
    for folder in folders:
        is_ours = any(folder.is_relative_to(path) for path in ours)
        assert not folder.stat().st_mode & (0o022 if is_ours else 0o002), folder


@pytest.mark.parametrize("made_before", ["", "home/.cache", "home/.cache/tuner"])
def test_a_folder_that_somebody_else_has_made_writable_is_still_refused(
    made_before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUNER_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / made_before
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    with pytest.raises(RequestError, match=r"(every user|other users) may write to"):
        paths.cache()
