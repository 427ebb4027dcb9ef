"""Functions in Python, as references and as inputs: what they get, what is wrong with them, and who runs them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import yaml

import tuner
from helpers import ROOT
from helpers.operations import array, written
from helpers.processes import Tune
from helpers.references import DATA, PYTHON, space
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.exchange.formats import FORMATS
from tuner.measure.answers.referee import Referee
from tuner.measure.benchmark import Bench
from tuner.measure.verify import input_sets
from tuner.space import identity
from tuner.space.answers.cache import ReferenceCache
from tuner.space.sources import rendering


@pytest.mark.slow
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
        "check.py:1: expected(): its result has shape (99,); y has (100,)",
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


# of those, what ends or leaves a process, and an error in its own file and in another: whole commands show the rest
IN_COMMANDS = ["not Python", "raises", "raises in another file", "leaves", "ends the process", "closes the channel"]


def bad_function(what: str, folder: Path) -> Path:
    """Writes the space of a function that is wrong."""
    file = space(folder, PYTHON)
    (folder / "check.py").write_text(BAD_PYTHON[what][0])
    (folder / "beside.py").write_text("def fail():\n    raise ValueError\n")
    return file


def refused(file: Path, device: Device) -> str:
    """The message about a space whose inputs or answers cannot be computed."""

    def draw() -> None:
        loaded = catalog.load(str(file))
        input_sets.draw(Referee(device, loaded, ReferenceCache()), scope_of(loaded, device, "100"), 0)

    with pytest.raises(tuner.SpaceError) as refusal:
        draw()
    return str(refusal.value)


@pytest.mark.parametrize("what", [what for what in BAD_PYTHON if what not in IN_COMMANDS])
def test_what_is_wrong_with_a_function_is_an_error_of_its_space(what: str, tmp_path: Path, host: Device) -> None:
    message = refused(bad_function(what, tmp_path / "mine"), host)
    assert BAD_PYTHON[what][1] in message
    assert str(tmp_path / "mine") in message


@pytest.mark.slow
@pytest.mark.parametrize("what", IN_COMMANDS)
def test_what_is_wrong_with_a_function_is_one_message(what: str, tmp_path: Path, tune: Tune) -> None:
    message, file = BAD_PYTHON[what][1], bad_function(what, tmp_path / "mine")
    done = tune(file, "100", "--device", "host")
    assert (done.status, done.out) == (2, ""), done.err
    assert message in done.err
    assert "Traceback" not in done.err
    assert " failed: " not in done.err
    assert str(tmp_path / "mine") in done.err


@pytest.mark.slow
@pytest.mark.parametrize("end", ["raise ValueError('too late')", "os._exit(0)"])
def test_a_function_that_fails_in_the_finals_is_one_message(end: str, tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", PYTHON)
    (tmp_path / "mine" / "check.py").write_text(
        "import os, pathlib\nfile = pathlib.Path(__file__).parent / 'calls'\n"
        "def expected(x, *, a):\n"
        "    calls = len(file.read_text()) if file.exists() else 0\n"
        "    file.write_text('x' * (calls + 1))\n"
        f"    if calls == 5:\n        {end}\n"  # after two sets, rounded inputs, and another option and input
        "    return a * x + 1.0\n"
    )
    done = tune(file, "100", "--device", "host")
    assert (done.status, done.out) == (2, ""), done.err
    assert "too late" in done.err if "raise" in end else "cannot be computed" in done.err
    assert " failed: " not in done.err
    assert tune(file, "100", "--device", "host").status == 0


@pytest.mark.slow
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
    calls = (tmp_path / "mine" / "calls").read_text()
    assert len(calls) == 7  # for three sets of inputs, rounded ones, another option (twice), and another input


@pytest.mark.slow
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


def test_inputs_and_answers_that_take_long_are_computed_for_fewer_sets(
    tmp_path: Path, host: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = catalog.load(str(space(tmp_path / "mine", PYTHON)))
    scope = scope_of(loaded, host, "100")
    sets = {}
    for seconds in (math.inf, 0.0):  # for one set, from which on the search has one, and the finals have the second
        monkeypatch.setattr("tuner.measure.verify.input_sets.SLOW_SECONDS", seconds)
        bench = Bench(host, loaded, scope)
        searched = bench.workbench.set_count, bench.workbench.inputs.seed
        bench.renew()
        sets[seconds] = searched, bench.workbench.set_count, bench.workbench.inputs.seed
        assert bench.measure({"step": 1}).failure is None
    assert sets == {math.inf: ((2, 0), 3, 2), 0.0: ((1, 0), 2, 1)}
    monkeypatch.setattr("tuner.measure.verify.input_sets.EXPENSIVE_SECONDS", 0.0)
    assert Bench(host, loaded, scope).workbench.set_count == 1


FILLS = {
    "what is drawn": DATA,
    "a dict": "def drawn(rng, *, n, a):\n    return {'x': (rng.random(n) * a).astype('float32')}\n",
}
BAD_FILLS = {
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


@pytest.mark.slow
@pytest.mark.parametrize("what", FILLS)
def test_a_function_fills_an_input(what: str, tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", "a * x + 1", fill={"python": "data.py:drawn"})
    (tmp_path / "mine" / "data.py").write_text(FILLS[what])
    done = tune(file, "100", "--device", "host")
    assert done.status == 0, done.err
    assert "runs data.py:drawn of" in done.err
    assert tune("best", file, "100", "--device", "host", "--json").json["record"]["input_sets"] == 3


@pytest.mark.parametrize("what", BAD_FILLS)
def test_what_is_wrong_with_a_fill_is_an_error_of_its_space(what: str, tmp_path: Path, host: Device) -> None:
    file = space(tmp_path / "mine", "a * x + 1", fill={"python": "data.py:drawn"})
    (tmp_path / "mine" / "data.py").write_text(BAD_FILLS[what][0])
    assert BAD_FILLS[what][1] in refused(file, host)


SEVERAL = {"real": ["float32", "float16"], "count": ["int32", "uint8"]}
ADD_C = """void f(real *y, const real *x, const count *c, int n) {
    for (int i = 0; i < n; i++) y[i] = (real)((float)x[i] + (float)c[i]);
}
"""


def several_types(folder: Path, data: str) -> Path:
    """A kernel whose types are chosen of several, and whose inputs Python fills."""
    made = {"python": "data.py:made"}
    arguments = [
        array("y", "real", ["n"], "out"),
        array("x", "real", ["n"], fill=made),
        array("c", "count", ["n"], fill={**made}),
        {"name": "n", "dtype": "int32"},
    ]
    file = space(folder, "x + c", options={}, types=SEVERAL, arguments=arguments)
    (folder / "f.c").write_text(ADD_C)
    (folder / "data.py").write_text(data)
    return file


@pytest.mark.slow
def test_a_function_fills_inputs_of_the_type_that_is_chosen(tmp_path: Path, tune: Tune) -> None:
    data = "def made(rng, n):\n    return {'x': rng.random(n), 'c': rng.integers(1, 9, n)}\n"
    file = several_types(tmp_path / "mine", data)
    given = ("100", "--type", "real=float16", "--type", "count=uint8")
    assert tune("validate", file, *given).status == 0
    done = tune(file, *given, "--device", "host", "--json")
    assert (done.status, done.json["failed"]) == (0, {}), done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x", "c", "says"),
    [
        ("rng.random(n) + 70000", "rng.integers(1, 9, n)", "for x; float16, the chosen type, cannot hold it"),
        ("rng.random(n)", "rng.integers(-9, -8, n)", "returns -9 for c; uint8, the chosen type, cannot hold"),
        ("rng.random(n)", "rng.random(n)", "returns float64 for c; the kernel takes uint8; convert it"),
        ("rng.integers(1, 9, n)", "rng.integers(1, 9, n)", "returns int64 for x; the kernel takes float16; convert it"),
    ],
)
def test_numbers_that_the_chosen_type_cannot_hold_are_an_error(
    x: str, c: str, says: str, tmp_path: Path, tune: Tune
) -> None:
    file = several_types(tmp_path / "mine", f"def made(rng, n):\n    return {{'x': {x}, 'c': {c}}}\n")
    done = tune(file, "100", "--type", "real=float16", "--type", "count=uint8", "--device", "host")
    assert (done.status, done.out) == (2, "")
    assert says in done.err


def test_a_fill_that_fails_is_one_message(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", "a * x + 1", fill={"python": "data.py:drawn"})
    code, message = BAD_FILLS["an error"]
    (tmp_path / "mine" / "data.py").write_text(code)
    done = tune(file, "100", "--device", "host")
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert " failed: " not in done.err


CSR_C = """void f(float *y, const float *values, const int *columns, const int *rows, const float *x, int n) {
    for (int i = 0; i < n; i++) {
    float s = 0; for (int k = rows[i]; k < rows[i + 1]; k++) s += values[k] * x[columns[k]];
    y[i] = s; } }
