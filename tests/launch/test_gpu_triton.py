"""Kernels in Triton on a real NVIDIA GPU, for each class of arguments, and their faults: `pytest -m gpu -n 0`."""

from __future__ import annotations

import importlib
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
from tuner.errors import ArgumentError, RequestError

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
ROWS = """\
import triton
import triton.language as tl

import tuner

BLOCK = 128


@tuner.autotune("rows.yaml", key=["columns"])
@triton.jit
def softmax(y, x, rows, columns, BLOCK: tl.constexpr = 128):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + i
    v = tl.load(x + at, mask=i < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + at, e / tl.sum(e, axis=0), mask=i < columns)


@tuner.autotune("kernel.yaml")
@triton.jit
def scale(x, n, factor, stride, BLOCK: tl.constexpr, BAD: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i * stride, mask=i < n)
    tl.store(x + i * stride, v * factor, mask=i < n)
"""
ROWS_SPACE: dict[str, Any] = {
    "title": "softmax of short rows",
    "operation": {
        "sizes": {"rows": None, "columns": None},
        "arguments": [
            {"name": "y", "dtype": "float32", "shape": ["rows", "columns"], "role": "out"},
            {"name": "x", "dtype": "float32", "shape": ["rows", "columns"], "role": "in"},
            {"name": "rows", "dtype": "int32"},
            {"name": "columns", "dtype": "int32"},
        ],
        "reference": "exp(x) / sum(exp(x), axis=1, keepdims=True)",
    },
    "kernel": "softmax",
    "source": "rows.py",
    "parameters": {"num_warps": [1, 2, 4]},
    "derived": {"BLOCK": "128"},
    "grid": ["rows"],
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own compiler
def test_a_decorated_kernel_is_called_as_before_also_in_compiled_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.delenv("CC")  # Triton, which torch's compiler calls, takes it for one word
    (tmp_path / "rows.py").write_text(ROWS)
    (tmp_path / "rows.yaml").write_text(yaml.safe_dump(ROWS_SPACE))
    (tmp_path / "kernel.yaml").write_text(yaml.safe_dump({**SPACE, "source": "rows.py"}))
    monkeypatch.syspath_prepend(tmp_path)
    rows = importlib.import_module("rows")

    def softmax(x: Any) -> Any:
        y = torch.empty_like(x)
        rows.softmax[lambda meta: (x.shape[0],)](y, x, *x.shape, BLOCK=rows.BLOCK)
        return y

    def scaled(x: Any) -> Any:
        y = x.clone()
        rows.scale[(-(-x.numel() // 256),)](y, x.numel(), 5.0, 1)
        return y

    for call, right in ((softmax, lambda x: torch.softmax(x, 1)), (scaled, lambda x: 5 * x)):
        compiled = torch.compile(call, fullgraph=True, dynamic=True)
        for shape in ((30, 100), (31, 101), (1, 7)):
            x = torch.randn(shape, device="cuda")
            assert torch.allclose(call(x), right(x), atol=1e-6)
            assert torch.allclose(compiled(x), right(x), atol=1e-6)
    x = torch.randn(30, 100, device="cuda")
    with pytest.raises(ArgumentError, match=r"softmax: its grid is \(7,\), and .*rows.yaml says \(30, 1, 1\)"):
        rows.softmax[(7,)](x, x.clone(), 30, 100)
    with pytest.raises(ArgumentError, match=r"columns = 99: .* has 100 for these arrays"):
        rows.softmax[(30,)](x, x.clone(), 30, 99)
    with pytest.raises(ArgumentError, match="num_warps: tuner chooses it"):
        rows.softmax[(30,)](x, x.clone(), 30, 100, num_warps=4)


@pytest.mark.filterwarnings("ignore:.*the first call tunes it", "ignore:The CUDA Graph is empty")
def test_the_first_call_tunes_and_leaves_its_arrays_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    text = ROWS.replace('"kernel.yaml"', '"kernel.yaml", results="results", tune="first call", budget="1s"')
    (tmp_path / "firsts.py").write_text(text)
    (tmp_path / "rows.yaml").write_text(yaml.safe_dump({**ROWS_SPACE, "source": "firsts.py"}))
    space = {**SPACE, "source": "firsts.py", "parameters": {"BLOCK": [128, 256], "num_warps": [2, 4], "BAD": [0]}}
    (tmp_path / "kernel.yaml").write_text(yaml.safe_dump({**space, "default": GOOD}))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    scale = importlib.import_module("firsts").scale

    def call(x: Any) -> Any:
        scale[lambda meta: (-(-x.numel() // meta["BLOCK"]),)](x, x.numel(), 3.0, 1)
        return x

    x = torch.randn(100_000, device="cuda")
    expected = x * 3
    assert torch.equal(call(x), expected)
    assert len([*tmp_path.glob("results/**/*.jsonl")]) == 1
    graph, refused, other = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph(), torch.ones(5000, device="cuda")
    with pytest.raises(RequestError, match="not tuned, and a CUDA graph is being captured"), torch.cuda.graph(refused):
        call(other)
    with torch.cuda.graph(graph):
        call(x)
    graph.replay()
    assert torch.equal(x, expected * 3)


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
