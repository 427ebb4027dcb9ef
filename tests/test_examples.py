"""The example in the docstring of each public door runs."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tuner
from helpers import ROOT
from helpers.processes import PATIENCE_SECONDS
from tuner import errors

ON_HOST = [
    "tuner.load", "tuner.Kernel", "tuner.dispatch", "tuner.warm_up", "tuner.search.PoolGPSampler",
    "tuner.search.ListSearch", "tuner.Space", "tuner.tune", "tuner.Tuned", "tuner.best", "tuner.evaluate",
    "tuner.freeze",
]  # fmt: skip
OF_A_SCRIPT = ["tuner.strategy", "tuner.autotune"]  # a part of a script that has a kernel of its own
ON_GPU = ["tuner.matmul", "tuner.torch.operator"]  # their examples use torch


def docstring(door: str) -> str:
    module, _, name = door.rpartition(".")
    if module == "tuner.torch":  # importing it needs torch
        body = ast.parse((ROOT / "tuner/torch/operators.py").read_text()).body
        texts = (ast.get_docstring(each) for each in body if isinstance(each, ast.FunctionDef) and each.name == name)
        return next(texts) or ""
    return inspect.cleandoc(getattr(importlib.import_module(module), name).__doc__ or "")


def example(door: str) -> str:
    """The indented block after `Example::` in the docstring of a door. Fails if there is none."""
    found = re.search(r"^Example::\n((?:\n| {4}.*(?:\n|\Z))+)", docstring(door), re.MULTILINE)
    assert found, f"the docstring of {door} has no example"
    return inspect.cleandoc(found[1])


def test_every_public_door_has_an_example() -> None:
    doors = {f"tuner.{name}" for name in tuner.__all__ if not hasattr(errors, name)}
    assert doors <= {*ON_HOST, *ON_GPU, *OF_A_SCRIPT}


@pytest.mark.slow
@pytest.mark.parametrize("door", ON_HOST)
def test_the_example_runs(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example(door), door, "exec"), {})


@pytest.mark.parametrize("door", [*ON_GPU, *OF_A_SCRIPT])
def test_the_example_for_a_gpu_or_a_script_is_python(door: str) -> None:
    compile(example(door), door, "exec")


@pytest.mark.gpu
@pytest.mark.parametrize("door", ON_GPU)
def test_the_example_runs_on_a_gpu(door: str) -> None:
    """In its own process: torch makes its own CUDA context."""
    pytest.importorskip("torch", reason=f"torch is not installed: the example of {door} is not run")
    done = subprocess.run(
        [sys.executable, "-c", example(door)], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
