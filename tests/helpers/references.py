"""A kernel beside all that may say which answers are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from helpers.operations import array

CU = """#include "portable.h"
KERNEL void f(GLOBAL float *y, GLOBAL const float *x, int n, float a) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i < n) { y[i] = BODY; }
}
"""


C = "void f(float *y, const float *x, int n, float a) { for (int i = 0; i < n; i++) y[i] = BODY; }\n"
RIGHT, WRONG = "a * x[i] + step", "a * x[i] + (i % 64 == 63 ? 2 : 1)"


NAIVE_CU = """#include "portable.h"
KERNEL void naive(GLOBAL float *y, GLOBAL const float *x, int n, float a) {
    int i = blockIdx.x * 16 + threadIdx.x;
    if (i < n) { y[i] = a * x[i] + 1; }
}
"""


NAIVE_C = "void naive(float *y, const float *x, int n, float a) { for (int i = 0; i < n; i++) y[i] = a * x[i] + 1; }\n"


CHECK = "def expected(x, *, a):\n    return a * x.astype('float64') + 1\n"


DATA = "def drawn(rng, n):\n    return rng.random(n, dtype='float32')\n"


KERNEL = {"kernel": "naive", "source": "naive.cu", "grid": ["ceil_div(n, 16)"], "block": [16]}


PYTHON = {"python": "check.py:expected"}


REFERENCES: dict[str, Any] = {
    "expression": "a * x + 1",
    "python": PYTHON,
    "kernel": KERNEL,
    "config": {"config": "default"},
}


def space(folder: Path, reference: Any, language: str = "c", body: str = RIGHT, **more: Any) -> Path:
    """A kernel with one size, one option and one input, beside a naive kernel and two files of Python. `step` is 1 in
    the default. `more` are other keys of the operation; `fill` is that of the input."""
    folder.mkdir(exist_ok=True)
    names = {"f.c": C, "naive.c": NAIVE_C} if language == "c" else {"f.cu": CU, "naive.cu": NAIVE_CU}
    for name, text in {**names, "check.py": CHECK, "data.py": DATA}.items():
        if not (folder / name).exists():
            (folder / name).write_text(text.replace("BODY", body))
    if language == "c" and isinstance(reference, dict) and "kernel" in reference:
        reference = {"kernel": "naive", "source": "naive.c"} | {k: reference[k] for k in reference if k == "arguments"}
    fill = {"fill": more.pop("fill")} if "fill" in more else {}
    operation = {
        "sizes": {"n": None},
        "options": {"a": 2.0},
        "extent": ["n"],
        "arguments": [
            array("y", "float32", ["n"], "out"),
            array("x", "float32", ["n"], **fill),
            {"name": "n", "dtype": "int32"},
            {"name": "a", "dtype": "float32"},
        ],
        "reference": reference,
        **more,
    }
    parameters = {"threads": [32, 64], "step": [1]} if language != "c" else {"step": [1]}
    file = folder / "f.yaml"
    keys = {"title": "t", "operation": operation, "kernel": "f", "languages": [language], "parameters": parameters}
    if language != "c":
        keys |= {"grid_divisors": {"x": ["threads"]}, "block": ["threads"]}
    file.write_text(yaml.safe_dump({**keys, "default": {name: v[0] for name, v in parameters.items()}}))
    return file


DEVICES = {"c": "host", "opencl": "opencl"}
