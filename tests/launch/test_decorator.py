"""`tuner.autotune` in the place of `@triton.autotune`: what it refuses, without Triton, torch or a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import tuner
from tuner.errors import RequestError

SPACE: dict[str, Any] = {
    "title": "scale",
    "operation": {
        "sizes": {"n": None},
        "options": {"factor": 2.0},
        "arguments": [
            {"name": "x", "dtype": "float32", "shape": ["n"], "role": "inout"},
            {"name": "n", "dtype": "int32"},
            {"name": "factor", "dtype": "float32"},
        ],
        "reference": "x * factor",
    },
    "kernel": "scale",
    "source": "kernel.py",
    "parameters": {"BLOCK": [128]},
    "grid": ["ceil_div(n, BLOCK)"],
}
KERNEL = """\
@triton.jit
def scale(x, n, factor, BLOCK: tl.constexpr):
    pass
"""


class Jit:
    """What a function of @triton.jit shows of itself."""

    def __init__(self, name: str, *names: str) -> None:
        self.__name__, self.arg_names, self.params = name, list(names), []


def decorated(folder: Path, name: str = "scale", **keywords: Any) -> Any:
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "kernel.yaml").write_text(yaml.safe_dump(SPACE))
    return tuner.autotune(folder / "kernel.yaml", **keywords)(Jit(name, "x", "n", "factor", "BLOCK"))


def test_a_decorator_takes_the_space_of_its_own_kernel(tmp_path: Path) -> None:
    kernel = decorated(tmp_path, key=["n"])
    assert kernel.fn.arg_names == ["x", "n", "factor", "BLOCK"]
    with pytest.raises(RequestError, match=r"scale: write its grid, as in scale\[grid\]\(...\)"):
        kernel(1, 2)
    with pytest.raises(RequestError, match="its kernel is scale, not other"):
        decorated(tmp_path, "other")
    with pytest.raises(RequestError, match=r"no size or option of .*; there are n, factor"):
        decorated(tmp_path, key=["m"])
    with pytest.raises(RequestError, match=r"is no function of @triton.jit; write that below autotune"):
        tuner.autotune(tmp_path / "kernel.yaml")(decorated)
    with pytest.raises(RequestError, match="write the path of a space file, or a kernel's name"):
        tuner.autotune(7)(decorated)  # type: ignore[arg-type]  # a wrong type is what this tests
