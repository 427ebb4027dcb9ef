"""A device that waits for no build: what is asked for is built first, and more is asked for while builds are under way.

NVRTC needs no GPU, so builds are real, and only the measurements are not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tuner.catalog import catalog
from tuner.devices import DeviceInfo
from tuner.measure.process.compile_pool import CompilePool
from tuner.measure.results import Outcome
from tuner.measure.timing.clock import StageWatch
from tuner.search.budget import Budget
from tuner.search.experience import Experience
from tuner.search.pool import Pool
from tuner.search.search import Search
from tuner.search.strategies import Hints
from tuner.space import identity
from tuner.space.config import Config
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope
from tuner.tuning.crew.queue import Queue
from tuner.tuning.ledger.ledger import Ledger
from tuner.tuning.ledger.study import StudyKey
from tuner.tuning.ledger.trial import Trial

GPU = DeviceInfo("cuda:0", "cuda", "cuda", "A GPU", "sm_90a", "NVRTC", 1 << 30, Limits(compute_capability=9.0))
SIZES, SECONDS = {"n": 100}, 60.0
CONFIGS: list[Config] = [{"v": v} for v in range(40)]
KERNEL = 'extern "C" __global__ void add(float *y, int n) { if (threadIdx.x < n) y[threadIdx.x] = v; }'
YAML = f"""
title: Add
operation:
  sizes: {{n: }}
  extent: [n]
  arguments:
    - {{name: y, dtype: float32, shape: [n], role: out}}
    - {{name: n, dtype: int32}}
  reference: none
kernel: add
parameters: {{v: {list(range(40))}}}
grid: [1]
block: [128]
"""


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Space:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "add.cu").write_text(KERNEL)
    (tmp_path / "add.yaml").write_text(YAML)
    return catalog.load(str(tmp_path / "add.yaml"))


@pytest.fixture
def pool(space: Space) -> Iterator[CompilePool]:
    """One compile worker, as on two cores."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])
    pool = CompilePool(SECONDS, [GPU.id])
    pool.switch_to(space, Scope(SIZES, {}, "cuda", GPU.limits), GPU)
    os.sched_setaffinity(0, cores)
    yield pool
    pool.close()


def built(folder: Path) -> int:
    return sum(file.read_bytes().startswith(b"\x7fELF") for file in (folder / "cache").rglob("*") if file.is_file())


@pytest.mark.slow
def test_what_is_asked_for_is_built_before_what_was_likely_before(pool: CompilePool, tmp_path: Path) -> None:
    pool.prepare(CONFIGS[0], CONFIGS[1:5])
    pool.prepare(CONFIGS[20], CONFIGS[21:23])
    pool.wait(CONFIGS[20])
    pool.wait(CONFIGS[22])
    assert pool.is_ready(CONFIGS[0])
    pool.wait(CONFIGS[0])
    assert 3 <= built(tmp_path) <= 5  # another may have begun: but not all eight


def test_more_is_under_way_than_there_are_devices_and_nothing_of_it_is_kept_when_time_is_over(
    space: Space, pool: CompilePool, tmp_path: Path
) -> None:
    pool.depth = 6
    told: list[Trial] = []
    key = StudyKey(SIZES, {}, GPU.name, identity.of(space), GPU.toolchain)
    every = Pool.of(space.parameters, CONFIGS)
    with Ledger(space, key) as ledger, Search("random", every, Budget(seconds=0.5)) as search:
        queue = Queue(search, ledger, pool, SECONDS, told.append)
        config = queue.take(1, StageWatch())
        assert config is not None
        (journal,) = (tmp_path / "state").rglob("*.log")
        assert journal.read_text().count('"params"') > 1
        trial = Trial(config, Outcome(times=(1.0,)), (1.0,), SECONDS, datetime.now())
        assert ledger.begin(config)
        queue.end(config, trial if ledger.finish(trial) else None)
        while not search.is_late():
            time.sleep(0.05)
        assert queue.take(1, StageWatch()) is None
        assert told == [trial]
        assert journal.read_text().count('"params"') == journal.read_text().count('"datetime_complete":"')


def test_while_results_decide_what_comes_next_few_are_under_way(
    space: Space, pool: CompilePool, tmp_path: Path
) -> None:
    pool.depth = 6
    key = StudyKey(SIZES, {}, GPU.name, identity.of(space), GPU.toolchain)
    known = Experience([(config, 1.0 + place) for place, config in enumerate(CONFIGS)], of_device=True)
    every = Pool.of(space.parameters, CONFIGS)
    with Ledger(space, key) as ledger, Search("optuna", every, Budget(30), 0, Hints(experiences=[known])) as search:
        queue = Queue(search, ledger, pool, SECONDS, lambda trial: None)
        assert queue.take(1, StageWatch()) == CONFIGS[0]
        (journal,) = (tmp_path / "state").rglob("*.log")
        assert journal.read_text().count('"params"') <= 2
        with queue.changed:
            queue.give_up()


@pytest.mark.slow
def test_whichever_is_built_first_is_given_and_without_builds_the_first_of_all(pool: CompilePool) -> None:
    pool.prepare(None, CONFIGS[:3])
    given = pool.first_built(CONFIGS[2::-1], SECONDS)
    assert given in CONFIGS[:3]
    assert pool.is_ready(given)
    assert pool.first_built(CONFIGS[10:12], SECONDS) == CONFIGS[10]
