"""What docs/fp32x3.md proves of sgemm3x, tried with an emulation of its numbers and of the sums of tensor cores."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.spaces import on
from tuner.catalog import catalog
from tuner.devices.cuda import compiler
from tuner.space.instance import Instance
from tuner.space.scope import Limits
from tuner.space.sources import rendering

Array = np.ndarray[Any, Any]
SPACE = catalog.load("sgemm3x/wgmma_halves")
HEADER = Path(__file__).parents[2] / "kernels" / "sgemm3x" / "halves.h"
H200 = Limits(compute_capability=9.0, max_shared_memory=227 * 1024)
ROUND_OFF = 2.0**-24
DEPTH = 1024


def constant(name: str) -> float:
    found = re.search(rf"#define {name} (\S+?)f?\s", HEADER.read_text())
    assert found is not None
    return float.fromhex(found[1]) if "x" in found[1] else float(found[1])


def lifted(numbers: Array) -> Array:
    largest = np.abs(numbers).max(axis=1, keepdims=True)
    return np.ldexp(numbers, 14 - np.floor(np.log2(largest)).astype(int))


def halves(numbers: Array) -> tuple[Array, Array]:
    first = numbers.astype(np.float32).astype(np.float16).astype(np.float64)
    return first, (numbers - first).astype(np.float32).astype(np.float16).astype(np.float64)


def bfloat16(numbers: Array) -> Array:
    bits = numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


def cut_off(numbers: Array, largest: Array, digits: int) -> Array:
    """Without what lies below so many binary digits of the largest, or of the least exponent of float32."""
    unit = np.exp2(np.floor(np.log2(np.maximum(largest, 2.0**-126))) - digits + 1)
    return np.trunc(numbers / unit) * unit


def instruction(total: Array, a: Array, b: Array) -> Array:
    """total + a b^T of 16 of the depth: all terms are aligned to the largest."""
    terms = np.concatenate([(a[:, None, :] * b[None, :, :]), total[:, :, None]], axis=2)
    summed = cut_off(terms, np.abs(terms).max(axis=2, keepdims=True), 25).sum(axis=2)
    return cut_off(summed, np.abs(summed), 24)


def product(planes_a: list[Array], planes_b: list[Array], pairs: list[tuple[int, int]], promote: int) -> Array:
    total = np.zeros((len(planes_a[0]), len(planes_b[0])), np.float32)
    for start in range(0, DEPTH, promote):
        part = np.zeros(total.shape)
        for i, j in pairs:
            for k in range(start, start + promote, 16):
                part = instruction(part, planes_a[i][:, k : k + 16], planes_b[j][:, k : k + 16])
        total = (total + part).astype(np.float32)
    return total.astype(np.float64)


def data(kind: str, random: np.random.Generator) -> Array:
    shape = (12, DEPTH)
    if kind == "normal":
        values = random.standard_normal(shape)
    elif kind == "positive":
        values = random.random(shape, np.float32)
    else:
        values = (random.random(shape) - 0.5) * np.exp(float(kind) * random.standard_normal(shape))
    return values.astype(np.float32).astype(np.float64)


def depending(kind: str, random: np.random.Generator) -> tuple[Array, Array]:
    """A and B^T whose large numbers meet small ones of each other, or zeros."""
    position = np.arange(DEPTH) / DEPTH
    if kind == "units":
        units = 2.0 ** (28 * position - 14)
    elif kind == "two units":
        units = np.where(position < 0.5, 1.0, 2.0**-40)
    else:
        units = np.where(position < 0.25, 1.0, np.where(position < 0.75, 2.0**-100, 0.0))
    a, b = data("positive", random), data("positive", random)
    other = units[::-1] if kind == "large numbers meet zeros" else 1 / units
    return lifted((a * units).astype(np.float32).astype(float)), lifted((b * other).astype(np.float32).astype(float))


INDEPENDENT = ["normal", "positive", "1", "2", "4"]
DEPENDENT = ["units", "two units", "large numbers meet zeros"]


@pytest.mark.parametrize("kind", INDEPENDENT + DEPENDENT)
def test_sums_that_are_cut_off_stay_within_the_bounds(kind: str) -> None:
    random = np.random.default_rng(5)
    a, b = depending(kind, random) if kind in DEPENDENT else (lifted(data(kind, random)), lifted(data(kind, random)))
    exact, size = a @ b.T, np.abs(a) @ np.abs(b).T
    names = SPACE.names(dict(SPACE.default), on(SPACE, {"M": 64, "N": 64, "K": DEPTH, "batch": 1}, H200))
    small = constant("SMALL")
    least = 2.0**-25 * ((np.abs(a) < small) @ np.abs(b).T + np.abs(a) @ (np.abs(b) < small).T)
    by_halves = product([*halves(a)], [*halves(b)], [(1, 0), (0, 1), (0, 0)], int(names["promote"]))
    assert (np.abs(by_halves - exact) <= (51 + DEPTH / 32) * ROUND_OFF * size + least).all()

    planes = []
    for matrix in (a, b):
        first = bfloat16(matrix)
        second = bfloat16(matrix - first)
        third = bfloat16(matrix - first - second)
        np.testing.assert_array_equal(first + second + third, matrix)
        planes.append([first, second, third])
    six = [(2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)]
    by_bfloats = product(planes[0], planes[1], six, 64)
    largest = np.outer(np.abs(a).max(axis=1), np.abs(b).max(axis=1))
    underflow = (DEPTH + 64) * 2.0**-175 * largest
    assert (np.abs(by_bfloats - exact) <= (80 + DEPTH / 32) * ROUND_OFF * size + underflow).all()


def test_what_six_products_leave_out_is_within_the_round_off() -> None:
    numbers = lifted(np.random.default_rng(3).random((1, 200000), np.float32).astype(float))[0]
    first = bfloat16(numbers)
    second = bfloat16(numbers - first)
    third = numbers - first - second
    left = [np.abs(second / numbers).max(), np.abs(third / numbers).max()]
    assert 0.9 * ROUND_OFF < 2 * left[0] * left[1] <= ROUND_OFF


def test_small_integers_are_multiplied_without_error() -> None:
    numbers = np.random.default_rng(2).integers(-128, 128, (2, 12, DEPTH)).astype(float)
    a, b = (lifted(each) for each in numbers)
    result = product([*halves(a)], [*halves(b)], [(1, 0), (0, 1), (0, 0)], 32)
    np.testing.assert_array_equal(result, a @ b.T)


@pytest.mark.parametrize("scale", [1.0, 2.0**-30, 1e30])
def test_two_halves_leave_out_as_little_as_is_said(scale: float) -> None:
    numbers = lifted(data("4", np.random.default_rng(1)) * scale)
    left = np.abs(numbers - sum(halves(numbers)))
    assert (left <= np.maximum(2.0**-22 * np.abs(numbers), 2.0**-25)).all()
    assert (
        left[np.abs(numbers) >= constant("SMALL")] <= 2.0**-22 * np.abs(numbers)[np.abs(numbers) >= constant("SMALL")]
    ).all()


@pytest.mark.slow
@pytest.mark.parametrize("tile", [(128, 192, 0), (128, 128, 1)])
def test_the_largest_tiles_compile_without_spills(tile: tuple[int, int, int]) -> None:
    scope = on(SPACE, {"M": 4096, "N": 4096, "K": 4096, "batch": 1}, H200)
    config = {**SPACE.default, **dict(zip(("block_m", "block_n", "in_turn"), tile, strict=True))}
    assert SPACE.valid(config, scope)
    steps = rendering.render(Instance(SPACE, config, scope))
    (source,) = {step.source for step in steps}
    assert compiler.compile_cubin(source, "sm_90a").figures["wgmma_halves"].spills == 0
