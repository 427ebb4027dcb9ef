"""What may say which answers are right besides an expression: a function in Python, a kernel, a configuration, none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import tuner
from helpers.operations import array
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.devices import Device
from tuner.measure.benchmark import Bench
from tuner.space import catalog, identity, source
from tuner.store.store import Store

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


@pytest.mark.parametrize("language", DEVICES)
@pytest.mark.parametrize("kind", REFERENCES)
def test_a_right_kernel_is_stored_with_what_verified_it(kind: str, language: str, tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", REFERENCES[kind], language)
    assert tune("validate", file).status == 0
    done = tune(file, "100", "--device", DEVICES[language])
    assert done.status == 0, done.err
    assert ("runs check.py:expected of" in done.err) == (kind == "python")
    assert "unverified" not in done.out + done.err
    best = tune("best", file, "100", "--device", DEVICES[language], "--json").json
    assert (best["match"], best["record"]["verified"]) == ("exact", kind)
    assert best["record"]["input_sets"] == 3
    again = tune("run", file, "100", "--device", DEVICES[language])
    assert again.status == 0, again.err
    assert "; verified, largest error" in again.out
    assert ("runs check.py:expected of" in again.err) == (kind == "python")


@pytest.mark.parametrize("language", DEVICES)
@pytest.mark.parametrize("kind", [kind for kind in REFERENCES if kind != "config"])
def test_a_wrong_kernel_is_refused(kind: str, language: str, tmp_path: Path, tune: Tune) -> None:
    done = tune(space(tmp_path / "mine", REFERENCES[kind], language, WRONG), "100", "--device", DEVICES[language])
    assert done.status == 1
    assert "y[63] = " in done.err
    assert "failed: wrong result" in done.err


@pytest.mark.parametrize("language", DEVICES)
def test_a_configuration_that_differs_from_the_reference_is_refused(language: str, tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", {"config": "default"}, language)
    file.write_text(file.read_text().replace("  step:\n  - 1\n", "  step:\n  - 1\n  - 2\n"))
    done = tune(file, "100", "--device", DEVICES[language], "--json")
    assert done.status == 0, done.err
    assert done.json["best"]["config"]["step"] == 1
    assert set(done.json["failed"]) == {"wrong result"}
    other = space(
        tmp_path / "mine", {"config": {"threads": 64, "step": 1} if language != "c" else {"step": 1}}, language
    )
    assert tune(other, "100", "--device", DEVICES[language]).status == 0


def test_without_a_reference_everything_says_unverified(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", "none", "c", WRONG)
    assert tune("validate", file).status == 0
    done = tune(file, "100", "--device", "host")
    assert done.status == 0, done.err
    assert "the results are unverified" in done.err
    assert "; unverified" in done.out
    best = tune("best", file, "100", "--device", "host")
    assert "; unverified" in best.out
    assert "the record is unverified" in best.err
    record = tune("best", file, "100", "--device", "host", "--json").json["record"]
    assert (record["verified"], record["error"], record["bound"]) == ("none", None, None)
    ran = tune("run", file, "100", "--device", "host")
    assert ran.status == 0
    assert "; unverified" in ran.out
    assert "unverified" in tune("show", file, "100", "--device", "host").out
    assert ", unverified" in tune("report").out
    (tmp_path / "other").mkdir()
    assert "1 of them unverified" in tune("merge", tmp_path / "results", "--results", tmp_path / "other").out
    with pytest.warns(UserWarning, match="unverified"):
        assert tuner.load(file, 100, device="host").match == "exact"
    assert (
        tune("best", space(tmp_path / "mine", "a * x + 1"), "100", "--device", "host", "--json").json["match"]
        == "exact"
    )


STRAY = {
    "writes outside": ("x[i]; y[n] = 1", "writes outside"),
    "writes into its input": ("x[i]; ((float *)x)[0] = 1", "writes to an input"),
    "crashes": ("x[i]; if (i == 3) *(volatile int *)8 = 1", "crash"),
}


@pytest.mark.parametrize("what", STRAY)
def test_without_a_reference_stray_writes_and_crashes_are_seen(what: str, tmp_path: Path, tune: Tune) -> None:
    body, reason = STRAY[what]
    file = space(tmp_path / "mine", "none", "c", "x[i]")
    code = (tmp_path / "mine" / "f.c").read_text()
    (tmp_path / "mine" / "f.c").write_text(code.replace("y[i] = x[i];", f"{{ y[i] = {body}; }}"))
    done = tune(file, "100", "--device", "host")
    assert done.status == 1
    assert f"failed: {reason}" in done.err


def test_a_kernel_of_the_same_file_may_take_other_arguments(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", "none")
    data = yaml.safe_load(file.read_text())
    data["operation"]["reference"] = {"kernel": "slow", "arguments": ["n", "x", "y"]}
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    slow = "void slow(int n, const float *x, float *y) { for (int i = 0; i < n; i++) y[i] = 2 * x[i] + 1; }\n"
    code = (tmp_path / "mine" / "f.c").read_text()
    (tmp_path / "mine" / "f.c").write_text(f"#ifndef step\n#define step 1\n#endif\n{code}{slow}")
    assert tune(file, "100", "--device", "host").status == 0


def test_a_function_gets_what_it_asks_for_and_may_import_what_lies_beside_it(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", PYTHON)
    (tmp_path / "mine" / "check.py").write_text(
        "import sys\nfrom beside import double\nprint('hello')\n"
        "def expected(**given):\n"
        "    assert sorted(given) == ['a', 'n', 'x', 'y'], sorted(given)\n"
        "    assert given['x'].dtype == 'float32' and given['x'].shape == (given['n'],)\n"
        "    import later\n"
        "    sys.stdout.write('noise'); sys.stdout.flush()\n"
        "    given['x'] *= given['a']\n"  # its own copy
        "    return {'y': later.more(double(given['x'])) }\n"
    )
    (tmp_path / "mine" / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "mine" / "later.py").write_text("def more(x):\n    return x / 2 + 1\n")
    done = tune(file, "100", "--device", "host", "--json")
    assert done.status == 0, done.err
    assert done.json["best"]["verified"] == "python"
    assert not (tmp_path / "mine" / "__pycache__").exists()


# what is wrong: (check.py, what the one message says)
BAD_PYTHON = {
    "no such function": ("def other(x):\n    pass\n", "there is no function expected"),
    "not Python": ("def expected(:\n", "check.py:1: "),
    "raises at once": ("x = 1\nraise ValueError('no')\n", "check.py:2: expected() does not return: ValueError: no"),
    "raises": ("def expected(x):\n    return x + unknown\n", "check.py:2: expected() does not return: NameError"),
    "raises in another file": ("import beside\ndef expected(x):\n    beside.fail()\n", "beside.py:2: expected()"),
    "leaves": (
        "import sys\ndef expected(x):\n    sys.exit(3)\n",
        "check.py:3: expected() does not return: SystemExit: 3",
    ),
    "never returns from itself": ("def expected(x):\n    return expected(x)\n", "RecursionError"),
    "ends the process": ("import os\ndef expected(x):\n    os._exit(0)\n", "cannot be computed"),
    "closes the channel": (
        "import os\ndef expected(x):\n    os.closerange(0, 99999)\n    return x\n",
        "cannot be computed",
    ),
    "another shape": (
        "def expected(x):\n    return x[1:]\n",
        "check.py:1: expected() returns what has shape (99,); y has (100,)",
    ),
    "words": ("def expected(x):\n    return ['a'] * len(x)\n", "no numbers"),
    "objects": ("def expected(x):\n    return [None] * len(x)\n", "no array of numbers for y: a list"),
    "nothing": ("def expected(x):\n    pass\n", "no array of numbers for y: a NoneType"),
    "ragged lists": ("def expected(x):\n    return [[1], [1, 2]]\n", "returns no array for y"),
    "another output": ("def expected(x):\n    return {'z': x}\n", "returns a dict of z; return one of y"),
    "asks for more": ("def expected(x, w):\n    return x\n", "expected() asks for w; it may ask for y, x, n, a"),
    "no function": ("expected = 3\n", "there is no function expected"),
    "imports what is missing": ("import not_there_at_all\ndef expected(x):\n    return x\n", "ModuleNotFoundError"),
}


@pytest.mark.parametrize("what", BAD_PYTHON)
def test_what_is_wrong_with_a_function_is_one_message(what: str, tmp_path: Path, tune: Tune) -> None:
    code, message = BAD_PYTHON[what]
    file = space(tmp_path / "mine", PYTHON)
    (tmp_path / "mine" / "check.py").write_text(code)
    (tmp_path / "mine" / "beside.py").write_text("def fail():\n    raise ValueError\n")
    done = tune(file, "100", "--device", "host")
    assert (done.status, done.out) == (2, ""), done.err
    assert message in done.err
    assert "Traceback" not in done.err
    assert " failed: " not in done.err
    assert str(tmp_path / "mine") in done.err


# what is wrong: (reference, what `tune validate` says and where)
BAD_FILES: dict[str, tuple[Any, str]] = {
    "no file": ({"python": "none.py:expected"}, "operation.reference: {}/none.py: cannot be read"),
    "no function named": ({"python": "check.py"}, "operation.reference.python: 'check.py' names no function"),
    "a function that is not there": ({"python": "check.py:exp"}, "there is no function exp; it defines expected"),
    "a key too much": ({**PYTHON, "name": "x"}, "operation.reference.name: unknown key; a reference by `python` has"),
    "no kernel": ({"kernel": "none", "source": "naive.c"}, "operation.reference.kernel: {}/naive.c has no kernel none"),
    "no source": ({"kernel": "naive", "source": "none.c"}, "the kernel file cannot be read"),
    "fewer arguments": ({"kernel": "naive", "source": "naive.c", "arguments": ["y"]}, "naive in naive.c takes 4"),
    "an argument that is not there": (
        {"kernel": "naive", "arguments": ["z"]},
        "'z' is no argument; there are: y, x, n",
    ),
    "without its output": ({"kernel": "naive", "arguments": ["x", "n"]}, "y is missing, which is an output"),
    "a grid without a value": (
        {"kernel": "naive", "source": "naive.c", "grid": "n // 0"},
        "operation.reference.grid.0: ",
    ),
    "a grid of parameters": ({"kernel": "naive", "grid": "step"}, "operation.reference.grid.0: "),
    "a value that is not declared": ({"config": {"step": 5}}, "operation.reference.config.step: 5 is not a declared"),
    "a parameter that is not there": ({"config": {"stop": 1}}, "operation.reference.config.stop: "),
    "no configuration": ({"config": {}}, "operation.reference.config: no value for step"),
    "a word": ({"config": "best"}, "operation.reference.config: 'best': write `default`"),
    "nothing": (None, "operation.reference: "),
    "another output": ({"z": "x"}, "operation.reference: write one for each output: y"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_what_is_wrong_with_a_reference_is_said_without_a_device(what: str, tmp_path: Path, tune: Tune) -> None:
    reference, message = BAD_FILES[what]
    file = space(tmp_path / "mine", "none")
    data = yaml.safe_load(file.read_text())
    data["operation"]["reference"] = reference
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    done = tune("validate", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert message.format(tmp_path / "mine") in done.err
    assert done.err.startswith(f"error: {file}:")


@pytest.mark.parametrize("end", ["raise ValueError('too late')", "os._exit(0)"])
def test_a_function_that_fails_in_the_finals_is_one_message(end: str, tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", PYTHON)
    (tmp_path / "mine" / "check.py").write_text(
        "import os, pathlib\nfile = pathlib.Path(__file__).parent / 'calls'\n"
        "def expected(x, *, a):\n"
        "    calls = len(file.read_text()) if file.exists() else 0\n"
        "    file.write_text('x' * (calls + 1))\n"
        f"    if calls == 2:\n        {end}\n"
        "    return a * x + 1.0\n"
    )
    done = tune(file, "100", "--device", "host")
    assert (done.status, done.out) == (2, ""), done.err
    assert "too late" in done.err if "raise" in end else "cannot be computed" in done.err
    assert " failed: " not in done.err
    assert tune(file, "100", "--device", "host").status == 0


def test_what_a_function_computed_is_kept_when_a_kernel_crashes(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", PYTHON, body="a * x[i] + 1; if (step == 2) *(volatile int *)8 = 1")
    file.write_text(file.read_text().replace("  step:\n  - 1\n", "  step:\n  - 1\n  - 2\n"))
    (tmp_path / "mine" / "check.py").write_text(
        "import pathlib\n"
        "def expected(x, *, a):\n"
        "    with open(pathlib.Path(__file__).parent / 'calls', 'a') as file:\n        file.write('x')\n"
        "    return a * x + 1.0\n"
    )
    done = tune(file, "100", "--device", "host", "--json")
    assert (done.status, done.json["failed"]) == (0, {"crash": 1}), done.err
    assert len((tmp_path / "mine" / "calls").read_text()) == 3  # once for each set of inputs


def test_inputs_that_a_function_draws_by_itself_are_refused(tmp_path: Path, tune: Tune) -> None:
    file = space(
        tmp_path / "mine",
        PYTHON,
        fill={"python": "data.py:drawn"},
        body="a * x[i] + 1; if (step == 2) *(volatile int *)8 = 1",
    )
    file.write_text(file.read_text().replace("  step:\n  - 1\n", "  step:\n  - 2\n  - 1\n"))
    (tmp_path / "mine" / "data.py").write_text(
        "import numpy as np\ndef drawn(n):\n    return np.random.rand(n).astype('f')\n"
    )
    done = tune(file, "100", "--device", "host")
    assert done.status == 2
    assert "x: other contents for the same generator; draw from `rng` alone" in done.err


def test_a_reference_that_takes_long_is_computed_for_one_set(
    tmp_path: Path, host: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = catalog.load(str(space(tmp_path / "mine", PYTHON)))
    scope = scope_of(loaded, host, "100")
    assert Bench(host, loaded, scope).workbench.set_count == 2
    monkeypatch.setattr("tuner.measure.input_sets.DEAR_SECONDS", 0.0)
    assert Bench(host, loaded, scope).workbench.set_count == 1


BAD_KERNELS = {
    "does not compile": ("void naive(float *y, const float *x, int n, float a) { y[0] = none; }", "compile: "),
    "writes outside": (
        "void naive(float *y, const float *x, int n, float a) { NAIVE y[n] = 0; }",
        "writes outside of y",
    ),
    "leaves an element": (
        "void naive(float *y, const float *x, int n, float a) { NAIVE y[7] = was; }",
        "y[7] is not written",
    ),
    "crashes": (
        "void naive(float *y, const float *x, int n, float a) { *(volatile int *)8 = 1; }",
        "cannot be computed",
    ),
}


@pytest.mark.parametrize("what", BAD_KERNELS)
def test_a_reference_kernel_that_cannot_serve_is_one_message(what: str, tmp_path: Path, tune: Tune) -> None:
    code, message = BAD_KERNELS[what]
    file = space(tmp_path / "mine", KERNEL)
    loop = "float was = y[7]; for (int i = 0; i < n; i++) y[i] = a * x[i] + 1;"
    (tmp_path / "mine" / "naive.c").write_text(code.replace("NAIVE", loop))
    done = tune(file, "100", "--device", "host")
    assert (done.status, done.out) == (2, ""), done.err
    assert message in done.err
    assert " failed: " not in done.err
    assert str(file) in done.err


FILLS: dict[str, tuple[str, str | None]] = {
    "what is drawn": (DATA, None),
    "a dict": ("def drawn(rng, *, n, a):\n    return {'x': (rng.random(n) * a).astype('float32')}\n", None),
    "another type": (
        "def drawn(rng, n):\n    return rng.random(n)\n",
        "returns float64 for x; the kernel takes float32",
    ),
    "another shape": (
        "def drawn(rng, n):\n    return rng.random(3, 'f')\n",
        "returns shape (3,) for x; (100,) is needed",
    ),
    "another name": (
        "def drawn(rng, n):\n    return {'w': rng.random(n, 'f')}\n",
        "returns a dict of w; return one of x",
    ),
    "an error": ("def drawn(rng, n):\n    return 1 / 0\n", "data.py:2: drawn() does not return: ZeroDivisionError"),
    "an argument too much": ("def drawn(rng, m):\n    pass\n", "drawn() asks for m; it may ask for rng, n, a"),
}


@pytest.mark.parametrize("what", FILLS)
def test_a_function_fills_an_input(what: str, tmp_path: Path, tune: Tune) -> None:
    code, message = FILLS[what]
    file = space(tmp_path / "mine", "a * x + 1", fill={"python": "data.py:drawn"})
    (tmp_path / "mine" / "data.py").write_text(code)
    done = tune(file, "100", "--device", "host")
    assert "runs data.py:drawn of" in done.err
    if message is None:
        assert done.status == 0, done.err
        assert tune("best", file, "100", "--device", "host", "--json").json["record"]["input_sets"] == 3
    else:
        assert (done.status, done.out) == (2, "")
        assert message in done.err
        assert " failed: " not in done.err


CSR_C = """void f(float *y, const float *values, const int *columns, const int *rows, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        float s = 0;
        for (int k = rows[i]; k < rows[i + 1]; k++) s += values[k] * x[columns[k]];
        y[i] = s;
    }
}
"""


def test_one_call_fills_several_arrays_and_a_sparse_product_is_verified(tmp_path: Path, tune: Tune) -> None:
    csr = {"python": "data.py:csr"}
    operation = {
        "sizes": {"n": None},
        "extent": ["n"],
        "arguments": [
            array("y", "float32", ["n"], "out"),
            array("values", "float32", ["3 * n"], fill={**csr}),
            array("columns", "int32", ["3 * n"], fill={**csr}),
            array("rows", "int32", ["n + 1"], fill={**csr}),
            array("x", "float32", ["n"]),
            {"name": "n", "dtype": "int32"},
        ],
        "reference": {"python": "data.py:product"},
        "tolerance": "64 * epsilon",
    }
    (tmp_path / "data.py").write_text(
        "import numpy as np\n"
        "def csr(rng, *, n):\n"
        "    rows = np.sort(np.r_[0, rng.integers(0, 3 * n, n - 1), 3 * n]).astype('int32')\n"
        "    columns = rng.integers(0, n, 3 * n).astype('int32')\n"
        "    return {'rows': rows, 'columns': columns, 'values': rng.random(3 * n, dtype='float32')}\n"
        "def product(values, columns, rows, x):\n"
        "    import scipy.sparse\n"
        "    return scipy.sparse.csr_matrix((values.astype('float64'), columns, rows)) @ x.astype('float64')\n"
    )
    (tmp_path / "f.c").write_text(CSR_C)
    keys = {"title": "t", "operation": operation, "kernel": "f", "languages": ["c"], "parameters": {"step": [1]}}
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(keys))
    done = tune(tmp_path / "f.yaml", "200", "--device", "host")
    assert done.status == 0, done.err
    assert done.err.count("runs data.py:csr and data.py:product of") == 1
    (tmp_path / "f.c").write_text(CSR_C.replace("k < rows[i + 1]", "k < rows[i + 1] - (i == 150)"))
    assert tune(tmp_path / "f.yaml", "200", "--device", "host").status == 1


TRAP = """import pathlib
with open(pathlib.Path(__file__).parent / 'executed', 'a') as file:
    file.write('x')