"""


@pytest.mark.slow
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


@pytest.mark.slow
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
    exports = [
        tune(
            "export", file, *([] if of.holds_family else ["100"]), "--to", form, "--output", tmp_path / "out" / form
        ).status
        for form, of in FORMATS.items()
    ]
    assert (
        exports.count(0) == len(FORMATS) - 4
    )  # there is no cubin of C, nothing for a patch to change, and no table of times
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
    rendering.signature(kernel.space)
    assert not executed.exists()
    assert not list((tmp_path / "mine").glob("__pycache__"))


@pytest.mark.slow
def test_the_example_of_the_page_is_tuned(tmp_path: Path, tune: Tune) -> None:
    page = (ROOT / "docs/references.md").read_text()
    for comment, name in re.findall(r"^```\w+\n(//|#) (spmv\.\w+)$", page, re.MULTILINE):
        (tmp_path / name).write_text(page.partition(f"{comment} {name}\n")[2].partition("```")[0])
    file = tmp_path / "spmv.yaml"
    assert tune("validate", file).status == 0
    done = tune(file, "100", "--device", "opencl", "--budget", "3", "--repeats", "3")
    assert done.status == 0, done.err
    assert "runs spmv.py:csr and spmv.py:product of " in done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("".join(f"elif {i}:\n    pass\n" for i in range(1200)) + "def expected(x):\n    return x\n", None),
        ("x = " + "-" * 500_000 + "1\n", "not Python: "),
        ("x = '" + "x" * 1_000_000 + "'\n", "at most 1,000,000 characters are allowed"),
    ],
    ids=["a long chain of branches", "nested too deeply", "too long"],
)
def test_python_of_any_depth_and_length_is_checked_without_being_run(
    code: str, message: str | None, tmp_path: Path, tune: Tune
) -> None:
    file = space(tmp_path / "mine", PYTHON)
    (tmp_path / "mine" / "check.py").write_text(("if 0:\n    pass\n" if message is None else "") + code)
    done = tune("validate", file)
    assert (done.status, len(done.err.splitlines())) == ((0, 0) if message is None else (2, 1)), done.err
    assert message is None or (message in done.err and not done.err.strip().endswith("not Python:"))


@pytest.mark.slow
def test_functions_of_two_folders_import_what_lies_beside_each(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", {"python": "b/check.py:expected"}, fill={"python": "a/data.py:drawn"})
    for folder, factor in (("a", 3), ("b", 1)):
        (tmp_path / "mine" / folder).mkdir()
        (tmp_path / "mine" / folder / "helper.py").write_text(f"FACTOR = {factor}\n")
    (tmp_path / "mine" / "a" / "data.py").write_text(
        "import helper\ndef drawn(rng, n):\n    return rng.random(n, dtype='float32') + helper.FACTOR\n"
    )
    (tmp_path / "mine" / "b" / "check.py").write_text(
        "def expected(x, *, a):\n    import helper\n    return helper.FACTOR * (a * x.astype('float64') + 1)\n"
    )
    assert tune(file, "100", "--device", "host").status == 0


IMPORTED = {
    "threads": """
