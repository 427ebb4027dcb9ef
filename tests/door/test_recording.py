"""`tune new --from-script` writes down what a script of Kernel Tuner tunes."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path

import kernel_tuner
import numpy as np
import pytest
import yaml

from helpers.scripts_of_kernel_tuner import ADD, SCALE
from helpers.spaces import WIDEST
from tuner import devices
from tuner.devices.built import build
from tuner.door import spaces
from tuner.door.calls.arguments import passed
from tuner.door.calls.call import Call
from tuner.space.instance import Instance

pytestmark = pytest.mark.slow

SCRIPT = """import os
import kernel_tuner
import numpy

x = numpy.random.rand(100).astype(numpy.float32)
arguments = [numpy.zeros_like(x), x, numpy.int32(100)]


def small(config):
    return config["width"] < 2


print("tuning", os.path.sameopenfile(1, 2))
for number in range(2):
    results, env = kernel_tuner.tune_kernel(
        "scale", {scale!r}, 100, arguments, {{"unroll": [1, 4], "width": [0, 1, 2]}}, lang="C",
        answer=[2 * x, None, None], restrictions=["unroll > number".replace("number", str(number)), small],
    )
results, env = kernel_tuner.tune_kernel(
    "add", "add.cl", lambda p: 100, [arguments[0], x, x, numpy.int32(100)], {{"block_size_x": [32], "pad": [0, 1]}},
    verify=small, restrictions=[small, lambda p: True, small],
)
best = min(results, key=lambda row: row["time"])
raise SystemExit("a script goes no further than its results")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.format(scale=SCALE.replace("BODY", "")))
    file.with_name("add.cl").write_text(ADD.replace("__global const float *b", "__constant float *b"))
    monkeypatch.chdir(tmp_path)
    return file


def test_each_call_is_a_space_file_with_questions_where_python_is(script: Path, tmp_path: Path, tune) -> None:
    done = tune("new", "--from-script", script, "--output", tmp_path / "spaces", "--json")
    assert done.status == 0, done.err
    assert re.search(rf"runs {script}, until it ends or uses results.*\ntuning True\n", done.err)
    files = {Path(each["file"]).name: each["questions"] for each in json.loads(done.out)["files"]}
    assert files == {"scale.yaml": 1, "scale-2.yaml": 1, "add.yaml": 6}
    text = (tmp_path / "spaces" / "add.yaml").read_text()
    assert "source: ../add.cl\n" in text, "which can be moved together"
    assert text.count("role: in\n") == 2, "constant memory is only read"
    assert "restrictions:  # ? small() of script.py:9 restricts configurations" in text
    asked = [line.split()[-10] for line in text.splitlines() if "restricts configurations" in line]
    assert asked == ["small()", "<lambda>", "small()"], "in the order of the script"
    assert "add.yaml: 6 open questions" in tune("validate", tmp_path / "spaces" / "add.yaml").err
    assert "parameters:  # ? pad: neither add.cl nor an expression uses it" in text
    assert "# ? problem_size is <lambda>" in text
    assert "blocks_x" not in text, "which would be a macro that nothing reads"
    assert "# ? small() of script.py:9 judges outputs" in text


def test_a_written_file_tunes_after_its_answers(script: Path, tmp_path: Path, tune) -> None:
    assert tune("new", "--from-script", script, "--output", tmp_path / "spaces").status == 0
    file = tmp_path / "spaces" / "scale.yaml"
    refused = tune(file, "--device", "host")
    assert refused.status == 2
    assert "small() of script.py:9 restricts configurations; write it as an expression" in refused.err
    file.write_text(
        file.read_text().replace("  # ? small() of script.py:9 restricts", "  # the script's small() restricts")
    )
    done = tune(file, "--device", "host")
    assert done.status == 0, done.err
    assert "best: unroll=4 width=0" in done.out


def test_the_folders_of_cupy_are_searched_where_it_is_installed(script: Path, tmp_path: Path, tune) -> None:
    """A stand-in is installed here: CuPy itself needs a driver."""
    own = tmp_path / "cupy" / "_core" / "include"
    own.mkdir(parents=True)
    (tmp_path / "cupy" / "__init__.py").write_text("raise ImportError('no driver')")
    text = script.read_text().replace('lang="C"', 'lang="cupy", compiler_options=["-I."]')
    script.write_text(text.replace('extern "C" float scale', "__global__ void scale").replace("return 1.0f", "//"))
    done = tune("new", "--from-script", script, "--output", tmp_path / "spaces")
    assert done.status == 0, done.err
    include = yaml.safe_load((tmp_path / "spaces" / "scale.yaml").read_text())["include"]
    assert [(tmp_path / "spaces" / folder).resolve() for folder in include] == [Path.cwd(), own]


