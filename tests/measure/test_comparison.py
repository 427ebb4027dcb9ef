"""The device and the host judge every element by the same rule, for every type and every kind of tolerance."""

from __future__ import annotations

import ctypes
import secrets
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuner.devices import Device
from tuner.devices.cuda import compiler
from tuner.measure.answers.poison import poisoned, scrambled
from tuner.measure.bound import Bound
from tuner.measure.kernels import bench_kernels
from tuner.measure.kernels.bench_kernels import BenchKernels, macros
from tuner.measure.verify.comparison import Tally
from tuner.space.dtypes import DTYPES, DType
from tuner.space.sources.source import Source

pytestmark = pytest.mark.usefixtures("optimized")  # comparison is tested as users get it

Array = np.ndarray[Any, np.dtype[Any]]
COUNT = 20_000
TERMS: list[dict[str, float]] = [
    {},
    {"atol": 3},
    {"atol": 1e-3},
    {"rtol": 1e-2},
    {"atol": 0.1, "rtol": 0.03},
    {"ulp": 3},
    {"atol": 1e-6, "rtol": 1e-4, "ulp": 2},
]
FAST = ("--Ofast-compile=mid",)  # of NVRTC: the optimizer decides nothing where a kernel is only compiled
ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, 6e-8, 65504.0, 1e38, -1e308]


def answers_of(dtype: DType, random: np.random.Generator) -> Array:
    """Answers of all magnitudes that the type holds: float64 for reals, with what is not finite, else its own."""
    if dtype.kind == "complex":
        part = DTYPES[dtype.part]
        return np.asarray(answers_of(part, random) + 1j * answers_of(part, random)[::-1])
    if not dtype.is_exact:
        scale = np.log2(float(dtype.high)) * 0.9
        answers = random.standard_normal(COUNT) * np.exp2(random.uniform(-scale, scale, COUNT))
        answers[: len(ODD)] = ODD
        return np.asarray(answers)
    if dtype.kind == "boolean":
        return random.integers(0, 2, COUNT).astype(bool)
    answers = random.integers(dtype.low, dtype.high, COUNT, dtype=dtype.numpy, endpoint=True)
    answers[: COUNT // 2] = random.integers(0, 100, COUNT // 2).astype(dtype.numpy)
    return np.asarray(answers)


def near(answers: Array, bound: Bound, random: np.random.Generator) -> Array:
    """Elements at the bound, a little nearer or further off, with some that are poison or not finite."""
    dtype, limits = bound.dtype, bound.limits(answers)
    sign = random.choice([-1.0, 1.0], COUNT) * random.choice([0.0, 0.5, 1 - 2**-20, 1.0, 1 + 2**-20, 2.0], COUNT)
    if dtype.kind == "complex":  # its size may round otherwise on a device: no element lies at the very bound
        sign = np.where(np.abs(sign) == 1, 3.0, sign)
    if not dtype.is_exact:
        elements = (answers + sign * limits).astype(dtype.numpy)
        elements[-40:-30] = np.array([np.nan, np.inf, -np.inf, 0, -0.0] * 2).astype(dtype.numpy)
        elements[-30:] = poisoned(elements[-30:])
        return np.asarray(elements)
    if dtype.kind == "boolean":
        return np.asarray(answers ^ (random.random(COUNT) < 0.1))
    offset = np.rint(np.clip(sign * limits, -(2.0**62), 2.0**62)).astype(np.int64)
    return np.asarray((answers.astype(np.uint64) + offset.astype(np.uint64)).astype(dtype.numpy))


@pytest.mark.slow
@pytest.mark.parametrize("terms", TERMS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda dtype: dtype.name)
def test_both_find_the_same_elements_wrong(dtype: DType, terms: dict[str, float], host: Device, opencl: Device) -> None:
    random, secret = np.random.default_rng(len(dtype.name)), secrets.randbits(31)
    bound = Bound(dtype, **terms)
    with np.errstate(all="ignore"):
        answers = answers_of(dtype, random)
        elements = near(answers, bound, random)
        poison = None
        if dtype.is_exact:
            poison = scrambled(answers, secret)
            elements[-30:] = poison[-30:]
        tally = Tally(bound, COUNT)
        tally.add(0, elements, answers, poison)
    assert 30 <= tally.wrong < COUNT + (not terms)
    assert tally.unwritten >= 30
    for device in (host, opencl):
        output, reference = device.upload(elements), device.upload(answers)
        kernels = BenchKernels(device, ["y"])
        kernels.check_output("y", dtype, output, reference, bound, None if poison is None else secret)()
        counts = kernels.counts()["y"]
        assert counts.wrong == tally.wrong, device.id
        assert counts.worst == pytest.approx(tally.worst, rel=1e-6 if dtype.kind == "complex" else 1e-7), device.id
        assert counts.unwritten == (0 if bound.is_exact and dtype.is_exact else tally.unwritten), device.id


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["host", "opencl"])
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES.values() if dtype.is_exact], ids=lambda dtype: dtype.name)
def test_an_integer_that_nobody_has_written_is_a_quarter_of_the_range_off(
    dtype: DType, kind: str, request: pytest.FixtureRequest
) -> None:
    device: Device = request.getfixturevalue(kind)
    answers = answers_of(dtype, np.random.default_rng(1))
    secret, array, reference = secrets.randbits(31), device.allocate(answers.nbytes), device.upload(answers)
    kernels, found = BenchKernels(device, ["y"]), np.empty_like(answers)
    kernels.scramble(dtype, array, reference, secret)()
    device.synchronize()
    device.read(array.handle, found)
    assert found.tobytes() == scrambled(answers, secret).tobytes()
    holds = np.uint8 if dtype.kind == "boolean" else dtype.numpy
    distance = np.abs(found.view(holds).astype(object) - answers.view(holds).astype(object))
    assert min(distance) >= 2 ** (8 * dtype.itemsize - 2)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda dtype: dtype.name)
