"""Spaces in Python, of a kernel in C that multiplies a vector by a number."""

from __future__ import annotations

from typing import Any

import tuner

SOURCE = """\
void scale(float *y, const float *x, int n, float a) {
    for (int i = 0; i < n; i += unroll * width)
        for (int j = i; j < i + unroll * width && j < n; j++) y[j] = a * x[j];
}
"""
OPERATION: dict[str, Any] = {
    "sizes": {"n": 1000},
    "options": {"a": 2.0},
    "arguments": [
        {"name": "y", "dtype": "float32", "shape": ["n"], "role": "out"},
        {"name": "x", "dtype": "float32", "shape": ["n"], "role": "in"},
        {"name": "n", "dtype": "int32"},
        {"name": "a", "dtype": "float32"},
    ],
    "reference": "a * x",
}


def scale(**keys: Any) -> tuner.Space:
    """The space, with these keys in place of its own. Those of its operation may be among them."""
    operation = {key: keys.pop(key, value) for key, value in OPERATION.items()}
    own = {"kernel": "scale", "source": SOURCE, "parameters": {"unroll": [1, 2, 4], "width": [1, 2]}}
    return tuner.Space(operation=operation, **{**own, **keys})
