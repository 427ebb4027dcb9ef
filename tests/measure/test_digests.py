"""The digest of an array's bits, which verification takes on the device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tuner.devices import Device
from tuner.devices.cuda import compiler
from tuner.measure.kernels import bench_kernels
from tuner.measure.kernels.bench_kernels import BenchKernels
from tuner.space.sources.source import Source

KINDS = ["host", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)]
HALF = np.uint64(0xFFFFFFFF)


def mixed(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xA0761D6478BD642F)
    return bits ^ (bits >> np.uint64(32))


def digest_of(data: bytes) -> int:
    """The digest as `bench_kernels.cu` says: words of eight bytes, and the bytes after the last sixteen one by one."""
    whole = len(data) // 16 * 16
    words = np.concatenate([np.frombuffer(data[:whole], np.uint64), np.frombuffer(data[whole:], np.uint8)])
    positions = np.concatenate([np.arange(whole // 8), np.arange(whole, len(data))]).astype(np.uint64) + np.uint64(1)
    hashes = mixed(words.astype(np.uint64) ^ (positions * np.uint64(0x9E3779B97F4A7C15)))
    low, high = int((hashes & HALF).sum()) & int(HALF), int((hashes >> np.uint64(32)).sum()) & int(HALF)
    return high << 32 | low


@pytest.mark.parametrize("kind", KINDS)
def test_a_digest_depends_on_every_bit_and_its_place(kind: str, request: pytest.FixtureRequest) -> None:
    device: Device = request.getfixturevalue(kind)
    random, kernels = np.random.default_rng(49), BenchKernels(device, ["x", "y"])
    for count in (1, 16, 777, 300_001):
        data = random.integers(0, 256, count, np.uint8)
        array = device.upload(data)
        take = kernels.digest("y", array)
        take()
        found = kernels.counts()
        assert (found["y"].digest, found["x"].digest) == (digest_of(data.tobytes()), 0)
        assert kernels.counts()["y"].digest == 0, "none was taken since"
        take()
        assert kernels.counts()["y"].digest == digest_of(data.tobytes()), "what was taken before does not count"
        for place in (0, count // 2, count - 1):
            changed = data.copy()
            changed[place] ^= 1
            device.write(array.handle, changed)
            take()
            assert kernels.counts()["y"].digest == digest_of(changed.tobytes()) != digest_of(data.tobytes())
        if count > 16:
            device.write(array.handle, np.roll(data, 8))
            take()
            assert kernels.counts()["y"].digest != digest_of(data.tobytes()), "the same words in other places"


@pytest.mark.slow
def test_the_digest_compiles_for_nvidia() -> None:
    text = Path(bench_kernels.__file__).with_name("bench_kernels.cu").read_text()
    build = compiler.compile_cubin(Source(text, ("digest", "check_input"), ()), "sm_90a")
    assert build.figures_of("digest").registers
