"""No time is believed that memory does not allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.host.device import HostDevice
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.space.model import Space

SPACE = """
title: t
kernel: first
languages: [{language}]
parameters: {{all: [0, 1]}}
{more}
operation:
  sizes: {{n: }}
  extent: [n]
  bytes: 4 * n
  reference: 7 * y
  arguments:
    - {{name: y, dtype: float32, shape: [16], role: inout}}
    - {{name: x, dtype: float32, shape: [n], role: in}}
    - {{name: n, dtype: int32}}
"""
C = """
void first(float *y, const float *x, int n) {
    float sum = 0;
    if (all) for (int i = 0; i < n; i++) sum += x[i];
    for (int i = 0; i < 16; i++) y[i] = 7 * y[i] + (sum == 77.0f ? sum : 0);
}
"""
GPU = """
#include "portable.h"
KERNEL void first(GLOBAL float *y, GLOBAL const float *x, int n) {
    const int first = blockIdx.x * 256 + threadIdx.x;
    float sum = 0;
    for (int i = first; all && i < n; i += 256 * 2048) sum += x[i];
    if (first < 16) y[first] = 7 * y[first];
    if (sum == 77.0f) y[0] = 0;
}
"""


def space_in(folder: Path, language: str) -> Space:
    more = "" if language == "c" else "block: [256]\ngrid: [2048]"
    (folder / f"first.{'c' if language == 'c' else 'cu'}").write_text(C if language == "c" else GPU)
    (folder / "first.yaml").write_text(SPACE.format(language=language, more=more))
    return catalog.load(str(folder / "first.yaml"))


def refuses(space: Space, device: Device, size: str) -> None:
    method = Method(repeats=9)  # their median is that of an idle machine, too
    bench = Bench(device, space, scope_of(space, device, size), method)
    assert bench.measure({"all": 1}).failure is None
    outcome = bench.measure({"all": 0})
    assert outcome.failure == "impossible time"
    assert "ms is impossible: at least" in (outcome.rejection or "")
    assert bench.finals([{"all": 0}], 0.1).candidates[0].failure is not None


@pytest.mark.slow
def test_a_time_in_which_memory_cannot_be_read_is_refused(
    host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostDevice, "last_cache", 1 << 20)  # arrays beyond those of servers take long
    refuses(space_in(tmp_path, "c"), host, "10000000")


def test_what_the_caches_can_hold_has_no_least_time(host: Device, tmp_path: Path) -> None:
    space = space_in(tmp_path, "c")
    assert Bench(host, space, scope_of(space, host, "1000")).measure({"all": 0}).failure is None


@pytest.mark.gpu
def test_the_same_on_cuda(cuda: Device, tmp_path: Path) -> None:
    refuses(space_in(tmp_path, "cuda"), cuda, "200000000")
