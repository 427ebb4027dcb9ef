"""What docs/fp32x3.md proves of sgemm3x, tried with an emulation of its numbers and of the sums of tensor cores."""

from __future__ import annotations

import re
import runpy
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
FOLDER = Path(__file__).parents[2] / "kernels" / "sgemm3x"
H200 = Limits(compute_capability=9.0, max_shared_memory=227 * 1024)
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROUND_OFF = 2.0**-24
DEPTH = 1024
HALF, BFLOAT = -14, -126  # least exponents
BOUND = (83 + DEPTH / 32) * ROUND_OFF  # of the error over |A| |B|, of halves and of bfloat16


def constant(name: str) -> float:
    text = "".join((FOLDER / file).read_text() for file in ("halves.h", "again.h"))
    found = re.search(rf"#define {name} (\S+?)f?\s", text)
    assert found is not None
    return float.fromhex(found[1]) if "x" in found[1] else float(found[1])


def is_small(numbers: Array) -> Array:
    return (numbers != 0) & (np.abs(numbers) < constant("SMALL"))


def in_doubt(sums: Array, a: Array, b: Array) -> Array:
    """Which sums of lifted numbers are done again."""
    small, others = (
        [count(each) for each in (a, b)] for count in (lambda x: is_small(x).sum(1), lambda x: (x != 0).sum(1))
    )
    met = np.minimum(small[0][:, None], others[1]) + np.minimum(small[1], others[0][:, None])
    return np.asarray(np.abs(sums) < constant("DOUBT") * met)


def route(a: Array, b: Array) -> str:
    """How a tile of lifted rows is multiplied."""
    lines = [line for each in (a, b) for line in each]
    if all(constant("RARE") * (is_small(line).sum() - 1) <= (line != 0).sum() for line in lines):
        return "halves"
    return "floats" if any(((np.abs(line) < constant("TINY")) & (line != 0)).any() for line in lines) else "bfloats"


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


def exponents(numbers: Array, least: int) -> Array:
    """Those that numbers are written with: `least` if subnormal; far below all others for 0, which nothing is aligned
    to."""
    return np.where(numbers == 0, -400, np.maximum(np.frexp(numbers)[1] - 1, least))


def cut_off(numbers: Array, largest: Array, digits: int) -> Array:
    """Without what lies below so many binary digits of the largest exponent, or of the least one of float32."""
    unit = np.exp2(np.maximum(largest, -126.0) - digits + 1)
    return np.trunc(numbers / unit) * unit


def instruction(total: Array, a: Array, b: Array, least: int) -> Array:
    """total + a b^T of 16 of the depth: all terms are aligned to the largest, by the exponents that are written."""
    terms = np.concatenate([(a[:, None, :] * b[None, :, :]), total[:, :, None]], axis=2)
    of_products = exponents(a, least)[:, None, :] + exponents(b, least)[None]
    largest = np.maximum(of_products.max(axis=2), exponents(total, -126))
    summed = cut_off(terms, largest[:, :, None], 25).sum(axis=2)
    return cut_off(summed, exponents(summed, -126), 24)


def product(
    planes_a: list[Array], planes_b: list[Array], pairs: list[tuple[int, int]], promote: int, least: int = HALF
) -> Array:
    """The sums of tensor cores; the numbers of the planes have this least exponent."""
    total = np.zeros((len(planes_a[0]), len(planes_b[0])), np.float32)
    for start in range(0, DEPTH, promote):
        part = np.zeros(total.shape)
        for i, j in pairs:
            for k in range(start, start + promote, 16):
                part = instruction(part, planes_a[i][:, k : k + 16], planes_b[j][:, k : k + 16], least)
        total = (total + part).astype(np.float32)
    return total.astype(np.float64)


def data(kind: str, random: np.random.Generator, rows: int = 12) -> Array:
    shape = (rows, DEPTH)
    if kind == "normal":
        values = random.standard_normal(shape)
    elif kind == "positive":
        values = random.random(shape, np.float32)
    elif kind == "half of them 0":
        values = np.maximum(random.standard_normal(shape), 0)
    else:
        values = (random.random(shape) - 0.5) * np.exp(float(kind) * random.standard_normal(shape))
    return values.astype(np.float32).astype(np.float64)