import threading, time
lock = threading.Lock()
def spin():
    while True:
        with lock:
            time.sleep(0.01)
        time.sleep(0.001)
threading.Thread(target=spin, daemon=True).start()
""",
    "OpenMP": """
import ctypes, pathlib, subprocess, tempfile, threading
lock, folder = threading.Lock(), pathlib.Path(tempfile.mkdtemp())
text = ["int f(void) { int s = 0;", "#pragma omp parallel num_threads(2) reduction(+:s)", "s += 1; return s; }"]
(folder / "f.c").write_text("\\n".join(text))
subprocess.run(["cc", "-fopenmp", "-shared", "-fPIC", "-o", folder / "f.so", folder / "f.c"], check=True)
ctypes.CDLL(str(folder / "f.so")).f()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("before", IMPORTED.values(), ids=IMPORTED)
def test_what_a_reference_starts_when_it_is_imported_hangs_no_kernel(before: str, tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(f"{before}\ndef expected(x):\n    with lock:\n        return 2 * x\n")
    loop = "#pragma omp parallel for num_threads(2)\nfor (int i = 0; i < n; i++) y[i] = 2 * x[i];"
    code = f"void f(float *y, const float *x, int n) {{\n{loop}\n}}"
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    file = written(tmp_path, code, arguments, {"python": "answers.py:expected"}, "c")
    done = tune(file, "4096", "--device", "host", "--timeout", "20", "--json")
    assert (done.status, done.json["failed"]) == (0, {}), done.err