def expected(x, *, a):
    return a * x.astype('float64') + 1
def drawn(rng, n):
    return rng.random(n, dtype='float32')
"""


def test_python_is_executed_by_nothing_but_tuning_and_verifying(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", PYTHON, fill={"python": "check.py:drawn"})
    (tmp_path / "mine" / "check.py").write_text(TRAP)
    executed = tmp_path / "mine" / "executed"
    assert tune(file, "100", "--device", "host").status == 0
    assert executed.exists()  # the trap works
    executed.unlink()
    assert tune("run", file, "100", "--device", "host").status == 0
    assert executed.exists()
    executed.unlink()
    recording = tmp_path / "f.json"
    assert tune("record", file, "100", "--device", "host", "--output", recording).status == 0
    assert executed.exists()
    executed.unlink()
    for form in ("header", "csv", "t4", "t1", "source", "kernel-tuner"):
        tune("export", file, "100", "--to", form, "--output", tmp_path / f"out.{form}")
    assert tune("export", file, "100", "--to", "csv", "--output", tmp_path / "out.csv").status == 0
    for words in (
        ("list",),
        ("show", file, "100"),
        ("best", file, "100"),
        ("validate", file, "100"),
        ("import", recording, "--kernel", file, "--size", "100", "--kind", "host"),
        ("merge", tmp_path / "results"),
        ("report",),
        ("replay", recording),
        ("schema",),
    ):
        assert tune(*words).status == 0, words
    kernel = tuner.load(file, 100, device="host")
    assert kernel.match == "exact"
    catalog.load(str(file))
    identity.of(kernel.space)
    source.signature(kernel.space)
    assert not executed.exists()
    assert not list((tmp_path / "mine").glob("__pycache__"))


def records(file: Path) -> list[tuple[str, str | None]]:
    space = catalog.load(str(file))
    return [(record.signature, record.code) for record in Store(space.name).records]


def test_code_has_one_identity_and_what_it_is_compared_with_another(tmp_path: Path, tune: Tune) -> None:
    folder = tmp_path / "mine"
    file = space(folder, PYTHON, fill={"python": "data.py:drawn"})
    (folder / "check.py").write_text("import beside\n" + CHECK)
    (folder / "beside.py").write_text("")

    def is_measured_before() -> bool:
        done = tune(file, "100", "--device", "host")
        assert done.status == 0, done.err
        return "1 measured before" in done.err

    assert tune(file, "100", "--device", "host").status == 0
    assert is_measured_before()
    for name, text in {"check.py": "import beside\n\n" + CHECK, "beside.py": "x = 1", "data.py": DATA + "\n"}.items():
        (folder / name).write_text(text)
        assert not is_measured_before(), name
    drawn = {"fill": {"python": "data.py:drawn"}}
    for reference, more in ((PYTHON, {**drawn, "tolerance": 1e-3}), (KERNEL, drawn), (KERNEL, {})):
        space(folder, reference, **more)
        assert not is_measured_before(), file.read_text()
        assert tuner.load(file, 100, device="host", strict=True).match == "exact"  # the code is the same all the time
    (folder / "f.c").write_text(C.replace("BODY", "1 + a * x[i]"))
    with pytest.warns(UserWarning, match="an earlier version of the kernel"):
        tuner.load(file, 100, device="host")
    signatures, codes = zip(*records(file), strict=True)
    assert (len(set(signatures)), len(set(codes))) == (len(signatures), 1)


def test_a_changed_reference_kernel_is_measured_again(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", KERNEL)
    first = tune(file, "100", "--device", "host")
    (tmp_path / "mine" / "naive.c").write_text(NAIVE_C + "// a comment changes nothing\n")
    second = tune(file, "100", "--device", "host")
    (tmp_path / "mine" / "naive.c").write_text(NAIVE_C.replace("+ 1", "+ 1.0f"))
    third = tune(file, "100", "--device", "host")
    assert [done.status for done in (first, second, third)] == [0, 0, 0]
    assert ["1 measured before" in done.err for done in (first, second, third)] == [False, True, False]


def test_a_record_without_the_name_of_its_code_is_matched_by_its_signature(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", "a * x + 1")
    assert tune(file, "100", "--device", "host").status == 0
    (stored,) = (tmp_path / "results").rglob("f.jsonl")
    header, line = stored.read_text().splitlines()
    record = json.loads(line)
    assert record["signature"] == source.signature(catalog.load(str(file)))  # as it was before there were other forms
    stored.write_text(f"{header}\n{json.dumps({k: v for k, v in record.items() if k not in ('code', 'verified')})}\n")
    assert tuner.load(file, 100, device="host", strict=True).match == "exact"
    assert "unverified" not in tune("report").out


def test_the_record_of_the_latest_reference_comes_first(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", "a * x + 1")
    assert tune(file, "100", "--device", "host").status == 0
    (stored,) = (tmp_path / "results").rglob("f.jsonl")
    record = json.loads(stored.read_text().splitlines()[1])
    later = {**record, "signature": "another", "date": "2099-01-01T00:00:00+00:00", "time_ms": 2 * record["time_ms"]}
    with stored.open("a") as lines:
        lines.write(json.dumps(later) + "\n")
    best = tune("best", file, "100", "--device", "host", "--json").json
    assert (best["match"], best["stale"], best["record"]["signature"]) == ("exact", False, "another")


def test_functions_and_kernels_move_along_with_their_folder(tmp_path: Path, tune: Tune) -> None:
    for reference in (PYTHON, KERNEL):
        file = space(tmp_path / "mine", reference)
        catalog.load(str(file))  # leaves its launch form in the cache
        moved = tmp_path / f"moved {next(iter(reference))}" / "mine"
        moved.parent.mkdir()
        file.parent.rename(moved)
        done = tune(moved / "f.yaml", "100", "--device", "host")
        assert done.status == 0, done.err