def test_the_kernels_that_compare_compile_for_nvidia(dtype: DType) -> None:
    text = Path(bench_kernels.__file__).with_name("bench_kernels.cu").read_text()
    plain, tolerant = macros(dtype), macros(dtype, is_tolerant=True)
    kernels: dict[str, tuple[str, ...]] = {plain: ("check_reals",)}
    if dtype.is_exact:
        kernels = {plain: ("check_bits", "scramble"), tolerant: ("check_whole",)}
    for defines, names in kernels.items():
        build = compiler.compile_cubin(Source(defines + text, names, FAST), "sm_90a")
        assert build.binary.startswith(b"\x7fELF")
        for kernel in names:
            assert kernel.encode() in build.binary
            assert build.figures_of(kernel).registers


@pytest.mark.parametrize("kind", ["host", "opencl"])
def test_beside_an_infinite_part_the_other_is_compared_too(kind: str, request: pytest.FixtureRequest) -> None:
    device: Device = request.getfixturevalue(kind)
    dtype, answers = DTYPES["complex64"], np.array([complex(np.inf, 5)] * 3)
    bound, elements = Bound(dtype, rtol=1e-2), np.array([complex(np.inf, 5), complex(np.inf, 999), 0], np.complex64)
    host = Tally(bound, 3)
    with np.errstate(invalid="ignore"):
        host.add(0, elements, answers)
    output, reference, kernels = device.upload(elements), device.upload(answers), BenchKernels(device, ["y"])
    kernels.check_output("y", dtype, output, reference, bound, None)()
    assert (host.wrong, kernels.counts()["y"].wrong) == (2, 2)


@pytest.mark.parametrize("kind", ["host", "opencl"])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_blocks_of_neighbours_are_compared_as_single_elements_are(
    kind: str, name: str, request: pytest.FixtureRequest
) -> None:
    device: Device = request.getfixturevalue(kind)
    dtype, random = DTYPES[name], np.random.default_rng(49)
    answers = random.standard_normal(1100) * 2.0 ** random.integers(-40, 40, 1100)
    answers[:3] = 0.0, np.inf, 1e-42
    right = answers * (1 + random.uniform(-3e-7, 3e-7, 1100))
    wrong = right.copy()
    wrong[[5, 300, 301, 1099]] *= 2
    wrong[[600, 1000]] = np.nan
    for values in (right, wrong):
        elements = values.astype(dtype.numpy)
        for bound in (Bound(dtype, rtol=1e-6), Bound(dtype, atol=1e-3), Bound(dtype, ulp=8.0, rtol=1e-9)):
            host, kernels = Tally(bound, 1100), BenchKernels(device, ["y"])
            with np.errstate(invalid="ignore"):
                host.add(0, elements, answers)
            output, reference = device.upload(elements), device.upload(answers)
            kernels.check_output("y", dtype, output, reference, bound, None)()
            counts = kernels.counts()["y"]
            assert (counts.wrong, counts.unwritten) == (host.wrong, host.unwritten)
            assert counts.worst == pytest.approx(host.worst, rel=1e-6)


ADDEND = "unsigned int addend_of(long count, long threads) { return addend(count, threads); }\n"


def test_no_number_of_wrong_elements_turns_a_counter_around(tmp_path: Path) -> None:
    text = "#define STORED int\n" + Path(bench_kernels.__file__).with_name("bench_kernels.cu").read_text() + ADDEND
    options = ["cc", "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", "f.so", "-lm"]
    subprocess.run(options, cwd=tmp_path, input=text, text=True, check=True)
    of = ctypes.CDLL(str(tmp_path / "f.so")).addend_of
    of.argtypes, of.restype = [ctypes.c_long, ctypes.c_long], ctypes.c_uint
    for threads in (1, 256, 2048 * 256):
        for wrong in (0, 1, 8000, 2**32 // threads, 2**32, 2**40):
            assert (of(wrong, threads) > 0) == (wrong > 0)
            assert of(wrong, threads) in (wrong, (2**32 - 1) // threads)
