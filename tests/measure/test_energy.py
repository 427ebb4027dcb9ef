"""The energy of a run, as the board's counter tells it."""

from __future__ import annotations

import contextlib
import itertools
import time
from statistics import median

import pytest

from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.cuda.sensors import NvmlSensors
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.store import record_file
from tuner.store.store import Store

pytestmark = pytest.mark.gpu
KERNEL = "sgemm/07_tiled_1xn"
BUSY = 5  # percent


def busy_by_others(device: Device) -> int:
    """The percentage of the time for which kernels run on a GPU while this process runs none."""
    pynvml = pytest.importorskip("pynvml")
    assert isinstance(device.sensors, NvmlSensors)
    board = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{device.sensors.uuid()}".encode())
    device.synchronize()
    time.sleep(1.2)  # the driver counts over a second at most
    found = [0]
    for _ in range(5):
        time.sleep(0.2)
        with contextlib.suppress(pynvml.NVMLError):  # a part of a GPU has no such figure
            found.append(int(pynvml.nvmlDeviceGetUtilizationRates(board).gpu))
    return max(found)


def skip_if_shared(before: int, device: Device) -> None:
    """Skip the test if others used the GPU before or after what it measured."""
    if (others := max(before, busy_by_others(device))) > BUSY:
        pytest.skip(f"other processes use {others} % of this GPU, whose board has one counter of energy for all")


def test_the_energy_of_a_configuration_repeats(cuda: Device) -> None:
    """Measured over a second without regard to the ticks of the counter, energies differ by 11 to 27 %."""
    before = busy_by_others(cuda)
    space = catalog.load(KERNEL)
    bench = Bench(cuda, space, scope_of(space, cuda, "4096"), Method(objectives=("energy",)))
    energies = [bench.measure(dict(space.default)).energy_mj for _ in range(5)]
    assert None not in energies
    skip_if_shared(before, cuda)
    found = [energy or 0.0 for energy in energies]
    assert max(found) - min(found) < 0.06 * median(found)


def test_a_hopeless_configuration_is_measured_in_one_interval(cuda: Device) -> None:
    space = catalog.load(KERNEL)
    bench = Bench(cuda, space, scope_of(space, cuda, "1024"), Method(objectives=("energy",)))
    before = busy_by_others(cuda)
    whole = bench.measure(dict(space.default))
    raced = bench.measure(dict(space.default), best=(whole.energy_mj or 0.0) / 10)
    skip_if_shared(before, cuda)
    assert raced.energy_mj == pytest.approx(whole.energy_mj, rel=0.2)
    assert raced.seconds["measure"] < 0.8 * whole.seconds["measure"]


def test_the_energy_of_the_best_has_a_spread_in_the_line_and_in_the_record(tune: Tune) -> None:
    done = tune(KERNEL, "1024", "--device", "cuda", "--objective", "energy", "--budget", "3")
    assert done.status == 0, done.err
    assert " mJ (spread " in done.out
    records = (record_file.read(file, KERNEL)[0] for file in Store(KERNEL).files[:1])
    (record,) = itertools.chain.from_iterable(records)
    assert record.objective == "energy"
    assert record.energy_spread is not None
