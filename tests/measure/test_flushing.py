"""`--flush` empties the caches of every kind of device, and shows that it does."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from tuner.devices import Device, caches
from tuner.devices.base import Array
from tuner.measure.flushing import Chase, Flusher

SMALL = 4 << 20  # bytes of a cache


def contents(device: Device, flusher: Flusher) -> list[Array]:
    device.synchronize()
    found = [np.empty(memory.nbytes, np.uint8) for memory in flusher.memory]
    for memory, data in zip(flusher.memory, found, strict=True):
        device.read(memory.handle, data)
    return found


@pytest.mark.parametrize("kind", ["host", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_flush_rewrites_more_than_the_caches_hold(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every word is looked at where the caches are small: on a server, a flush rewrites hundreds of megabytes."""
    device: Device = request.getfixturevalue(kind)
    assert sum(memory.nbytes for memory in Flusher(device).memory) >= 2 * (device.last_cache or 0)
    listed = caches.of
    monkeypatch.setattr(
        caches, "of", lambda processor: [replace(each, nbytes=min(each.nbytes, SMALL)) for each in listed(processor)]
    )
    monkeypatch.setattr(type(device), "last_cache", SMALL)
    flusher = Flusher(device)
    flusher()
    first = contents(device, flusher)
    flusher()
    second = contents(device, flusher)
    for before, after in zip(first, second, strict=True):
        words = (before.view(np.uint64) != after.view(np.uint64)).reshape(-1, 2)
        assert words.any(axis=1).all(), "every word of 16 bytes has changed"


def test_on_the_host_each_processor_sweeps_its_own_caches(host: Device) -> None:
    processors = sorted(os.sched_getaffinity(0))
    flusher = Flusher(host)
    for processor, memory in zip(processors, flusher.memory, strict=True):
        own = [cache.nbytes for cache in caches.of(processor) if cache.processors == {processor}]
        assert memory.nbytes >= 2 * sum(own)


@pytest.mark.parametrize(
    ("chase", "is_flushed"),
    [
        (Chase(6, 53, 60, 3.0), True),
        (Chase(6, 10, 60, 3.0), False),
        (Chase(6, 25, 60, 3.0), False),
        (Chase(6, 53, None, 3.0), True),
        (Chase(6, 10, None, 3.0), False),
        (Chase(200, 500, None, 1.4), True),
    ],
)
def test_what_a_chase_shows_is_said(chase: Chase, is_flushed: bool) -> None:
    assert chase.is_flushed is is_flushed
    assert ("--flush empties" if is_flushed else "--flush does not empty") in str(chase)
