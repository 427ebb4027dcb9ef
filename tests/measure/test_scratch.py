"""What is verified of scratch: nothing that it held before is of use, and nothing is written beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from helpers.kernels import outcome_of
from helpers.processes import run
from helpers.spaces import scope_of
from helpers.steps import DERIVED, LAST, PARTS, SUM, written
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.benchmark import Bench
from tuner.space.model import Space

pytestmark = pytest.mark.slow

DEVICES = ["host", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Device:
    found: Device = request.getfixturevalue(request.param)
    return found


def summing(folder: Path, text: str = "", becomes: str = "", zeroed: str = "never") -> Space:
    """The sum in two steps, with one place of its source changed."""
    code = PARTS + LAST
    assert not text or code.count(text) == 1
    file = SUM.replace("role: scratch}", f"role: scratch, zeroed: {zeroed}}}")
    return catalog.load(str(written(folder, "sum", code.replace(text, becomes) if text else code, file)))


CLEARS = "for (int b = 0; b < blocks; b++) { sum += partials[b]; }"
CLEARED = (
    "GLOBAL float *old = (GLOBAL float *)partials; for (int b = 0; b < blocks; b++) { sum += old[b]; old[b] = 0; }"
)

# What the kernel does: (the place that it changes, what that becomes, when its scratch is zeroed, how it fails)
KERNELS = {
    "right": ("", "", "never", None),
    "adds to what scratch held": ("partials[b] = sum;", "partials[b] += sum;", "never", "not a number"),
    "adds to zero": ("partials[b] = sum;", "partials[b] += sum;", "each", None),
    "takes no account of zero": ("", "", "each", None),
    "leaves scratch as it is": ("", "", "once", "scratch not zero"),
    "leaves scratch zero": (CLEARS, CLEARED, "once", None),
    "writes after its end": ("partials[b] = sum;", "partials[b] = sum; partials[b + blocks] = 0;", "never", "outside"),
    "writes before its start": ("partials[b] = sum;", "partials[b] = sum; partials[b - 8] = 0;", "never", "outside"),
    "zeroes what is after its end": (
        "partials[b] = sum;", "partials[b] = sum; partials[b + blocks] = 0;", "each", "outside"
    ),
    "reads what an earlier step has not written": (
        "partials[b] = sum;", "if (b + 1 < blocks) { partials[b] = sum; }", "never", "not a number"
    ),
    "reads zeros that no step has written": (
        "partials[b] = sum;", "if (b + 1 < blocks) { partials[b] = sum; }", "each", "wrong result"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_a_kernel_does_with_its_scratch(kernel: str, device: Device, tmp_path: Path) -> None:
    text, becomes, zeroed, failure = KERNELS[kernel]
    found = outcome_of(summing(tmp_path, text, becomes, zeroed), device, "1000")
    assert found == {"outside": "writes outside"}.get(failure or "", failure)


TYPED = SUM.replace("dtype: float32, shape: [blocks]", "dtype: real, shape: [blocks]").replace(
    "parameters: {", "parameters: {real: [float32, float64], "
)


@pytest.mark.parametrize("real", ["float32", "float64"])
def test_the_type_of_scratch_may_be_a_parameter(real: str, device: Device, tmp_path: Path) -> None:
    code = (PARTS + LAST).replace("float *partials", "real *partials").replace("float sum", "real sum")
    config = {"real": real, "blocks": 8, "threads": 32}
    for text, failure in (("", None), ("partials[b + blocks] = sum;", "writes outside")):
        changed = code.replace("partials[b] = sum;", f"partials[b] = sum; {text}")
        space = catalog.load(str(written(tmp_path, "sum", changed, TYPED)))
        assert outcome_of(space, device, "1000", config) == failure


SUMS = {
    "right": ("sum;", None),
    "wrong": ("sum + 1;", "wrong result"),
    "unwritten": ("sum; if (b == 7) partials[b] = NAN;", "not a number"),
    "outside": ("sum; partials[b + blocks] = 0;", "writes outside"),
}


@pytest.mark.parametrize("blocks", [8, 64])
@pytest.mark.parametrize("kernel", SUMS)
def test_an_output_whose_shape_a_parameter_decides_is_verified(
    kernel: str, blocks: int, device: Device, tmp_path: Path
) -> None:
    becomes, failure = SUMS[kernel]
    code = PARTS.replace("partials[b] = sum;", f"partials[b] = {becomes}").replace("NAN", "(x[0] - x[0]) / 0.0f")
    space = catalog.load(str(written(tmp_path, "sum", code, DERIVED)))
    assert outcome_of(space, device, "1000", {"blocks": blocks}) == failure


PLAIN = """\
KERNEL void plain(GLOBAL float *total, GLOBAL const float *x, GLOBAL float *partials, int n, float scale) {
    if (THREAD == 0) {
        for (int i = 0; i < n; i++) { partials[i % 8] = (i < 8 ? 0 : partials[i % 8]) + x[i]; }
        total[0] = 0;
        for (int i = 0; i < 8; i++) { total[0] += scale * partials[i]; }
    }
}
"""
REFERENCES = {
    "another kernel": "{kernel: plain, source: plain.cu, grid: [1], block: [1]}",
    "a configuration": "{config: {blocks: 8, threads: 32}}",
}


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize(("text", "becomes"), [("", ""), ("partials[b] = sum;", "partials[b] = sum + (blocks > 8);")])
def test_several_steps_are_compared_with_what_else_may_be_right(
    text: str, becomes: str, reference: str, device: Device, tmp_path: Path
) -> None:
    """Either has scratch of its own."""
    written(tmp_path, "plain", PLAIN, "")
    code = (PARTS + LAST).replace(text, becomes) if text else PARTS + LAST
    file = SUM.replace("scale * sum(x)", REFERENCES[reference]).replace("shape: [blocks]", "shape: [64]")
    space = catalog.load(str(written(tmp_path, "sum", code, file)))
    found = outcome_of(space, device, "1000", {"blocks": 64, "threads": 32})
    assert found == ("wrong result" if text else None)


KEEP = """\
KERNEL void keep(GLOBAL float *y, GLOBAL float *mark, GLOBAL const float *x, int n) {
    for (int i = THREAD; i < n; i += THREADS) { y[i] = x[i]; }
    if (THREAD == 0) { mark[0] = x[0] == (float)(FIRST) ? 0 : 1; }
}
"""
KEPT = """\
title: A copy
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: mark, dtype: float32, shape: [1], role: scratch, zeroed: once}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
  reference: x
