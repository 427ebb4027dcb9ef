"""The device and the host judge every element by the same rule, for every type and every kind of tolerance."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuner import measure
from tuner.devices import Device
from tuner.devices.cuda import compiler
from tuner.measure.bench_kernels import BenchKernels
from tuner.measure.comparison import Bound, Tally
from tuner.measure.dtypes import ELEMENTS
from tuner.measure.poison import poisoned, scrambled
from tuner.space.model import Geometry
from tuner.space.source import Source

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
ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, 6e-8, 65504.0, 1e38, -1e308]


def answers_of(dtype: str, random: np.random.Generator) -> Array:
    """Answers of all magnitudes that the type holds: float64 for reals, with what is not finite, else its own."""
    element = np.dtype(dtype)
    if element.kind == "f":
        scale = np.log2(float(np.finfo(element).max)) * 0.9
        answers = random.standard_normal(COUNT) * np.exp2(random.uniform(-scale, scale, COUNT))
        answers[: len(ODD)] = ODD
        return np.asarray(answers)
    limits = np.iinfo(element)
    answers = random.integers(limits.min, limits.max, COUNT, dtype=element, endpoint=True)
    answers[: COUNT // 2] = random.integers(0, 100, COUNT // 2).astype(element)
    return answers


def near(answers: Array, dtype: str, bound: Bound, random: np.random.Generator) -> Array:
    """Elements at the bound, a little nearer or further off, with some that are poison or not finite."""
    element = np.dtype(dtype)
    limits = bound.limits(answers.astype(np.float64))
    sign = random.choice([-1.0, 1.0], COUNT) * random.choice([0.0, 0.5, 1 - 2**-20, 1.0, 1 + 2**-20, 2.0], COUNT)
    if element.kind == "f":
        elements = (answers + sign * limits).astype(element)
        elements[-40:-30] = [np.nan, np.inf, -np.inf, 0, -0.0] * 2
        elements[-30:] = poisoned(elements[-30:])
        return np.asarray(elements)
    offset = np.rint(np.clip(sign * limits, -(2.0**62), 2.0**62)).astype(np.int64)
    return np.asarray((answers.astype(np.uint64) + offset.astype(np.uint64)).astype(element))


@pytest.mark.parametrize("kind", ["host", "opencl"])
@pytest.mark.parametrize("terms", TERMS, ids=str)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_both_find_the_same_elements_wrong(
    dtype: str, terms: dict[str, float], kind: str, request: pytest.FixtureRequest
) -> None:
    device: Device = request.getfixturevalue(kind)
    random, secret = np.random.default_rng(len(dtype)), secrets.randbits(31)
    bound = Bound(dtype, **terms)
    with np.errstate(all="ignore"):
        answers = answers_of(dtype, random)
        elements = near(answers, dtype, bound, random)
        poison = None
        if elements.dtype.kind != "f":
            poison = scrambled(answers, secret)
            elements[-30:] = poison[-30:]
        host = Tally(bound, COUNT)
        host.add(0, elements, answers, poison)
    output, reference = device.upload(elements), device.upload(answers)
    kernels = BenchKernels(device, ["y"])
    kernels.check_output("y", dtype, output, reference, bound, None if poison is None else secret)()
    counts = kernels.counts()["y"]
    assert 30 <= host.wrong < COUNT
    assert counts.wrong == host.wrong
    assert counts.worst == np.float32(host.worst)
    assert counts.unwritten == (0 if bound.is_exact and poison is not None else 30)
    assert host.unwritten == 30


@pytest.mark.parametrize("kind", ["host", "opencl"])
@pytest.mark.parametrize("dtype", [name for name in ELEMENTS if "int" in name])
def test_an_integer_that_nobody_has_written_is_a_quarter_of_the_range_off(
    dtype: str, kind: str, request: pytest.FixtureRequest
) -> None:
    device: Device = request.getfixturevalue(kind)
    answers = answers_of(dtype, np.random.default_rng(1))
    secret, array, reference = secrets.randbits(31), device.allocate(answers.nbytes), device.upload(answers)
    kernels, found = BenchKernels(device, ["y"]), np.empty_like(answers)
    kernels.scramble(dtype, array, reference, secret)()
    device.synchronize()
    device.read(array.handle, found)
    assert np.array_equal(found, scrambled(answers, secret))
    bits = 8 * answers.dtype.itemsize
    distance = np.abs(found.astype(object) - answers.astype(object))
    assert min(distance) >= 2 ** (bits - 2)


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_the_kernels_that_compare_compile_for_nvidia(dtype: str) -> None:
    text = Path(*measure.__path__, "bench_kernels.cu").read_text()
    element, geometry = ELEMENTS[dtype], Geometry((1, 1, 1), (256, 1, 1), 0)
    kernels = {"check_reals": element.macros} if element.real else {
        "check_bits": element.macros, "scramble": element.macros, "check_whole": element.tolerant_macros
    }  # fmt: skip
    for kernel, macros in kernels.items():
        build = compiler.compile_cubin(Source(macros + text, kernel, (), geometry), "sm_90a")
        assert build.binary.startswith(b"\x7fELF")
        assert kernel.encode() in build.binary
