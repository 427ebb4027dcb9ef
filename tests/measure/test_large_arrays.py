"""Large arrays are drawn, answered and compared where they lie, and hold what the host would have put there."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.kernels import broken, outcome_of
from helpers.operations import array, written
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.base import RoutineCall
from tuner.devices.cuda import compiler
from tuner.devices.host.device import HostDevice
from tuner.errors import DeviceError, SpaceError
from tuner.measure.answers import device_answers, placing, referee, reference_launch
from tuner.measure.answers.placing import Placed, Placer
from tuner.measure.benchmark import Bench
from tuner.measure.kernels import bench_kernels
from tuner.measure.kernels.bench_kernels import BenchKernels
from tuner.measure.method import Method
from tuner.measure.verify import layout
from tuner.measure.workbench import Workbench
from tuner.space import operation
from tuner.space.answers import reference
from tuner.space.dtypes import DTYPES, DType
from tuner.space.model import Space
from tuner.space.sources.source import Source
from tuner.space.values import drawing, filling
from tuner.space.values.drawing import Draw, Drawn
from tuner.space.values.elements import Elements, Held
from tuner.space.values.rounded import Rounded

pytestmark = pytest.mark.usefixtures("optimized")  # arithmetic on a device is tested as users get it

KINDS = ["host", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)]
COUNT = 20_011
DRAWS = {
    "standard": Draw("standard"),
    "a choice": Draw("table", (1, 0, 1)),
    "a sequence": Draw("sequence"),
    "a few integers": Draw("integers", (0, 2)),
    "all integers": Draw("integers", (-(2**63), 2**64)),
    "uniform": Draw("uniform", (-3, 7.3)),
    "normal": Draw("normal", (0.1, 0.7)),
    "tiny": Draw("normal", (0, 2e-4)),  # most of them are subnormal in the narrow types
}
MAP = """
#include "portable.h"
KERNEL void f(GLOBAL float *y, GLOBAL const float *x, int n) {
    for (long i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * 1024) {
        y[i] = wrong && i == n / 2 ? 2 * x[i] : 3 * x[i];
    }
}
"""
HEAD = '#include "portable.h"\n#ifndef wrong\n#define wrong 0\n#endif\n'
NAIVE = """
KERNEL void naive(GLOBAL float *y, GLOBAL int *sign, GLOBAL const float *x, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n && i != LEFT_OUT) { y[i] = 3 * x[i]; sign[i] = x[i] < 0 ? -1 : 1; }
}
"""
FAST = "--Ofast-compile=mid"  # of NVRTC: what compiles, compiles with less of the optimizer, too
LARGE = 4_200_000  # elements of 4 bytes, just enough to be drawn on the device


def can_be(draw: Draw, dtype: DType) -> bool:
    return not (dtype.is_exact and draw.kind in ("uniform", "normal"))


def drawn_by(device: Device, drawn: Drawn) -> tuple[bool, bytes]:
    """Whether the device draws the elements itself, and what then lies there."""
    memory, found = device.allocate(drawn.nbytes, guard=0), np.zeros(drawn.shape, drawn.dtype)
    device.write(memory.handle, found)
    is_drawn = Placer(device).draw(drawn, memory)
    device.read(memory.handle, found)
    return is_drawn, found.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DTYPES)
def test_device_and_host_draw_the_same_elements(name: str, kind: str, request: pytest.FixtureRequest) -> None:
    device: Device = request.getfixturevalue(kind)
    dtype = DTYPES[name]
    for what, draw in DRAWS.items():
        if not can_be(draw, dtype):
            continue
        drawn = Drawn(draw, dtype, (COUNT,), drawing.key(3, 1))
        is_drawn, found = drawn_by(device, drawn)
        rounds = not dtype.is_exact and drawn.part_dtype.name not in ("float32", "float64")
        assert is_drawn == (not rounds or what not in ("a sequence", "a few integers", "all integers")), what
        assert not is_drawn or found == drawn.array().tobytes(), what


@pytest.mark.parametrize("name", DTYPES)
def test_any_element_can_be_had_alone(name: str) -> None:
    for draw in DRAWS.values():
        if not can_be(draw, DTYPES[name]):
            continue
        drawn = Drawn(draw, DTYPES[name], (40_000,), drawing.key(0, 0))
        whole = drawn.array()
        assert drawn.part(31_000, 35_000).tobytes() == whole[31_000:35_000].tobytes()
        assert drawn.at(np.array([39_999, 0, 7])).tobytes() == whole[[39_999, 0, 7]].tobytes()


def test_another_seed_or_another_array_holds_other_elements() -> None:
    words = {
        drawing.words(drawing.key(seed, position), np.arange(4, dtype=np.uint64)).tobytes()
        for seed in range(30)
        for position in range(30)
    }
    assert len(words) == 900


def test_words_are_those_of_the_published_generator() -> None:
    """The first words of SplitMix64 from the state 1234567, as its authors' program prints them."""
    words = drawing.words(1234567, np.arange(3, dtype=np.uint64))
    assert words.tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_drawn_numbers_have_the_distribution_that_they_are_named_for() -> None:
    def of(draw: Draw, dtype: str = "float64") -> np.ndarray[Any, Any]:
        return Drawn(draw, DTYPES[dtype], (1 << 18,), drawing.key(5, 0)).array()

    standard = of(DRAWS["standard"], "float32")
    assert (np.abs(standard).min(), np.abs(standard).max()) == (
        pytest.approx(0.5, abs=1e-4),
        pytest.approx(1.5, abs=1e-4),
    )
    assert np.abs(standard).min() >= 0.5
    assert abs(standard.mean()) < 0.01
    assert len(np.unique(standard)) > 0.98 * standard.size
    uniform = of(Draw("uniform", (2, 1)))
    assert uniform.min() >= 2
    assert uniform.max() <= 3
    assert uniform.mean() == pytest.approx(2.5, abs=0.005)
    normal = of(Draw("normal", (7, 2)))
    assert (normal.mean(), normal.std()) == (pytest.approx(7, abs=0.02), pytest.approx(2, abs=0.02))
    assert np.mean(np.abs(normal - 7) < 2) == pytest.approx(0.6827, abs=0.01)
    integers = of(Draw("integers", (-2, 5)), "int8")
    assert np.bincount(integers + 2).min() == pytest.approx(integers.size / 5, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", DTYPES)
def test_what_draws_and_answers_compiles_for_nvidia(name: str) -> None:
    dtype = DTYPES[name]
    if dtype.part:
        return  # its part is another row
    text = "".join(
        Path(bench_kernels.__file__).with_name(file).read_text() for file in ("bench_kernels.cu", "elements.cu")
    )
    kinds = placing.drawable(dtype)
    assert len(kinds) == (6 if name in ("float32", "float64") else 4)
    source = Source(placing.drawing_macros(dtype, kinds) + text, tuple(f"draw_{kind}" for kind in kinds), (FAST,))
    assert compiler.compile_cubin(source, "sm_90a").binary.startswith(b"\x7fELF")


@pytest.mark.slow
def test_what_evaluates_multiplies_and_reduces_compiles_for_nvidia() -> None:
    text = "".join(
        Path(bench_kernels.__file__).with_name(file).read_text() for file in ("bench_kernels.cu", "elements.cu")
    )
    reals = [DTYPES[name] for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64")]
    values = [f"(double){dtype.name}_value(a{number}[i])" for number, dtype in enumerate(reals)]
    total = "s0"
    for value in values:
        total = f"PLUS({total}, TIMES(s1, rounded_to({value}, 10)))"
    sums = placing.formula_macros("a0[o * 3 + k] * s0", reals[:1], 1)
    kernels = {
        "evaluate": placing.formula_macros(total, reals, 2),
        "cumulate": "#define RUNNING\n" + placing.formula_macros(total, reals, 2),
        "multiply": placing.PRODUCT,
        "largest": placing.REDUCED,
        "checksum": placing.SUMMED,
    }
    folds = [("fold", f"#define {kind}\n{sums}") for kind in ("SUM", "MAX", "MIN")]
    for kernel, macros in [*kernels.items(), *folds]:
        build = compiler.compile_cubin(Source(macros + text, (kernel,), ()), "sm_90a")
        assert kernel.encode() in build.binary


EXPRESSIONS = ["x + y", "-x * 2 + a * y", "x / y - 3 * (x - y)", "x * y if a > 2 else x", "x if a > 2 else 2**-2 * y"]


def problem(
    folder: Path, device: Device, size: str, expression: str, **more: Any
) -> tuple[Space, Any, dict[str, Elements]]:
    """A space whose z is `expression` of arrays, its scope, and the arrays' contents."""
    arguments = more.get("arguments", [array(name, "float32", ["n"]) for name in "xy"])
    outputs = [array("z", more.get("dtype", "float32"), more.get("shape", ["n"]), "out")]
    keys: dict[str, Any] = {"options": {"a": 1.7}, "parameters": {"wrong": [0]}, "grid": [1024], "block": [256]}
    space = catalog.load(str(written(folder, MAP, [*outputs, *arguments], expression, "opencl", **keys)))
    scope = scope_of(space, device, size)
    return space, scope, operation.inputs(space.operation, scope)


def both(space: Space, scope: Any, contents: Mapping[str, Elements], device: Device) -> tuple[Any, Any]:
    """The answer for z on the device, and on the host, each with the arrays that it depends on."""
    form: Any = space.operation.reference
    on_device = device_answers.answers(form, scope, contents, Placer(device))
    assert on_device is not None
    assert isinstance(on_device[0]["z"], Placed)
    answers, read = reference.answers(form, scope, contents)
    return (on_device[0]["z"].array(), on_device[1]), (answers["z"], read)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_device_gives_the_answers_of_the_host_to_the_last_bit(
    expression: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_answers, "ON_DEVICE_BYTES", 1)
    device: Device = request.getfixturevalue(kind)
    space, scope, contents = problem(tmp_path, device, "1234", expression)
    found, right = both(space, scope, contents, device)
    assert np.array_equal(found[0], right[0])
    assert found[1] == right[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_device_rounds_inputs_as_the_host_does(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_answers, "ON_DEVICE_BYTES", 1)
    device: Device = request.getfixturevalue(kind)
    space, scope, contents = problem(tmp_path, device, "1234", "x + 3 * y")
    for digits in (10, 7):
        coarse = {**contents, **{name: Rounded(contents[name], digits) for name in "xy"}}
        found, right = both(space, scope, coarse, device)
        assert np.array_equal(found[0], right[0])
        assert not np.array_equal(found[0], both(space, scope, contents, device)[0][0])
    monkeypatch.setattr(device, "on_processor", False)  # where the library on the host is faster
    arguments = [array(name, "float32", ["n", "n"]) for name in "xy"]
    space, scope, contents = problem(tmp_path, device, "50", "x @ y", shape=["n", "n"], arguments=arguments)
    coarse = {**contents, "x": Rounded(contents["x"], 10)}
    found, right = both(space, scope, coarse, device)
    assert np.allclose(found[0], right[0], 1e-12, 1e-12)
    assert not np.allclose(found[0], both(space, scope, contents, device)[0][0], 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    "expression", ["x @ y", "a * (x @ y) + 2 * c", "c - x @ y / a + (x @ y)", "x @ y + x @ transpose(t, (0, 2, 1))"]
)
def test_a_product_on_the_device_is_that_of_the_host_within_rounding(
    expression: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_answers, "ON_DEVICE_BYTES", 1)
    device: Device = request.getfixturevalue(kind)
    monkeypatch.setattr(device, "on_processor", False)  # where the library on the host is faster
    arguments = [
        array("x", "float16", [3, "n", "n + 40"], fill={"uniform": [-1, 1]}),
        array("y", "float32", [3, "n + 40", "n - 20"], fill={"normal": [0, 1]}),
        array("t", "float32", [3, "n - 20", "n + 40"]),
        array("c", "float64", [3, "n", "n - 20"]),
    ]
    space, scope, contents = problem(tmp_path, device, "90", expression, arguments=arguments, shape=[3, "n", "n - 20"])
    found, right = both(space, scope, contents, device)
    assert np.abs(found[0] - right[0]).max() <= 130 * 2.0**-48
    assert found[1] == right[1]


ROWS = "exp(x - max(x, axis=1, keepdims=True)) / sum(exp(x - max(x, axis=1, keepdims=True)), axis=1, keepdims=True)"
NEIGHBOURS = "pad(x, 1)[:-2, 1:-1] + pad(x, ((1, 1), (0, 0)), value=a)[2:] - x[::-1, ::-1] * sqrt(abs(x))"
FOLDED = {
    "softmax": (ROWS, ["n", "n + 7"]),
    "normal rows": ("(x - mean(x, axis=-1, keepdims=1)) / sqrt(var(x, axis=1, keepdims=1) + a) + v", ["n", "n + 7"]),
    "columns": ("x - mean(x, axis=0) + std(x, axis=0, keepdims=True)", ["n", "n + 7"]),
    "transposed": ("transpose(clip(x, -a / 2, 1) ** 3)", ["n + 7", "n"]),
    "neighbours": (NEIGHBOURS, ["n", "n + 7"]),
    "a filter": ("correlate(x, f, mode='valid')", ["n - 2", "n + 3"]),
    "a filter of two steps": (
        "convolve(correlate(x, expand_dims(g, axis=0), mode='valid'), expand_dims(g, axis=1), mode='valid')",
        ["n - 4", "n + 3"],
    ),
    "of all": ("max(x) - min(x) + sum(x * x) + mean(x, axis=None)", [1]),
    "running sums": ("cumsum(v * v + a)", ["n + 7"]),
    "larger and smaller": ("max(x, v, 0.25) + min(x, -0.25) + tanh(erf(x))", ["n", "n + 7"]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_device_computes_what_numpy_computes_from_rows_neighbours_and_filters(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_answers, "ON_DEVICE_BYTES", 1)
    device: Device = request.getfixturevalue(kind)
    arguments = [
        array("x", "float32", ["n", "n + 7"]),
        array("v", "float64", ["n + 7"]),
        array("f", "float32", [3, 5]),
        array("g", "float16", [5]),
    ]
    for number, (expression, shape) in enumerate(FOLDED.values()):
        (folder := tmp_path / str(number)).mkdir()
        space, scope, contents = problem(folder, device, "200", expression, arguments=arguments, shape=shape)
        found, right = both(space, scope, contents, device)
        assert np.abs(found[0] - right[0]).max() <= 1e-13 * np.abs(right[0]).max(), expression
        assert found[1] == right[1], expression


WHOLE = {
    "gray": ("(77 * p[:, :, 0] + 150 * p[:, :, 1] + 29 * p[:, :, 2] + 128) // 256", ["n", "n"], "uint8"),
    "counts": ("c + bincount(p, minlength=256)", [256], "int32"),
    "negative": ("-(s // 3) - abs(s) * 2 + max(s, -1)", ["n"], "int16"),
    "running": ("cumsum(s)", ["n"], "int32"),
    "sums": ("sum(p[:, :, 1], axis=0) - min(p[:, :, 2], axis=1)", ["n"], "uint32"),
    "product": ("w @ transpose(w)", ["n", "n"], "int64"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_device_computes_integers_exactly(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_answers, "ON_DEVICE_BYTES", 1)
    device: Device = request.getfixturevalue(kind)
    monkeypatch.setattr(device, "on_processor", False)  # where the library on the host is faster
    arguments = [
        array("p", "uint8", ["n", "n", 3], fill={"integers": [0, 255]}),
        array("c", "int32", [256], fill="zeros"),
        array("s", "int8", ["n"], fill={"integers": [-128, 127]}),
        array("w", "int32", ["n", "n"], fill={"integers": [-1000, 70000]}),
    ]
    for name, (expression, shape, dtype) in WHOLE.items():
        (folder := tmp_path / name).mkdir()
        space, scope, contents = problem(
            folder, device, "211", expression, arguments=arguments, shape=shape, dtype=dtype
        )
        found, right = both(space, scope, contents, device)
        assert found[0].dtype == right[0].dtype == np.int64
        assert np.array_equal(found[0], right[0]), name
        assert found[1] == right[1]
    for expression in (
        "s * 2 - 1",
        "w[0] * 3 + s / 2",
        "w[0] ** 2",
        "w[0] * 1.5 // 1",
    ):  # out of range, or real numbers
        (folder := tmp_path / str(hash(expression))).mkdir()
        space, scope, contents = problem(folder, device, "211", expression, arguments=arguments, dtype="int8")
        form: Any = space.operation.reference
        assert device_answers.answers(form, scope, contents, Placer(device)) is None, expression


def test_not_a_number_and_infinity_are_those_of_numpy(
    tmp_path: Path, opencl: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_answers, "ON_DEVICE_BYTES", 1)
    arguments = [array("x", "float32", ["n", "n"])]
    values = np.random.default_rng(0).standard_normal((600, 600)).astype(np.float32)
    values[1, 5], values[2, 7], values[3, 590], values[4, 4], values[4, 5] = np.nan, np.inf, -np.inf, np.inf, -np.inf
    for number, name in enumerate(("sum", "max", "min", "mean")):
        (folder := tmp_path / str(number)).mkdir()
        expression = f"{name}(x, axis=1) + max(x[:, 0], x[:, 5])"
        space, scope, _ = problem(folder, opencl, "600", expression, arguments=arguments, shape=["n"])
        contents = {"z": Held(np.zeros(600, np.float32)), "x": Held(values)}
        found, right = both(space, scope, contents, opencl)
        assert np.allclose(found[0], right[0], 1e-13, 1e-13, equal_nan=True), name


@pytest.mark.gpu
def test_doubles_are_multiplied_by_the_vendors_library_as_on_the_host(cuda: Device) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((700, 300)), rng.standard_normal((300, 500))
    buffers = {"A": cuda.upload(a), "B": cuda.upload(b), "C": cuda.allocate(8 * 700 * 500)}
    arguments = {**{name: buffer.handle for name, buffer in buffers.items()}, "alpha": 1.0, "beta": 0.0}
    sizes = {"M": 700, "N": 500, "K": 300, "batch": 1}
    call = cuda.library(RoutineCall("gemm", {**arguments, **sizes}, dict.fromkeys("ABC", "float64")))
    found = np.empty((700, 500))
    assert call is not None
    call()
    cuda.synchronize()
    cuda.read(buffers["C"].handle, found)
    assert np.abs(found - a @ b).max() < 1e-12


@pytest.mark.gpu
def test_a_large_product_is_answered_on_the_gpu(cuda: Device) -> None:
    space = catalog.load("sgemm/03_naive")
    bench = Bench(cuda, space, scope_of(space, cuda, "2048", beta=0.5), Method(repeats=3))
    inputs = bench.workbench.inputs
    answer = inputs.answers["C"]
    assert isinstance(answer, Placed)
    assert all(isinstance(elements, Drawn) for elements in inputs.contents.values())
    c, a, b = (inputs.contents[name].array(np.dtype(np.float64)) for name in "CAB")
    assert np.abs(answer.array() - (a @ b + 0.5 * c)).max() < 1e-9
    assert bench.measure(space.default).failure is None


@pytest.mark.gpu
@pytest.mark.parametrize("size", ["2048", "8192"])
def test_a_term_that_is_dropped_from_a_large_product_is_caught(size: str, cuda: Device, tmp_path: Path) -> None:
    wrong = broken("03_naive", "for (int k = 0; k < K; k++)", "for (int k = 0; k < K - 1; k++)", tmp_path)
    assert outcome_of(wrong, cuda, size) == "wrong result"


@pytest.mark.parametrize("expression", ["where(x > 0, x, y)", "sort(x)", "x[x > 0]", "x + arange(n)", "x // y"])
def test_other_expressions_are_the_hosts(
    expression: str, tmp_path: Path, opencl: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_answers, "ON_DEVICE_BYTES", 1)
    space, scope, contents = problem(tmp_path, opencl, "1234", expression)
    form: Any = space.operation.reference
    assert device_answers.answers(form, scope, contents, Placer(opencl)) is None


def test_the_largest_magnitude_is_the_hosts(opencl: Device, host: Device) -> None:
    values = np.random.default_rng(0).standard_normal(100_003)
    values[[5, 77, 100_002]] = np.inf, np.nan, -9.5
    for device in (opencl, host):
        assert Placer(device).largest(device.upload(values)) == Held(values).largest == 9.5


def large(folder: Path, device: Device, count: int = LARGE) -> Bench:
    file = written(
        folder, MAP, [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])], "3 * x", "opencl",
        parameters={"wrong": [0, 1]}, grid=[1024], block=[256],
    )  # fmt: skip
    space = catalog.load(str(file))
    return Bench(device, space, scope_of(space, device, str(count)), Method(repeats=1))


@pytest.mark.slow
def test_one_wrong_element_of_a_large_array_is_found_also_after_a_stray_write_has_hit_the_answer(
    tmp_path: Path, opencl: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is computed again then."""
    count = LARGE // 4
    for module in (filling, device_answers, referee):
        monkeypatch.setattr(module, "ON_DEVICE_BYTES", 4 * count)
    bench = large(tmp_path, opencl, count)
    answer = bench.workbench.inputs.answers["y"]
    assert isinstance(answer, Placed)
    assert isinstance(bench.workbench.inputs.contents["x"], Drawn)
    right, wrong = (bench.measure({"wrong": number}) for number in (0, 1))
    assert right.failure is None
    assert wrong.failure == "wrong result"
    assert f"y[{count // 2}] = " in wrong.log
    assert f"1 of {count} elements" in wrong.log
    opencl.write(answer.memory.handle, np.full(1000, 7.5), 8 * 1_000_000)
    assert bench.measure({"wrong": 0}).failure is None
    assert bench.measure({"wrong": 1}).failure == "wrong result"
    assert np.array_equal(
        answer.part(999_000, 1_003_000), 3 * bench.workbench.inputs.contents["x"].part(999_000, 1_003_000).astype(float)
    )


@pytest.mark.parametrize("left_out", [-1, 777])
def test_what_a_reference_kernel_computes_stays_on_the_device_and_an_element_that_it_leaves_out_is_named(
    left_out: int, tmp_path: Path, opencl: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among its answers is -1, whose bytes are those of the first poison."""
    for module in (filling, referee, reference_launch):
        monkeypatch.setattr(module, "ON_DEVICE_BYTES", 4 * COUNT)
    body = """
KERNEL void f(GLOBAL float *y, GLOBAL int *sign, GLOBAL const float *x, int n) {
    for (long i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * 1024) {
        y[i] = 3 * x[i];
        sign[i] = wrong && i == 5 ? 2 : x[i] < 0 ? -1 : 1;
    }
}
"""
    file = written(
        tmp_path, f"{HEAD}{body}{NAIVE.replace('LEFT_OUT', str(left_out))}",
        [array("y", "float32", ["n"], "out"), array("sign", "int32", ["n"], "out"), array("x", "float32", ["n"])],
        {"kernel": "naive", "arguments": ["y", "sign", "x", "n"], "grid": ["ceil_div(n, 64)"], "block": [64]},
        "opencl", parameters={"wrong": [0, 1]}, grid=[1024], block=[256],
    )  # fmt: skip
    space = catalog.load(str(file))
    scope = scope_of(space, opencl, str(COUNT))
    if left_out >= 0:
        with pytest.raises(SpaceError, match=r"kernel naive: wrong result: y\[777\] is not written"):
            Bench(opencl, space, scope, Method(repeats=1))
        return
    bench = Bench(opencl, space, scope, Method(repeats=1))
    contents, answers = bench.workbench.inputs.contents["x"].array(), bench.workbench.inputs.answers
    assert all(isinstance(answer, Placed) for answer in answers.values())
    assert np.array_equal(answers["y"].array(), 3 * contents)
    assert np.array_equal(answers["sign"].array(), np.where(contents < 0, -1, 1))
    assert bench.measure({"wrong": 0}).failure is None
    assert bench.measure({"wrong": 1}).failure == "wrong result"


@pytest.mark.parametrize("most", [layout.MOST_READ_BACK, 0])
def test_a_copy_that_a_stray_write_has_changed_is_written_again(
    most: int, host: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small array is compared with the host's, a large one by its checksum on the device."""
    monkeypatch.setattr(layout, "MOST_READ_BACK", most)
    space = catalog.load("sgemm/00_host_simple")
    bench = Bench(host, space, scope_of(space, host, "20"), Method(repeats=1)).workbench
    names = [argument.name for argument in space.operation.arguments]
    copies = layout.Layout(Placer(host), BenchKernels(host, names), bench.buffers, bench.inputs)
    assert not copies.repair()
    host.fill(copies.copies["A"].handle, 0, 4)
    assert copies.repair()
    expected = bench.inputs.contents["A"].array()
    actual = np.empty_like(expected)
    host.read(copies.copies["A"].handle, actual)
    assert actual.tobytes() == expected.tobytes()
    assert not copies.repair()


@pytest.mark.slow
def test_the_host_never_holds_a_large_array(tmp_path: Path, opencl: Device) -> None:
    tracemalloc.start()
    try:
        bench = large(tmp_path, opencl)
        assert bench.measure({"wrong": 0}).failure is None
        bench.renew()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bench.workbench.set_count > 1
    assert peak < LARGE * 4


def test_memory_is_needed_for_what_is_held_and_answers_only_of_what_is_compared(
    host: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script declares no roles, and has no options: three arrays, two of them restored, one of them compared."""
    count = 100_000
    arrays = [{"name": name, "dtype": "float32", "shape": [count]} for name in "yab"]
    space = tuner.Space(
        kernel="sum",
        source="void sum(float *y, float *a, float *b) { for (int i = 0; i < N; i++) y[i] = a[i] + b[i]; }",
        operation={
            "sizes": {"n": 1},
            "arguments": [
                {**each, "role": role, "compared": role == "out"}
                for each, role in zip(arrays, ("out", "inout", "inout"), strict=True)
            ],
            "reference": lambda a, b: a.astype(np.float64) + b,
        },
        parameters={"N": [count]},
    ).model
    scope = scope_of(space, host, {"n": 1})
    needed = count * (3 * 4 + 2 * 4 + 8 + 8 + 3 * 4)  # with the answers on the host, and the arrays of a fork
    monkeypatch.setattr(host, "memory", needed - 1)
    with pytest.raises(DeviceError, match="arrays and references take"):
        Workbench(host, space, scope)
    monkeypatch.setattr(host, "memory", needed)
    assert Workbench(host, space, scope).set_count


def test_a_processor_offers_the_memory_that_caches_give_back(host: Device) -> None:
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    assert available / 2 < HostDevice().memory < available * 2
