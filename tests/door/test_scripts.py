"""Scripts of Kernel Tuner run as they are, and `run_kernel` returns what it returns there."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from helpers.scripts_of_kernel_tuner import ADD, SCALE, vectors
from tuner.door import run_kernel
from tuner.errors import DeviceError, RequestError, TrialError

pytestmark = pytest.mark.slow

SCRIPT = """
import sys

import kernel_tuner
import numpy
from kernel_tuner import run_kernel, tune_kernel
from kernel_tuner.interface import tune_kernel as same
from kernel_tuner.util import get_best_config

import beside

SOURCE = {source!r}


def main():
    x = numpy.random.rand(100).astype(numpy.float32)
    arguments = [numpy.zeros_like(x), x, numpy.int32(100)]
    expected = run_kernel("scale", SOURCE, 100, arguments, {{"unroll": 1, "width": 0}}, lang="C")
    parameters = {{"unroll": [1, 2, 4], "width": [0, 1]}}
    rows, env = tune_kernel(
        "scale", SOURCE, 100, arguments, parameters, answer=[expected[0], None, None], lang="C",
        verify=lambda answer, result, atol: beside.close(answer[0], result[0]), restrictions=["width < 1"],
    )
    assert same is tune_kernel is kernel_tuner.tune_kernel
    print("best", get_best_config(rows, "time")["unroll"], *sys.argv[1:])


if __name__ == "__main__":
    main()
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tuner.door", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def test_a_script_runs_as_it_is_with_modules_beside_it_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "beside.py").write_text("import numpy\ndef close(a, b): return numpy.allclose(a, b)\n")
    (tmp_path / "scripts" / "tune.py").write_text(SCRIPT.format(source=SCALE.replace("BODY", "")))
    done = run(tmp_path, "scripts/tune.py", "--more", "3")
    assert done.stdout.splitlines()[-1] == "best 4 --more 3", done.stderr
    assert "unroll=1, width=0, time=10.000ms" in done.stdout
    assert "BEST PERFORMING CONFIGURATION FOR OBJECTIVE time:\nunroll=4, width=0, time=1.000ms" in done.stdout


def test_a_missing_script_and_an_error_of_ours_are_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, "none.py")
    assert done.returncode == 1
    assert done.stderr.startswith("'none.py': there is no such script; usage: python -m tuner.door SCRIPT.py")
    (tmp_path / "tune.py").write_text(
        'import kernel_tuner\nkernel_tuner.tune_kernel("f", "void f() {}", 1, [3], {"a": [1]})\n'
    )
    done = run(tmp_path, "tune.py")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    (tmp_path / "scale.cl").write_text("kernel void scale() {}\n")
    done = run(tmp_path, "scale.cl")
    assert done.stderr.startswith("scale.cl: not Python 3: invalid syntax")
    assert done.stderr.count("\n") == 1


def test_an_interrupt_is_one_line_and_what_was_measured_is_in_the_cache_file(tmp_path: Path) -> None:
    source = SCALE.replace("BODY", "").replace("return", "usleep(100000); return")
    text = f"""
import kernel_tuner, numpy
x = numpy.ones(100, numpy.float32)
kernel_tuner.tune_kernel(
    "scale", {"#include <unistd.h>" + source!r}, 100, [0 * x, x, numpy.int32(100)],
    {{"unroll": [4], "width": list(range(1000))}}, lang="C", cache="rows", quiet=True)
"""
    (tmp_path / "tune.py").write_text(text)
    with subprocess.Popen(
        [sys.executable, "-m", "tuner.door", "tune.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as running:
        file = tmp_path / "rows.json"
        while not (file.exists() and "compile_time" in file.read_text()):
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        errors = running.communicate()[1]
    assert running.returncode == 130
    assert errors == "tuner: interrupted; run the script again to continue: what was measured is kept\n"


def test_run_kernel_returns_all_arguments_after_the_run() -> None:
    c, a, b = vectors()
    returned = run_kernel("add", ADD, 1000, [c, a, b, np.int32(1000)], {"block_size_x": 64})
    assert returned[0] == pytest.approx(a + b)
    assert (returned[1] == a).all()
    assert returned[3] == 1000
    assert not c.any()


def test_run_kernel_says_what_is_wrong() -> None:
    c, a, b = vectors()
    arguments = [c, a, b, np.int32(1000)]
    with pytest.raises(TrialError, match="undeclared"):
        run_kernel("add", ADD.replace("i < n", "i < m"), 1000, arguments, {"block_size_x": 64})
    with pytest.raises((RequestError, DeviceError), match="platform 7"):
        run_kernel("add", ADD, 1000, arguments, {"block_size_x": 64}, platform=7)
