"""A T1 file becomes a space, and nothing in it is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.processes import Tune
from tuner.errors import ExpressionError
from tuner.exchange.interop.t1_values import values

T1 = {
    "General": {"BenchmarkName": "Add two vectors"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "block_size_x", "Type": "int", "Values": "[32 * i for i in range(1, 5)]", "Default": 64},
            {"Name": "items", "Type": "int", "Values": "[1, 2]", "Default": 1},
        ],
        "Conditions": [
            {"Parameters": ["block_size_x", "items"], "Expression": "block_size_x * items <= 128"},
            {"Parameters": [], "Expression": "__import__('os').system('touch owned')"},
        ],
    },
    "KernelSpecification": {
        "Language": "OpenCL",
        "CompilerOptions": ["-std=c++11"],
        "KernelName": "add",
        "KernelFile": "add.cl",
        "GlobalSize": {"X": "ProblemSize[0] // items"},
        "LocalSize": {"X": "block_size_x"},
        "ProblemSize": [1000],
        "Arguments": [
            {"Name": "c", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "Size": 1000},
            {"Name": "a", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadOnly", "Size": "ProblemSize[0]"},
            {"Name": "b", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadOnly", "Size": 1000},
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "AccessType": "ReadOnly", "FillValue": 1000},
            {"Name": "shift", "Type": "float", "MemoryType": "Scalar", "AccessType": "ReadOnly", "FillValue": 0.5},
        ],
    },
}

ADD = """
__kernel void add(__global float *c, __global const float *a, __global const float *b, int n, float shift) {
    for (int i = get_global_id(0) * items; i < n && i < (get_global_id(0) + 1) * items; i++) c[i] = a[i] + b[i] + shift;
}
"""


@pytest.mark.slow
def test_a_t1_space_tunes_once_its_reference_is_written(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("add.json").write_text(json.dumps(T1))
    Path("add.cl").write_text(ADD)
    done = tune("import", "add.json", "--json")
    assert done.status == 0, done.err
    (made,) = done.json
    assert made["space"] == "add.yaml"
    told = "\n".join(made["todo"])
    assert "operation.reference: write the expected output for c" in told
    assert "os" in told
    assert "left out -std=c++11" in told
    assert not Path("owned").exists(), "nothing in the file is run"
    assert "reference: this key is missing" in tune("validate", "add.yaml").err

    text = Path("add.yaml").read_text()
    Path("add.yaml").write_text(text.replace("operation:\n", "operation:\n  reference: a + b + shift\n"))
    shown = tune("show", "add.yaml", "1000", "--json").json
    assert shown["configurations"] == 6
    assert shown["default"] == {"block_size_x": 64, "items": 1}
    tuned = tune("add.yaml", "n=500", "--device", "opencl", "--repeats", "3", "--json")
    assert (tuned.json["evaluated"], tuned.json["failed"]) == (6, {}), tuned.err

    assert "already exists" in tune("import", "add.json").err


def test_grid_divisors_and_unusual_arguments_are_taken_over(tune: Tune, tmp_path: Path) -> None:
    kernel: dict[str, Any] = {
        **T1["KernelSpecification"], "Language": "CUDA", "ProblemSize": [64, 32], "GridDivX": ["block_size_x", "items"],
        "GridDivY": None, "Arguments": [
            {"Name": "c", "Type": "float4", "MemoryType": "Vector", "AccessType": "ReadWrite", "Size": 512},
            {"Name": "a", "Type": "half", "MemoryType": "Vector", "Output": 0, "Size": "ProblemSize[0] * items_a + 7"},
            {"Name": "f", "Type": "float", "MemoryType": "Vector", "MemType": "Constant", "Size": 9},
        ],
    }  # fmt: skip
    file, space = tmp_path / "t1.json", tmp_path / "t1.yaml"
    file.write_text(json.dumps({**T1, "KernelSpecification": kernel}))
    assert tune("import", file, "--output", space).status == 0
    text = space.read_text()
    assert "shape:\n    - size_x * size_y" in text, "512 of four are 64 x 32"
    assert "size_x * items_a + 7" in text
    assert "- name: f\n    kind: constant\n    dtype: float32\n    shape:\n    - 9\n    role: in\n" in text
    assert "grid_divisors:\n  x:\n  - block_size_x\n  - items\nblock:" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2, 4]", [1, 2, 4]),
        ("list(range(1, 4))", [1, 2, 3]),
        ("range(0, 8, 4)", [0, 4]),
        ("[2**i for i in range(3)]", [1, 2, 4]),
        ("['row', 'col']", ["row", "col"]),
        ("(True, False)", [True, False]),
    ],
)
def test_a_t1_files_values_are_read(text: str, expected: list[Any]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch owned')", "[open('x') for i in range(3)]", "range(10**9)", "[9**9**9]", "",
        None, "[i for i in range(3) if i]", "[" * 1000, "range(1, 9, 0)", "[i for i in [j for j in range(2)]](1)",
        "range('x')", "list(range(5), 3)", "[*range(3)]", "range()",
    ],
)  # fmt: skip
def test_a_t1_files_values_are_not_run(text: Any) -> None:
    with pytest.raises(ExpressionError):
        values(text)
