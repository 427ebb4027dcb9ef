"""References and fills of spaces in Python: they run in the process that made the space, for workers on any device."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.python_spaces import OPERATION, scale
from tuner import paths
from tuner.errors import SpaceError
from tuner.tuning.driver import Result
from tuner.tuning.driver import tune as driven
from tuner.tuning.progress import Quiet
from tuner.tuning.request import TuningRequest

PORTABLE = """\
#include "portable.h"
KERNEL void scale(GLOBAL float *y, GLOBAL const float *x, int n, float a) {
    int i = blockIdx.x * (unroll * width) + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
"""


def drawn(fill: Callable[..., Any]) -> list[dict[str, Any]]:
    return [{**each, **({"fill": fill} if each["name"] == "x" else {})} for each in OPERATION["arguments"]]


def tuned(space: tuner.Space, device: str = "host", said: list[str] | None = None) -> Result:
    return driven(TuningRequest(space.model, "100", device), Quiet([].append if said is None else said.append))


@pytest.mark.slow
@pytest.mark.parametrize("device", ["host", "opencl"])
def test_functions_are_called_where_they_are_with_what_the_kernel_gets(device: str) -> None:
    called: list[tuple[str, int]] = []

    def whole(rng: np.random.Generator, n: int) -> Any:
        called.append(("fill", os.getpid()))
        return rng.integers(0, 9, n).astype(np.float32)

    def expected(x: Any, /, n: int, *, a: float) -> Any:
        called.append(("reference", os.getpid()))
        assert (x.dtype, len(x), n, type(a)) == (np.float32, 100, 100, float)
        assert set(x) <= set(range(9))
        x *= a
        return {"y": x.astype(">f8")}

    keys: dict[str, Any] = {
        "arguments": drawn(whole),
        "reference": expected,
        "parameters": {"unroll": [8, 16], "width": [1]},
    }
    if device == "opencl":
        keys |= {"source": PORTABLE, "grid": ["ceil_div(n, unroll * width)"], "block": ["unroll * width"]}
    result = tuned(scale(**keys), device)
    assert result.record is not None
    assert result.record.verified == "python"
    assert result.failed == {}
    assert set(called) == {("fill", os.getpid()), ("reference", os.getpid())}


ASKED = """
import sys
from pathlib import Path
from types import SimpleNamespace
from tuner.measure.answers import function_objects
from tuner.space.values.function_object import FunctionObject

folder = Path(sys.argv[1])
(folder / "arrays").write_bytes(bytes.fromhex("0040"))
function = FunctionObject.of(lambda x: x.astype("float32"))
operation = SimpleNamespace(python_functions=[function])
arrays = {"arrays": [["x", "bfloat16", [1]]], "file": "arrays"}
question = {"call": function.token, "order": ["x"], "numbers": {}, "seeds": {}, **arrays}
assert "ml_dtypes" not in sys.modules
answer = function_objects.answer(operation, question, folder)
print(answer["arrays"], (folder / answer["file"]).read_bytes().hex())
"""


def test_a_function_gets_bfloat16_in_a_program_that_has_not_imported_the_type(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ASKED, tmp_path], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[['result', 'float32', (1,)]] 00000040\n", "")


@pytest.mark.slow
def test_results_are_stored_unless_a_function_has_no_identity_and_wrong_ones_are_found() -> None:
    wrong = "void scale(float *y, const float *x, int n, float a) { for (int i = 0; i < n; i++) y[i] = unroll * x[i]; }"
    parameters = {"unroll": [1, 2, 3]}

    def space(generator: Any) -> tuner.Space:
        def expected(x: Any) -> Any:
            return 2.0 * x + 0 * len(repr(generator))

        return scale(source=wrong, parameters=parameters, reference=expected)

    for generator in (None, np.random.default_rng(0)):
        counts, said = [], list[str]()
        for _ in range(2):
            result = tuned(space(generator), said=said)
            assert result.record is not None
            assert result.record.config == {"unroll": 2}
            assert {reason: count for reason, (count, _) in result.failed.items()} == {"wrong result": 2}
            counts.append(len({trial.finished for trial in result.trials if trial.finished}))
            assert result.stored is (generator is None) or result.kept is not None
        notes = [each for each in said if "reads `generator`, a Generator" in each]
        assert len(notes) == 2 * (generator is not None), "once a run"
    assert len(list(paths.state().rglob("*.log"))) == 1, "what no run can continue leaves no file"
    loaded = tuner.load(space(None), 100, device="host")
    assert (loaded.match, loaded.config) == ("exact", {"unroll": 2})


@pytest.mark.slow
def test_a_restriction_that_reads_an_option_keeps_finals_from_trying_others() -> None:
    fixed = "void scale(float *y, const float *x, int n, float a) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }"
    tuned_ = tuned(scale(source=fixed, parameters={"unroll": [1]}, restrictions=[lambda unroll, a: a == 2.0]))
    assert (tuned_.failed, tuned_.record is not None) == ({}, True)


@pytest.mark.slow
def test_what_a_function_does_wrong_is_one_message_with_its_line() -> None:
    def divides(x: Any) -> Any:
        return [1 / 0 for _ in x]

    for reference, message in [
        (divides, r"^test_function_objects\.py:\d+: divides\(\) does not return: ZeroDivisionError: .*$"),
        (lambda x: sys.exit(3), r"<lambda> does not return: SystemExit: 3$"),
        (lambda x: x[1:], r"its result has shape \(99,\); y has \(100,\)$"),
        (lambda x: {"z": x}, r"returns a dict of z; return one of y$"),
        (lambda x: ["a"], r"returns no array of numbers: \['a'\]$"),
    ]:
        with pytest.raises(SpaceError, match=message):
            tuned(scale(reference=reference))
