"""Five kernels and their twins that are broken by hand: the honest one is taken, and the other refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.benchmark import Bench


class Twin(NamedTuple):
    """A kernel whose output is `y`, and what breaks it: `text` becomes `broken`."""

    body: str
    text: str
    broken: str
    reference: str
    arguments: list[dict[str, Any]]
    operation: dict[str, Any]


def matrices(**more: Any) -> list[dict[str, Any]]:
    return [array("y", "float32", ["n", "n"], "out"), array("x", "float32", ["n", "n"], **more)]


TWINS = {
    "a stencil with a wrong border": Twin(
        """int i = ROW, inner = i > 0 && i < n - 1;
        for (int j = 0; j < n; j++) {
            int k = i * n + j;
            y[k] = inner && j > 0 && j < n - 1 ? x[k - n] + x[k + n] + x[k - 1] + x[k + 1] - 4 * x[k] : 0;
        }""",
        "j < n - 1", "j < n",
        "pad(x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1], 1)",
        matrices(), {"tolerance": {"rtol": 1e-5, "atol": "16 * epsilon"}},
    ),
    "a histogram that is one bin short": Twin(
        """int bin = ROW, count = 0;
        for (int i = 0; i < n; i++) count += x[i] == bin;
        if (bin < 20) y[bin] = count;""",
        "bin < 20", "bin < 19", "bincount(x, minlength=20)",
        [array("y", "int32", [20], "out"), array("x", "int32", ["n"], fill={"integers": [0, 19]})], {},
    ),
    "a transpose with swapped axes": Twin(
        "for (int j = 0; j < n; j++) y[j * n + ROW] = x[ROW * n + j];",
        "y[j * n + ROW]", "y[ROW * n + j]", "transpose(x)", matrices(), {"tolerance": 0},
    ),
    "a softmax that is unstable where inputs are large": Twin(
        """int i = ROW;
        float top = x[i * n], s = 0;
        for (int j = 0; j < n; j++) top = fmax(top, x[i * n + j]);
        for (int j = 0; j < n; j++) s += exp(x[i * n + j] - top);
        for (int j = 0; j < n; j++) y[i * n + j] = exp(x[i * n + j] - top) / s;""",
        "top = fmax(top, x[i * n + j])", "top = 0",
        "exp(x - max(x, axis=1, keepdims=True)) / sum(exp(x - max(x, axis=1, keepdims=True)), axis=1, keepdims=True)",
        matrices(fill={"uniform": [90, 110]}), {"tolerance": {"rtol": 1e-4}},
    ),
    "an axpy that misses its last element": Twin(
        "if (ROW < n) y[ROW] = y[ROW] + 3 * x[ROW];",
        "ROW < n", "ROW < n - 1", "y + 3 * x",
        [array("y", "float32", ["n"], "inout"), array("x", "float32", ["n"])], {"tolerance": {"ulp": 4}},
    ),
}  # fmt: skip
TYPES = {"float32": "float", "int32": "int"}


def in_language(twin: Twin, language: str, folder: Path) -> Path:
    """Writes both kernels as one with a parameter, and its space: a thread for each row; in C, a loop over them."""
    assert twin.body.count(twin.text) == 1
    body = f"#if broken\n{twin.body.replace(twin.text, twin.broken)}\n#else\n{twin.body}\n#endif"
    pointers = ", ".join(
        f"GLOBAL {'const ' * (a['role'] == 'in')}{TYPES[a['dtype']]} *{a['name']}" for a in twin.arguments
    )
    more: dict[str, Any] = {"parameters": {"broken": [0, 1]}, **twin.operation}
    if language == "c":
        loop = f"for (int row = 0; row < n; row++) {{\n{body}\n}}".replace("ROW", "row")
        code = f"#include <math.h>\n#define GLOBAL\nvoid f({pointers}, int n) {{\n{loop}\n}}\n"
        return written(folder, code, twin.arguments, twin.reference, "c", **more)
    rows = f"int row = blockIdx.x * 16 + threadIdx.x;\nif (row >= n) return;\n{body}".replace("ROW", "row")
    code = f'#include "portable.h"\nKERNEL void f({pointers}, int n) {{\n{rows}\n}}\n'
    geometry: dict[str, Any] = {"block": [16], "grid_divisors": {"x": [16]}}
    return written(folder, code, twin.arguments, twin.reference, "opencl", **more, **geometry)


REASONS = {"wrong result", "not a number"}


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_the_honest_twin_is_tuned_and_the_broken_one_is_refused(name: str, tune: Tune, tmp_path: Path) -> None:
    done = tune(in_language(TWINS[name], "c", tmp_path), "37", "--device", "host", "--json")
    assert done.status == 0, done.err
    assert done.json["best"]["config"] == {"broken": 0}
    assert list(done.json["failed"].values()) == [1]
    assert done.json["failed"].keys() <= REASONS
    assert "y[" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_the_honest_twin_is_right_on_opencl_and_the_broken_one_is_refused(
    name: str, opencl: Device, tmp_path: Path
) -> None:
    space = catalog.load(str(in_language(TWINS[name], "opencl", tmp_path)))
    bench = Bench(opencl, space, scope_of(space, opencl, "37"))
    broken, honest = (bench.measure({"broken": number}) for number in (1, 0))
    assert honest.failure is None, honest.log
    assert broken.failure in REASONS
    assert "y[" in broken.log
