"""Whatever a kernel does costs one configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers.faulty import ENDLESS_MACRO, GPU, HOST
from helpers.kernels import Stage
from helpers.ledgers import finished
from helpers.processes import Tune, of_this_test
from tuner.devices import Device

# Right configurations, of which v == 7 is by far the fastest, and one to two of every fault.
RIGHT = 8
SPACE = f"{{v: {list(range(RIGHT))}, fault: [0, %s]}}"

MORE = """
restrictions: ["fault == 0 or v < 2", "fault not in [%s] or v == 0"]
%s
"""

SLOW_FAULTS = "2, 4"  # those that cost a whole --timeout

HOST_REASONS = {
    "compile": 2, "compile timeout": 1, "crash": 10, "timeout": 1, "wrong result": 2, "writes outside": 2,
    "not a number": 2, "wrong in a later run": 2, "writes to an input": 2,
}  # fmt: skip


def scratch_folders() -> list[Path]:
    return list((Path(os.environ["TUNER_CACHE"]) / "scratch").glob(f"*-{os.getpid()}-*"))


@pytest.mark.slow
def test_no_fault_of_a_host_kernel_ends_the_run_or_wins(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    faults = ", ".join(str(i) for i in range(1, 14))
    more = MORE % (SLOW_FAULTS, "")
    file = stage(ENDLESS_MACRO + HOST, "faulty", SPACE % faults, "c", more)
    survives(tune, file, "host", HOST_REASONS, tmp_path)


OPENCL_REASONS = {
    "compile": 2, "compile timeout": 1, "shared memory": 2, "timeout": 1, "wrong result": 2, "writes outside": 2,
    "not a number": 2, "crash": 2, "wrong in a later run": 2, "writes to an input": 2,
}  # fmt: skip


@pytest.mark.slow
def test_no_fault_of_an_opencl_kernel_ends_the_run_or_wins(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    faults = ", ".join(str(i) for i in range(1, 11))  # an x86 processor minds no alignment; its stack is the host's
    more = MORE % (SLOW_FAULTS, "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]")
    space = SPACE % faults
    file = stage(ENDLESS_MACRO + GPU, "faulty", space, "opencl", more)
    survives(tune, file, "opencl", OPENCL_REASONS, tmp_path, "4")  # PoCL compiles for seconds on a busy machine


CUDA_REASONS = {
    "compile": 4, "compile timeout": 1, "timeout": 1, "wrong result": 2, "writes outside": 2, "not a number": 2,
    "illegal memory access": 2, "wrong in a later run": 2, "writes to an input": 2, "misaligned address": 2,
    "out of memory": 2,
}  # fmt: skip


@pytest.mark.gpu
def test_no_fault_of_a_cuda_kernel_ends_the_run_or_wins(tune: Tune, stage: Stage, cuda: Device, tmp_path: Path) -> None:
    faults = ", ".join(str(i) for i in range(1, 13))
    more = MORE % (SLOW_FAULTS, "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]")
    space = SPACE % faults
    taken = cuda.allocate(
        max(0, (cuda.free_memory() or 0) - (120 << 30))
    )  # so that half a megabyte per thread is too much
    survives(tune, stage(ENDLESS_MACRO + GPU, "faulty", space, "cuda", more), "cuda", CUDA_REASONS, tmp_path, "12")
    del taken


def survives(tune: Tune, file: Path, device: str, reasons: dict[str, int], folder: Path, timeout: str = "3") -> None:
    """Every configuration gets its end, its own reason, and leaves nothing behind."""
    done = tune(file, "24", "--device", device, "--timeout", timeout, "--json")
    assert done.status == 0, done.err
    result = done.json
    assert result["failed"] == reasons, done.err
    assert result["evaluated"] == result["configurations"] == RIGHT + sum(reasons.values())
    assert result["best"]["config"] == {"v": 7, "fault": 0}
    assert of_this_test() == []
    assert scratch_folders() == []
    assert all(count == 1 for count in finished(folder).values())