kernel: keep
source: keep.cu
languages: [cuda, opencl, c]
grid: [4]
block: [32]
parameters: {p: [1]}
"""


def test_scratch_that_is_zero_after_the_first_run_must_be_so_after_others(device: Device, tmp_path: Path) -> None:
    space = catalog.load(str(written(tmp_path, "keep", KEEP.replace("FIRST", "0"), KEPT)))
    scope = scope_of(space, device, "1000")
    first = float(Bench(device, space, scope).workbench.inputs.contents["x"].part(0, 1)[0])
    written(tmp_path, "keep", KEEP.replace("FIRST", first.hex()), KEPT)
    assert outcome_of(space, device, "1000") == "wrong in a later run"


LEAST = """\
KERNEL void least(GLOBAL WORD *found, GLOBAL const WORD *x, int n) {
    for (int b = THREAD; b < parts; b += THREADS) {
        for (int i = b; i < n; i += parts) { if (x[i] RELATION found[b]) { found[b] = x[i]; } }
    }
}
"""
LEASTS = """\
title: The least or the greatest element, in parts
operation:
  sizes: {n: }
  arguments:
    - {name: found, dtype: TYPE, shape: [parts], role: out}
    - {name: x, dtype: TYPE, shape: [n], role: in}
    - {name: n, dtype: int32}
  derive: {one: FUNCTION(found)}
  reference: {one: FUNCTION(x)}
kernel: least
source: least.cu
languages: [cuda, opencl, c]
grid: [1]
block: [32]
parameters: {parts: [8]}
"""


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8"])
def test_integers_that_a_kernel_compares_with_before_it_writes_them_are_no_help(
    dtype: str, function: str, device: Device, tmp_path: Path
) -> None:
    """Whichever of both it looks for, what it finds there is beyond all elements."""
    word = {"int32": "int", "uint32": "unsigned int", "int8": "signed char"}[dtype]
    code = LEAST.replace("WORD", word).replace("RELATION", "<" if function == "min" else ">")
    text = LEASTS.replace("TYPE", dtype).replace("FUNCTION", function)
    space = catalog.load(str(written(tmp_path, "least", code, text)))
    assert outcome_of(space, device, "1000") in ("wrong result", "wrong in a later run")


TWO = """\
import resource, sys
from tuner import devices
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.catalog import catalog
from tuner.space.scope import Scope

space, device = catalog.load(sys.argv[1]), devices.shared("host")
bench = Bench(device, space, Scope({"n": 1000}, {"scale": 1.0}, "c", device.limits, {}), Method(repeats=1))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20), resource.RLIM_INFINITY))
for marks in space.parameters["marks"]:
    print(bench.measure({"marks": marks}).failure)
print(bench.finals([{"marks": space.parameters["marks"][0]}], seconds=0.1).candidates[0].failure)
"""


def test_a_configuration_may_have_the_memory_of_the_one_before(tmp_path: Path) -> None:
    """There is room for the scratch of one of them, also where it is verified with other options."""
    text = KEPT.replace("shape: [1], role: scratch, zeroed: once", "shape: [marks], role: scratch")
    text = text.replace("sizes: {n: }", "sizes: {n: }\n  options: {scale: 1.0}").replace(
        "reference: x", "reference: scale * x"
    )
    text = text.replace("{name: n, dtype: int32}", "{name: n, dtype: int32}\n    - {name: scale, dtype: float32}")
    text = text.replace("parameters: {p: [1]}", f"parameters: {{marks: [{50 << 20}, {(50 << 20) + 1}]}}")
    code = KEEP.replace("FIRST", "0").replace("int n)", "int n, float scale)").replace("= x[i]", "= scale * x[i]")
    file = written(tmp_path, "keep", code, text)
    assert run(sys.executable, "-c", TWO, file).stdout == "None\n" * 3
