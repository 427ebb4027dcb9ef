"""While a GPU waits for its next run, a light kernel keeps it at its working clocks."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from helpers.processes import PATIENCE_SECONDS
from tuner.devices.host.device import HostDevice
from tuner.errors import LaunchError
from tuner.measure import turns
from tuner.measure.process import warmth


class Gpu(HostDevice):
    """The host, in the place of a device that works beside it; notes how long it was kept busy."""

    asynchronous = True
    place = "0000:18:00.0"

    def __init__(self) -> None:
        super().__init__(0)
        self.busy = list[float]()
        self.fails = False

    def occupy(self, ms: float) -> None:
        if self.fails:
            raise LaunchError("an illegal address")
        self.busy.append(ms)


def after(count: int, device: Gpu) -> bool:
    return len(device.busy) >= count


def test_a_gpu_works_in_short_slices_until_the_wait_is_over_and_no_longer() -> None:
    device = Gpu()
    warmth.keep(device, lambda _: True)
    assert not device.busy, "a run that is there already is not delayed"
    warmth.keep(device, lambda _: after(3, device))
    assert device.busy == [warmth.SLICE_MS] * 3


def test_a_long_wait_is_not_one_for_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmth, "MOST_SECONDS", 0.05)
    device = Gpu()
    warmth.keep(device, lambda _: False)  # returns
    assert device.busy


def test_a_device_that_is_no_gpu_does_nothing(host: HostDevice) -> None:
    warmth.keep(host, lambda _: False)  # returns at once


def test_nothing_runs_while_another_process_measures_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_TURNS", str(tmp_path / "turns"))
    device, looks = Gpu(), list[bool]()
    is_over = threading.Event()

    def look(_: float) -> bool:
        looks.append(bool(device.busy))
        return is_over.is_set()

    with turns.taken(device.place):
        waiting = threading.Thread(target=warmth.keep, args=(device, look))
        waiting.start()
        while len(looks) < 5:
            is_over.wait(0.001)
        assert not device.busy
    while not device.busy:  # its turn is over
        is_over.wait(0.001)
    is_over.set()
    waiting.join(PATIENCE_SECONDS)
    assert not waiting.is_alive()


def test_a_device_that_fails_while_it_waits_ends_its_process_and_blames_no_configuration() -> None:
    device = Gpu()
    device.fails = True
    with pytest.raises(SystemExit):
        warmth.keep(device, lambda _: False)