def depending(kind: str, random: np.random.Generator) -> tuple[Array, Array]:
    """A and B^T whose large numbers meet small ones of each other, or zeros."""
    position = np.arange(DEPTH) / DEPTH
    a, b = data("normal", random), data("normal", random)
    if kind.startswith("units over 2^"):
        units = 2.0 ** (float(kind[13:]) * (position - 0.5))
        a, b = a * units, b / units
    elif kind == "two units":
        units = np.where(position < 0.5, 1.0, 1e-12)
        a, b = (0.5 + np.abs(a)) * units, (0.5 + np.abs(b)) * units[::-1]
    elif kind == "large numbers meet zeros":
        units = np.where(position < 0.25, 1.0, np.where(position < 0.75, 2.0**-48, 0.0))
        a, b = np.abs(a) * units, np.abs(b) * units[::-1]
    elif kind == "one large number meets zeros":
        a[:, 0], b[:, 0] = 2.0**30, 0.0
    elif kind == "a few integers beside 2^38":
        a, b = random.integers(1, 8, a.shape).astype(float), np.abs(b)
        a[:, 5:] = 0
        a[:, 0], b[:, 0] = 2.0**38, 0.0
    elif kind == "an identity":
        a, b = data("4", random), np.eye(len(b), DEPTH)
    return lifted(a.astype(np.float32).astype(float)), lifted(b.astype(np.float32).astype(float))


def pair(kind: str, random: np.random.Generator) -> tuple[Array, Array]:
    return depending(kind, random) if kind in DEPENDENT else (lifted(data(kind, random)), lifted(data(kind, random)))


INDEPENDENT = {"normal": "halves", "positive": "halves", "half of them 0": "halves", "1": "halves", "4": "bfloats"}
DEPENDENT = {
    "units over 2^6": "halves",
    "units over 2^18": "bfloats",
    "units over 2^28": "bfloats",
    "two units": "bfloats",
    "large numbers meet zeros": "bfloats",
    "one large number meets zeros": "bfloats",
    "a few integers beside 2^38": "bfloats",
    "an identity": "bfloats",
}
SILENTLY_WRONG = [
    "units over 2^28",
    "two units",
    "large numbers meet zeros",
    "one large number meets zeros",
    "a few integers beside 2^38",
    "an identity",
]


@pytest.mark.parametrize("kind", INDEPENDENT | DEPENDENT)
def test_every_sum_that_is_not_done_again_is_within_the_bound_whatever_the_data(kind: str) -> None:
    a, b = pair(kind, np.random.default_rng(5))
    exact, size = a @ b.T, np.abs(a) @ np.abs(b).T
    names = SPACE.names(dict(SPACE.default), on(SPACE, {"M": 64, "N": 64, "K": DEPTH, "batch": 1}, H200))
    by_halves = product([*halves(a)], [*halves(b)], [(1, 0), (0, 1), (0, 0)], int(names["promote"]))
    is_within = np.abs(by_halves - exact) <= BOUND * size
    assert (is_within | in_doubt(by_halves, a, b)).all()
    assert is_within.all() == (kind not in SILENTLY_WRONG), "halves alone would do, or these data show nothing"

    planes = []
    for matrix in (a, b):
        first = bfloat16(matrix)
        second = bfloat16(matrix - first)
        third = bfloat16(matrix - first - second)
        np.testing.assert_array_equal(first + second + third, matrix)
        planes.append([first, second, third])
    six = [(2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)]
    by_bfloats = product(planes[0], planes[1], six, 64, BFLOAT)
    assert (np.abs(by_bfloats - exact) <= BOUND * size).all()


@pytest.mark.parametrize(("kind", "way"), (INDEPENDENT | DEPENDENT).items())
def test_data_take_the_fastest_route_for_which_few_sums_are_done_again(kind: str, way: str) -> None:
    assert route(*pair(kind, np.random.default_rng(5))) == way


@pytest.mark.parametrize("kind", ["normal", "positive", "half of them 0", "0.5", "1"])
def test_of_ordinary_data_hardly_any_sum_is_done_again(kind: str) -> None:
    random = np.random.default_rng(8)
    a, b = (lifted(data(kind, random, rows)) for rows in (128, 192))
    assert route(a, b) == "halves"
    assert in_doubt(a @ b.T, a, b).mean() < 1e-4