def test_the_library_that_cupy_comes_with_is_left_to_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header that is included twice in different ways, as some of the library are: its text may not be joined."""
    own = tmp_path / "cupy" / "_core" / "include" / "cupy" / "_cccl" / "cub"
    (own / "cub").mkdir(parents=True)
    (tmp_path / "cupy" / "__init__.py").touch()
    (own / "cub" / "part.cuh").write_text("__device__ int NAME() { return 1; }\n")
    source = """
    #define NAME one
    #include <cub/part.cuh>
    #undef NAME
    #define NAME other
    #include <cub/part.cuh>
    extern "C" __global__ void f(int *y) { y[0] = one() + other() + block_size_x; }
    """
    monkeypatch.syspath_prepend(tmp_path)
    given = Call("f", source, 1, [np.zeros(1, np.int32)], {"block_size_x": [32]}, lang="cupy")
    _, space = spaces.space(given, passed(given), {}, None, 0.0, (), (), tmp_path, "scripts/f")
    scope = space.operation.scope({n: v for n, v in space.operation.sizes.items() if v}, {}, "cuda", WIDEST, {})
    built = build(devices.compiler_for("cuda", "sm_90"), Instance(space, {"block_size_x": 32}, scope))
    assert len(built.builds) == 1


def test_nothing_is_written_over_and_a_script_without_a_call_is_named(script: Path, tmp_path: Path, tune) -> None:
    assert tune("new", "--from-script", script, "--output", tmp_path / "spaces").status == 0
    again = tune("new", "--from-script", script, "--output", tmp_path / "spaces")
    assert (again.status, "already exists; name another folder with --output" in again.err) == (2, True)
    script.write_text("import sys\nif '--tune' in sys.argv:\n" + textwrap.indent(script.read_text(), "    "))
    done = tune("new", "--from-script", script)
    assert (done.status, "it has not called tune_kernel" in done.err) == (2, True)
    assert "SCRIPT -- --tune" in done.err
    assert tune("new", "--from-script", script, "--output", tmp_path / "told", "--", "--tune").status == 0
    assert tune("new", script, "--", "--tune").status == 2


def test_afterwards_kernel_tuner_is_itself(script: Path, tmp_path: Path, tune) -> None:
    own = kernel_tuner.tune_kernel, kernel_tuner.run_kernel
    folders = list(sys.path)
    assert tune("new", "--from-script", script, "--output", tmp_path / "spaces").status == 0
    assert (kernel_tuner.tune_kernel, kernel_tuner.run_kernel) == own
    assert own[0].__module__ == "kernel_tuner.interface"
    assert sys.path == folders


def test_the_use_of_results_by_their_type_ends_a_script_and_any_other_error_is_named(tmp_path: Path, tune) -> None:
    for number, (end, message) in enumerate(
        (
            ("json.dump(results, sys.stdout)", ""),
            ("[] + results", ""),
            ("sys.exit(0)", ""),
            ("nothing", "name 'nothing' is not defined; the calls after it are not written"),
        )
    ):
        file, folder = tmp_path / f"script{number}.py", tmp_path / f"spaces{number}"
        file.write_text(
            "import json, sys\nimport numpy\nfrom tuner.door import tune_kernel\ny = numpy.zeros(4, numpy.float32)\n"
            "results, env = tune_kernel('f', 'void f(float *y) { }', 1, [y], {'a': [1]}, lang='C', atol=None)\n" + end
        )
        done = tune("new", "--from-script", file, "--output", folder)
        assert done.status == (2 if message else 0), done.err
        assert message in done.err
        assert "f.yaml: written" in done.out
        assert (folder / "f.yaml").is_file()


def test_options_of_nvcc_for_host_code_are_left_out(tmp_path: Path, tune) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        "import kernel_tuner, numpy\ny = numpy.zeros(4, numpy.float32)\n"
        "kernel_tuner.tune_kernel('f', '__global__ void f(float *y) { y[0] = a; }', 1, [y], {'a': [1]}, lang='CUDA', "
        "compiler_options=['-O3', '-Xcompiler', '-fopenmp', '-m64', '-ccbin=g++', '--use_fast_math', '-DX=1',"
        " '-Wno-deprecated-gpu-targets', '-gencode', 'arch=compute_61,code=sm_61', '-Xptxas=-v -code=sm_61 -O3',"
        " '-Xcompiler', '-fPIC -ffast-math', '-Xptxas', '-O2'])\n"
    )
    done = tune("new", "--from-script", file, "--output", tmp_path / "spaces")
    assert done.status == 0, done.err
    space = yaml.safe_load((tmp_path / "spaces" / "f.yaml").read_text())
    assert space["compile_options"] == {"cuda": ["--use_fast_math", "-DX=1", "-Xptxas=-v", "-Xptxas", "-O2"]}
