"""Builds begin early. Where a processor is the device, nothing is built while it measures; no core waits for builds."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import tuner
from tuner import devices
from tuner.catalog import catalog
from tuner.errors import RequestError
from tuner.measure.process import channel
from tuner.measure.process.compile_pool import CompilePool
from tuner.space.config import Config
from tuner.space.scope import Scope
from tuner.tuning import exploration

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's list of processes")
SECONDS = 60.0
QUICK: Config = {"v": 0}
BLOCKED: Config = {"v": 1}
YAML = """
title: Add
operation:
  sizes: {n: }
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
  reference: none
kernel: add
parameters: {v: [0, 1]}
"""
# A pipe, whose reader waits until the test opens it, too.
KERNEL = """
#if v == 1
#define PIPE "{pipe}"
#include PIPE
#endif
void add(float *y) {{ y[0] = v; }}
"""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CompilePool]:
    """Two compile workers for this machine's processor."""
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "add.c").write_text(KERNEL.format(pipe=tmp_path / "pipe"))
    (tmp_path / "add.yaml").write_text(YAML)
    space = catalog.load(str(tmp_path / "add.yaml"))
    device = devices.open_device("host:0")
    pool = CompilePool(SECONDS, ["host:0"])
    pool.switch_to(space, Scope({"n": 100}, {}, "c", device.limits), replace(device.info, on_processor=True))
    yield pool
    pool.close()
    device.close()


def states(pid: int | str = "self", names: tuple[str, ...] = ("tuner-compile", "cc1")) -> list[str]:
    """The states of the compile workers below a process, and of what they have started; or of those with other
    names."""
    found = list[str]()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            name, _, rest = Path(f"/proc/{child}/stat").read_text().rpartition(") ")
            found += [rest[0]] if any(each in name for each in names) else []
            found += states(child, names)
    return found


def test_a_build_stands_still_while_another_configuration_is_measured_and_goes_on_later(
    pool: CompilePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.prepare(BLOCKED, [QUICK])
    pool.wait(QUICK)
    assert not pool.is_ready(BLOCKED)
    deadline = time.monotonic() + SECONDS
    while set(states()) != {"T"}:  # a signal takes effect a little later
        assert time.monotonic() < deadline
    real = time.monotonic
    monkeypatch.setattr(channel, "time", SimpleNamespace(monotonic=lambda: real() + 10 * SECONDS))
    waiting = threading.Thread(target=pool.wait, args=(BLOCKED,))
    waiting.start()
    while waiting.is_alive():
        assert real() < deadline
        with contextlib.suppress(OSError):  # nobody reads
            os.close(os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK))
        waiting.join(0.05)
    assert any((tmp_path / "cache").rglob("*")), "both are built: the time in which a build stood still is not counted"


def test_builds_that_a_search_no_longer_needs_stand_still_until_somebody_waits_for_one(
    pool: CompilePool, tmp_path: Path
) -> None:
    pool.prepare(BLOCKED, [])
    deadline = time.monotonic() + SECONDS
    while not states(names=("cc1",)):  # the compiler, which waits for somebody to write to the pipe
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while set(states(names=("cc1",))) != {"T"}:  # a signal takes effect a little later
        pool.pause()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    waiting = threading.Thread(target=pool.wait, args=(BLOCKED,))
    waiting.start()
    while waiting.is_alive():
        assert time.monotonic() < deadline
        with contextlib.suppress(OSError):  # nobody reads
            os.close(os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK))
        waiting.join(0.05)
    assert any((tmp_path / "cache").rglob("*"))


def test_the_default_is_being_built_while_the_valid_configurations_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "add.c").write_text(KERNEL.format(pipe=tmp_path / "pipe"))
    (tmp_path / "add.yaml").write_text(f"{YAML}default: {{v: 1}}\n")
    deadline = time.monotonic() + SECONDS

    def listed(*_: object) -> None:
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):  # nobody reads
                os.close(os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK))
                raise RequestError("the compiler reads the default's pipe")
            time.sleep(0.01)

    monkeypatch.setattr(exploration, "listed", listed)
    with pytest.raises(RequestError, match="the default's pipe"):
        tuner.tune(str(tmp_path / "add.yaml"), 100, device="host", results=tmp_path / "results", progress=False)
