"""Values of parameters as ranges, and keys that follow from the source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.protocols import Validator

from helpers.operations import array, written
from helpers.processes import Tune
from tuner.catalog import catalog

Y = array("y", "float32", ["n"], "out")
CODE = "void f(float *y, int n) { for (int i = 0; i < n; i++) y[i] = a; }"


def of(folder: Path, values: Any) -> Path:
    return written(folder, CODE, [Y], "ones(n)", parameters={"a": values})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "expanded"),
    [
        ({"from": 128, "to": 320, "step": 64}, [128, 192, 256, 320]),
        ({"from": 1, "to": 3}, [1, 2, 3]),
        ({"from": -2, "to": -2, "step": 5}, [-2]),
        ({"from": 0.1, "to": 0.5, "step": 0.1}, [0.1, 0.2, 0.3, 0.4, 0.5]),
        ({"from": 0, "to": 1, "step": 0.5}, [0.0, 0.5, 1.0]),
        ({"powers_of_two": [16, 128]}, [16, 32, 64, 128]),
        ({"powers_of_two": [1, 1]}, [1]),
    ],
)
def test_a_range_is_the_list_of_its_values(
    values: Any, expanded: list[float], tmp_path: Path, published: Validator
) -> None:
    file = of(tmp_path, values)
    got = catalog.load(str(file)).parameters["a"]
    assert (list(got), [type(v) for v in got]) == (expanded, [type(v) for v in expanded])
    published.validate(yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"from": 1, "to": 10, "step": 4}, "from 1 by 4 does not reach 10; write `to: 9` or `to: 13`"),
        ({"from": 10, "to": 1}, "from 10 to 1 by 1: the step must be above 0, and `to` not below `from`"),
        ({"from": 1, "to": 10, "step": 0}, "the step must be above 0"),
        ({"from": 1, "to": 10, "step": -1}, "the step must be above 0"),
        ({"from": 1, "to": 10**12}, "1000000000000 values; at most 10000 are allowed"),
        ({"from": 0.0, "to": 1e300, "step": 1e-300}, "to: 1e+300 is not a number below 2**63"),
        ({"from": 0, "to": 1, "step": 1e-300}, "values; at most 10000 are allowed"),
        ({"from": "a", "to": 1}, "from: 'a' is not a number"),
        ({"from": float("nan"), "to": 1}, "from: nan is not a number"),
        ({"from": True, "to": 1}, "from: True is not a number"),
        ({"from": 1}, "a mapping with the keys from is not a range; write {from: 128, to: 1024, step: 64}"),
        ({}, "an empty mapping is not a range"),
        ({"from": 1, "to": 2, "stride": 1}, "the keys from, to, stride is not a range"),
        ({"powers_of_two": [16, 100]}, "powers_of_two: 100 is not a power of two"),
        ({"powers_of_two": [64, 16]}, "the first is above the last"),
        ({"powers_of_two": [16]}, "write the first and the last, as in [16, 1024]"),
        ({"powers_of_two": [1, 2**63]}, "is not a power of two from 1 to 2**62"),
        ({"powers_of_two": [0, 2]}, "0 is not a power of two"),
    ],
)
def test_a_range_that_is_none_is_one_message(values: Any, message: str, tmp_path: Path, tune: Tune) -> None:
    done = tune("validate", of(tmp_path, values))
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert " parameters.a: " in done.err
    assert message in done.err
    assert len(done.err) < 500


OPENCL = "__kernel void f(__global float *y, int n) { y[get_global_id(0)] = a; }"
CUDA = 'extern "C" __global__ void f(float *y, int n) { y[threadIdx.x] = a; }'
PORTABLE = '#include "portable.h"\nKERNEL void f(GLOBAL float *y, int n) { y[threadIdx.x] = a; }'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code", "languages"),
    [
        ("f.c", CODE, ("c",)),
        ("f.cl", OPENCL, ("opencl",)),
        ("f.cu", CUDA, ("cuda",)),
        ("f.cu", PORTABLE, ("cuda", "opencl")),
        ("f.cl", PORTABLE, ("cuda", "opencl")),
    ],
)
def test_languages_follow_from_the_source_and_no_extent_is_needed(
    name: str, code: str, languages: tuple[str, ...], tmp_path: Path, tune: Tune, published: Validator
) -> None:
    file = of(tmp_path, [1, 2])
    (tmp_path / "f.c").unlink()
    (tmp_path / name).write_text(code)
    space = yaml.safe_load(file.read_text())
    del space["languages"], space["operation"]["extent"]
    file.write_text(yaml.safe_dump(space | ({} if name == "f.c" else {"grid": [1], "block": ["n"]})))
    assert catalog.load(str(file)).languages == languages
    done = tune("validate", file, "64", "--json")
    assert (done.status, json.loads(done.out)["valid"]) == (0, True), done.err
    published.validate(yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "f.cpp"}, "languages: unknown from the suffix of f.cpp; write `languages: [cuda]` or"),
        ({"languages": ["cuda"], "source": "f.cpp"}, "grid: the number of blocks is missing; write `grid:`, or"),
        (
            {"languages": ["cuda"], "source": "f.cpp", "grid_divisors": {"x": [32]}},
            "grid_divisors.x: the result has no extent in x; write one in `extent:`, or `grid:` instead",
        ),
        ({}, "source: f.cu and f.c exist; name one of them, or write `languages:`"),
    ],
)
def test_what_does_not_follow_is_asked_for(changes: dict[str, Any], message: str, tmp_path: Path, tune: Tune) -> None:
    file = of(tmp_path, [1, 2])
    for name in ("f.cpp", "f.cu"):
        (tmp_path / name).write_text(CUDA)
    space = yaml.safe_load(file.read_text())
    del space["languages"], space["operation"]["extent"]
    file.write_text(yaml.safe_dump(space | changes))
    done = tune("validate", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert message in done.err
