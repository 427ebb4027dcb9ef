"""Launch forms and signatures: what stays true of a kernel where its files are copied or edited."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tuner
from helpers import ROOT
from helpers.kernels import Stage
from tuner import paths
from tuner.catalog import catalog
from tuner.errors import RequestError
from tuner.space.sources import rendering
from tuner.space.values.python_function import PythonFunction

JUDGED = """\
title: An output that a function judges
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: n, dtype: int32}
  derive: {right: {python: check.py:is_right}}
  reference: {right: 1}
kernel: fill
parameters: {x: [1]}
"""


def test_a_launch_form_is_as_true_where_kernel_space_and_cache_were_copied_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    here, there = tmp_path / "here", tmp_path / "far" / "there"
    for folder in ("spaces", "kernels"):
        shutil.copytree(ROOT / folder / "sgemm", here / folder / "sgemm")
    first = catalog.load(str(here / "spaces/sgemm/03_naive.yaml"))
    (here / "own").mkdir()
    (here / "own/fill.c").write_text("void fill(float *y, int n) {}\n")
    (here / "own/check.py").write_text("def is_right(y):\n    return True\n")
    (here / "own/fill.yaml").write_text(JUDGED)
    catalog.load(str(here / "own/fill.yaml"))
    shutil.copytree(here, there)
    monkeypatch.setitem(
        sys.modules, "tuner.space.file.reader", None
    )  # cannot be imported, as where pydantic is missing
    monkeypatch.delattr(tuner.space.file, "reader", raising=False)
    second = catalog.load(str(there / "spaces/sgemm/03_naive.yaml"))
    assert second.sources == (there / "kernels/sgemm/03_naive.cu",)
    assert replace(second, steps=first.steps, files=first.files) == first
    (function,) = catalog.load(str(there / "own/fill.yaml")).operation.python_functions
    assert isinstance(function, PythonFunction)
    assert function.file == there / "own/check.py"
    (there / "spaces/sgemm/operation.yaml").write_text("another")
    with pytest.raises(RequestError, match=r"reading it needs .*, which is not installed; pip install"):
        catalog.load(str(there / "spaces/sgemm/03_naive.yaml"))


def test_a_form_that_ships_has_the_version_of_the_code_with_its_headers(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "first"))
    code = '#include "one.h"\nKERNEL void k(GLOBAL float *C, int n) {\n    C[0] = n + MORE;\n}\n'
    file = stage(code, "k", "{x: [1]}", "opencl", "grid: [1]\nblock: [1]")
    header = file.with_name("one.h")
    header.write_text('#include "portable.h"\n#define MORE 1\n')
    before = rendering.Version.of(catalog.load(str(file)))
    real = paths.shipped
    monkeypatch.setattr(paths, "shipped", lambda name: tmp_path / "first/forms" if name == "forms" else real(name))
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "second"))
    shipped = catalog.load(str(file))
    with monkeypatch.context() as patched:
        patched.setattr(rendering.source_text, "canonical", lambda *about: pytest.fail("it is known"))
        assert rendering.Version.of(shipped) == before
    header.write_text('#include "portable.h"\n#define MORE 2\n')
    assert rendering.Version.of(catalog.load(str(file))) != before


def test_what_was_measured_stays_true_where_comments_change_and_not_where_code_does(
    stage: Stage,
) -> None:
    code = '#include "portable.h"\nKERNEL void k(GLOBAL float *C, int n) {\n    C[0] = n; // one\n}\n'
    file = stage(code, "k", "{x: [1]}", "opencl", "grid: [1]\nblock: [1]")
    before = rendering.signature(catalog.load(str(file)))
    kernel = file.with_suffix(".cu")
    kernel.write_text(f"// Two lines\n/* more of\n   them */\n{code.replace('one', 'another')}")
    assert rendering.signature(catalog.load(str(file))) == before
    kernel.write_text(code.replace("= n", "= n + 1"))
    assert rendering.signature(catalog.load(str(file))) != before
