"""Kernels in Triton on a real NVIDIA GPU, for each class of arguments, and their faults: `pytest -m gpu -n 0`."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import tuner
from helpers.kernels import outcome_of
from tuner.catalog import catalog
from tuner.devices import Device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
]
KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def scale(x, n, factor, stride, BLOCK: tl.constexpr, BAD: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i * stride, mask=i < n)
    tl.static_assert(BAD != 1, "does not compile")
    if BAD == 2:
        v += 1
    if BAD == 3:
        a = tl.arange(0, 256)
        v += tl.sum(tl.sum(tl.dot(*two(x + a[:, None] + 0 * a[None, :])), 0), 0)
    if BAD == 4:
        tl.store(x + i + n, v)
    tl.store(x + i * stride, v * factor, mask=i < n)


@triton.jit
def two(pointers):
    tile = tl.load(pointers).to(tl.float16)
    return tile, tile
"""
SPACE: dict[str, Any] = {
    "title": "scale in place",
    "operation": {
        "sizes": {"n": None},
        "options": {"factor": 3.0},
        "arguments": [
            {"name": "x", "dtype": "float32", "shape": ["n"], "role": "inout"},
            {"name": "n", "dtype": "int32"},
            {"name": "factor", "dtype": "float32"},
            {"name": "stride", "dtype": "int32", "value": 1},
        ],
        "reference": "x * factor",
    },
    "kernel": "scale",
    "source": "kernel.py",
    "parameters": {"BLOCK": [256], "num_warps": [4], "BAD": [0, 1, 2, 3, 4]},
    "grid": ["ceil_div(n, BLOCK)"],
}
GOOD = {"BLOCK": 256, "num_warps": 4, "BAD": 0}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "kernel.yaml").write_text(yaml.safe_dump(SPACE))
    return str(folder / "kernel.yaml")


@pytest.mark.parametrize("n", [1, 1000, 1001, 1008])
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_each_class_of_arguments_has_a_build_of_its_own(file: str, n: int, offset: int) -> None:
    torch = pytest.importorskip("torch")
    kernel = tuner.load(file, n, config=GOOD)
    x = torch.randn(n + offset, device="cuda")[offset:]
    expected = x * 3
    kernel(x)
    assert torch.equal(x, expected)
    kernel.bind(x)()
    assert torch.equal(x, expected * 3)
    kernel(x, factor=1 / 9)
    kernel.check(x)
    whole = torch.ones(n, device="cuda")
    kernel(whole)  # after a launch of another class
    assert torch.equal(whole, torch.full_like(whole, 3))


def test_each_fault_fails_one_configuration(file: str, cuda: Device) -> None:
    space = catalog.load(file)
    reasons = [outcome_of(space, cuda, "100000", {**GOOD, "BAD": bad}) for bad in range(5)]
    assert reasons == [None, "compile", "wrong result", "shared memory", "writes outside"]


def test_the_exported_program_runs_without_python(file: str, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    from helpers.processes import run

    run(
        sys.executable,
        "-m",
        "tuner",
        "export",
        file,
        "1000",
        "--to",
        "cubin",
        "--output",
        str(tmp_path),
        "--device",
        "cuda:0",
    )
    run("cc", "-std=c11", "-o", tmp_path / "example", tmp_path / "example.c", "-ldl")
    done = subprocess.run([tmp_path / "example", tmp_path], capture_output=True, text=True, check=True, env={})
    assert "x: " in done.stdout
