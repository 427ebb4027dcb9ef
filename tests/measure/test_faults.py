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

# Eight right configurations, of which v == 7 is by far the fastest, and one of every fault.
SPACE = "{v: [%s], fault: [0, %s]}"

MORE = """
restrictions: ["fault == 0 or v == 0"]
%s
"""

TIMEOUT = "4"

HOST_REASONS = {
    "compile": 1, "compile timeout": 1, "crash": 5, "timeout": 1, "wrong result": 1, "writes outside": 1,
    "not a number": 1, "wrong in a later run": 1, "writes to an input": 1,
}  # fmt: skip


def scratch_folders() -> list[Path]:
    return list((Path(os.environ["TUNER_CACHE"]) / "scratch").glob(f"*-{os.getpid()}-*"))


def test_no_fault_of_a_host_kernel_ends_the_run_or_wins(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    faults = ", ".join(str(i) for i in range(1, 14))
    more = MORE % ""
    file = stage(ENDLESS_MACRO + HOST, "faulty", SPACE % (", ".join(map(str, range(8))), faults), "c", more)
    survives(tune, file, "host", HOST_REASONS, tmp_path)


OPENCL_REASONS = {
    "compile": 1, "compile timeout": 1, "shared memory": 1, "timeout": 1, "wrong result": 1, "writes outside": 1,
    "not a number": 1, "crash": 1, "wrong in a later run": 1, "writes to an input": 1,
}  # fmt: skip


def test_no_fault_of_an_opencl_kernel_ends_the_run_or_wins(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    faults = ", ".join(str(i) for i in range(1, 11))  # an x86 processor minds no alignment; its stack is the host's
    more = MORE % "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]"
    space = SPACE % (", ".join(map(str, range(8))), faults)
    survives(tune, stage(ENDLESS_MACRO + GPU, "faulty", space, "opencl", more), "opencl", OPENCL_REASONS, tmp_path)


CUDA_REASONS = {
    "compile": 2, "compile timeout": 1, "timeout": 1, "wrong result": 1, "writes outside": 1, "not a number": 1,
    "illegal memory access": 1, "wrong in a later run": 1, "writes to an input": 1, "misaligned address": 1,
    "out of memory": 1,
}  # fmt: skip


@pytest.mark.gpu
def test_no_fault_of_a_cuda_kernel_ends_the_run_or_wins(tune: Tune, stage: Stage, cuda: Device, tmp_path: Path) -> None:
    faults = ", ".join(str(i) for i in range(1, 13))
    more = MORE % "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]"
    space = SPACE % (", ".join(map(str, range(8))), faults)
    taken = cuda.allocate((cuda.free_memory() or 0) - (8 << 30))  # so that a quarter of a megabyte a thread is too much
    survives(tune, stage(ENDLESS_MACRO + GPU, "faulty", space, "cuda", more), "cuda", CUDA_REASONS, tmp_path)
    del taken


def survives(tune: Tune, file: Path, device: str, reasons: dict[str, int], folder: Path) -> None:
    """Every configuration gets its end, its own reason, and leaves nothing behind."""
    done = tune(file, "24", "--device", device, "--timeout", TIMEOUT, "--json")
    assert done.status == 0, done.err
    result = done.json
    assert result["failed"] == reasons, done.err
    assert result["evaluated"] == result["configurations"] == 8 + sum(reasons.values())
    assert result["best"]["config"] == {"v": 7, "fault": 0}
    assert of_this_test() == []
    assert scratch_folders() == []
    assert all(count == 1 for count in finished(folder).values())