def test_zeros_that_pad_a_matrix_are_in_no_doubt() -> None:
    b = lifted(data("2", np.random.default_rng(4)))
    a = np.concatenate([np.zeros((3, DEPTH)), b])
    assert is_small(b).any(axis=1).all()
    assert not in_doubt(a @ b.T, a, b)[:3].any()


def test_products_that_float32_loses_are_left_to_float32() -> None:
    units = np.where(np.arange(DEPTH) < DEPTH // 2, 1.0, 2.0**-80)
    a, b = (lifted((0.5 + data("positive", np.random.default_rng(6))) * each) for each in (units, 1 / units))
    assert route(a, b) == "floats"
    assert constant("TINY") ** 2 * ROUND_OFF >= (2**21 + 64) * 2.0**-147, "what six products lose at the most"


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
    left, small = np.abs(numbers - sum(halves(numbers))), is_small(numbers)
    assert small.any()
    assert (left[small] <= 2.0**-25).all()
    assert (left[~small] <= 2.0**-22 * np.abs(numbers[~small])).all()


def test_halves_of_numbers_that_are_not_small_are_aligned_as_they_should() -> None:
    numbers = lifted(data("4", np.random.default_rng(1)))
    first, second = (each[(numbers != 0) & ~is_small(numbers)] for each in halves(numbers))
    assert (np.frexp(first)[1] - 1 > HALF).all(), "no first half is subnormal"
    assert (np.exp2(exponents(second, HALF)) <= 2.0**-10 * np.abs(first)).all(), "no second half counts as much more"


def test_numbers_whose_products_tensor_cores_align_too_high_are_summed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    script = runpy.run_path(str(BENCHMARKS / "fp32x3_subnormal.py"))
    a, b = map(lifted, script["operands"](38, 64))
    assert (sum(halves(a)) == a).all(), "halves hold them"
    bound = 83 + script["DEPTH"] / 32
    assert script["emulated"](38, script["NORMALISED"]) < 0.1 * bound
    assert script["emulated"](38, script["AS_WRITTEN"]) > bound
    assert route(a, b) == "halves"
    assert in_doubt(a @ b.T, a, b).all()


def test_matrices_that_verify_every_route_take_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    file = runpy.run_path(str(BENCHMARKS / "fp32x3_verify.py"))["space"](tmp_path)
    space = catalog.load(str(file))
    assert space.parameters == SPACE.parameters
    assert [argument.name for argument in space.operation.arguments if argument.fill is not None] == ["A", "B"]
    mixed = runpy.run_path(str(tmp_path / "rows.py"))["mixed"]
    made = mixed(np.random.default_rng(1), batch=1, M=256, N=256, K=512)
    a, b = (matrix[0].astype(float) for matrix in (made["A"], made["B"].transpose(0, 2, 1)))
    assert np.abs(a[-1]).max() < 2.0**-112, "float32"
    a, b = lifted(a[:-1]), lifted(b)
    assert route(a[:64], b) == "halves"
    assert route(a[64:192], b) == "bfloats"
    doubts = in_doubt(a @ b.T, a, b)[:64]
    assert 0 < doubts[:, :64].sum() <= constant("MOST_DOUBTS") < doubts[:, 64:128].sum()


@pytest.mark.gpu
@pytest.mark.parametrize("tile", [(128, 192, 0), (128, 128, 1)])
def test_the_largest_tiles_compile_without_spills(tile: tuple[int, int, int]) -> None:
    """Spills only cost time on a GPU: the optimizer takes 11 seconds of a processor to tell them."""
    scope = on(SPACE, {"M": 4096, "N": 4096, "K": 4096, "batch": 1}, H200)
    config = {**SPACE.default, **dict(zip(("block_m", "block_n", "in_turn"), tile, strict=True))}
    assert SPACE.valid(config, scope)
    steps = rendering.render(Instance(SPACE, config, scope))
    (source,) = {step.source for step in steps}
    assert compiler.compile_cubin(source, "sm_90a").figures["wgmma_halves"].spills == 0
