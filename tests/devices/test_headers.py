"""A build counts only as long as every header has its content that the compiler read for it, wherever it found them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nvidia
import pytest

from helpers.forked import HOST, Forks, forks
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune
from tuner.devices.builds import build_cache

pytestmark = pytest.mark.slow
RIGHT, WRONG = "#define FACTOR 1\n", "#define FACTOR 3\n"
Result = Callable[..., int]
LAUNCH = """
import numpy as np, tuner, sys
kernel = tuner.load(sys.argv[1], 8, device=sys.argv[2])
C, A, B = (np.ones((1, 8, 8), np.float32) for _ in range(3))
if sys.argv[2] == "opencl":
    import pyopencl.array as arrays
    queue = kernel.device.queue
    device = [arrays.to_device(queue, array) for array in (C, A, B)]
    kernel(*device)
    C = device[0].get()
else:
    kernel(C, A, B)
print(int(C[0, 0, 0]))
"""


@pytest.fixture
def folders(folders: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere, with a cache of its own, and a compiler that counts what it compiles."""
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    compiler = tmp_path / "cc"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *knob.c*) echo >> "{tmp_path}/count";; esac\nexec {shutil.which("cc")} "$@"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))


@pytest.fixture
def knob(stage: Stage) -> Path:
    """A kernel that is right as long as the header that it includes is."""
    body = MULTIPLY.replace("alpha * s", "FACTOR * alpha * s")
    return stage(c_kernel("knob", body, "#include <factor.h>"), "knob", "{v: [1]}", more="default: {v: 1}")


def header(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "factor.h").write_text(text)
    return folder / "factor.h"


@pytest.fixture(scope="module")
def launches() -> Iterator[Forks]:
    """Each launch has a process of its own, which has loaded no kernel."""
    with forks(*HOST, "pyopencl.array") as started:
        yield started


@pytest.fixture
def result(launches: Forks) -> Result:
    """What a kernel computes in a new process."""
    return lambda file, device="host": int(launches.run(LAUNCH, file, device))


def compiled(tmp_path: Path) -> int:
    """How often the kernel has been compiled."""
    count = tmp_path / "count"
    return len(count.read_text().splitlines()) if count.exists() else 0


@pytest.mark.parametrize("variable", ["CPATH", "C_INCLUDE_PATH", "CC"])
def test_a_header_that_the_compiler_finds_by_itself_counts(
    variable: str, knob: Path, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result
) -> None:
    found = header(tmp_path / "found", RIGHT)
    value = f"{os.environ['CC']} -isystem {found.parent}" if variable == "CC" else str(found.parent)
    monkeypatch.setenv(variable, value)
    assert tune("run", knob, "8", "--device", "host").status == 0
    assert (result(knob), result(knob)) == (8, 8)
    once = compiled(tmp_path)
    assert once == 1
    header(tmp_path / "found", WRONG)  # of the same size, and of the same time as far as a coarse clock tells
    assert result(knob) == 24
    assert tune("run", knob, "8", "--device", "host").status == 1
    if variable == "CPATH":
        assert tune(knob, "8", "--device", "host", "--fresh", "--json").json["failed"] == {"wrong result": 1}
    assert compiled(tmp_path) == once + 1
    header(tmp_path / "found", RIGHT)
    assert result(knob) == 8


@pytest.mark.parametrize("variable", ["CPATH", "C_INCLUDE_PATH", "CC"])
def test_trials_of_another_header_are_not_those_of_this_one(
    variable: str, knob: Path, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured_before() -> bool:
        done = tune(knob, "8", "--device", "host", "--repeats", "3")
        assert done.status == 0, done.err
        return "1 measured before" in done.err

    found = header(tmp_path / "found", RIGHT)
    value = f"{os.environ['CC']} -isystem {found.parent}" if variable == "CC" else str(found.parent)
    monkeypatch.setenv(variable, value)
    assert [measured_before(), measured_before()] == [False, True]
    if variable != "CPATH":  # where the file is found, there also what it includes
        header(tmp_path / "found", "#define FACTOR 1.f\n")
        assert measured_before() is False
        return
    header(tmp_path / "found", '#include "more.h"\n')
    (tmp_path / "found/more.h").write_text("#define FACTOR 1.f\n")
    assert [measured_before(), measured_before()] == [False, True]
    (tmp_path / "found/more.h").write_text("#define FACTOR (2 - 1)\n")
    assert measured_before() is False
    header(tmp_path / "found", RIGHT)
    assert measured_before() is True


@pytest.mark.parametrize("place", ["LIBRARY_PATH", "-L"])
def test_a_static_library_counts_and_stands_after_the_source(
    place: str, stage: Stage, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result
) -> None:
    def archive(factor: int) -> None:
        (tmp_path / "factor.c").write_text(f"float factor(void) {{ return {factor}; }}")
        subprocess.run(["cc", "-fPIC", "-c", "factor.c"], check=True, cwd=tmp_path)
        subprocess.run(["ar", "rcs", "libfactor.a", "factor.o"], check=True, cwd=tmp_path)

    options = ["-lfactor"] if place == "LIBRARY_PATH" else [f"-L{tmp_path}", "-lfactor"]
    body = MULTIPLY.replace("alpha * s", "factor() * alpha * s")
    more = f"default: {{v: 1}}\ncompile_options: {{c: {json.dumps(options)}}}"
    file = stage(c_kernel("knob", body, "float factor(void);"), "knob", "{v: [1]}", more=more)
    if place == "LIBRARY_PATH":
        monkeypatch.setenv(place, str(tmp_path))
    archive(1)
    assert tune("run", file, "8", "--device", "host").status == 0
    assert result(file) == 8
    archive(3)
    assert result(file) == 24
    assert tune("run", file, "8", "--device", "host").status == 1


def test_a_header_of_the_same_size_and_time_counts(
    knob: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result
) -> None:
    found = header(tmp_path / "found", RIGHT)
    monkeypatch.setenv("CPATH", str(found.parent))
    os.utime(found, (1e9, 1e9))
    assert result(knob) == 8
    other = header(tmp_path / "other", WRONG)
    os.utime(other, (1e9, 1e9))
    other.replace(found)
    assert result(knob) == 24


def test_a_header_that_comes_to_stand_before_another_counts_and_so_does_the_next_if_it_goes(
    knob: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result
) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    second.mkdir()
    header(third, RIGHT)
    monkeypatch.setenv("CPATH", f"{first}:{second}:{third}")
    assert result(knob) == 8
    header(second, WRONG)
    assert result(knob) == 24
    header(first, "#define FACTOR 2\n")
    assert result(knob) == 16, "in a folder that did not exist"
    (first / "factor.h").unlink()
    assert result(knob) == 24
    monkeypatch.setenv("CPATH", str(third))
    assert result(knob) == 8


def test_without_the_headers_and_with_a_new_time_alone_the_build_still_serves(
    knob: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result
) -> None:
    found = header(tmp_path / "found", RIGHT)
    monkeypatch.setenv("CPATH", str(found.parent))
    assert result(knob) == 8
    found.touch()
    assert result(knob) == 8
    shutil.rmtree(found.parent)
    assert result(knob) == 8
    assert compiled(tmp_path) == 1


def test_a_build_of_an_earlier_version_serves_if_it_includes_nothing(
    knob: Path, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result
) -> None:
    monkeypatch.setenv("CPATH", str(header(tmp_path / "found", RIGHT).parent))
    plain = tmp_path / "plain"
    plain.mkdir()
    source = f'#include "own.h"\n#define alone {c_kernel("knob", MULTIPLY).split("void ")[0].count("x")}\n'
    (plain / "own.h").write_text("// nothing\n")
    (plain / "knob.c").write_text(source + c_kernel("knob", MULTIPLY).partition("#include <unistd.h>\n")[2])
    (plain / "knob.yaml").write_text(knob.read_text().replace(str(knob.with_suffix(".c")), str(plain / "knob.c")))
    assert (result(knob), result(plain / "knob.yaml")) == (8, 8)
    assert compiled(tmp_path) == 2
    for file in build_cache.folder().glob(f"*{build_cache.FIGURES}"):
        metadata = json.loads(build_cache.read(file.name) or b"")
        assert metadata.pop("headers") is not None
        build_cache.write(file.name, json.dumps(metadata).encode())
    assert (result(knob), result(plain / "knob.yaml")) == (8, 8)
    assert compiled(tmp_path) == 3


def test_a_file_that_the_assembler_reads_is_not_told_so_the_build_is_not_kept(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result
) -> None:
    data = tmp_path / "data"
    before = f'__asm__(".data\\nfactor: .incbin \\"{data}\\"\\n.text\\n");\nextern const char factor;'
    body = MULTIPLY.replace("alpha * s", "(factor - '0') * alpha * s")
    file = stage(c_kernel("knob", body, before), "knob", "{v: [1]}", more="default: {v: 1}")
    for factor in (1, 3):
        data.write_text(str(factor))
        assert result(file) == 8 * factor


OPENCL = """
#include <factor.h>
__kernel void knob(__global float *C, __global const float *A, __global const float *B, int M, int N, int K, int batch,
                   float alpha, float beta) {
    int i = get_global_id(0);
    if (i >= M * N) return;
    float s = 0;
    for (int k = 0; k < K; k++) s += A[i / N * K + k] * B[k * N + i % N];
    C[i] = FACTOR * alpha * s;
}
"""


def test_a_driver_of_opencl_does_not_tell_so_builds_with_headers_are_not_kept(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result
) -> None:
    found = header(tmp_path / "found", RIGHT)
    monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", f"-cl-opt-disable -I{found.parent}")
    file = stage(OPENCL, "knob", "{v: [1]}", "opencl", "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]")
    assert result(file, "opencl") == 8
    assert not list(build_cache.folder().iterdir())
    header(found.parent, WRONG)
    assert result(file, "opencl") == 24


CUDA = """
#include <cuda_fp16.h>
#include <factor.h>
extern "C" __global__ void knob(float *C, const float *A, const float *B, int M, int N, int K, int batch,
                                float alpha, float beta) { C[threadIdx.x] = FACTOR; }
"""


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python with an environment of its own, in which a folder lies where conda keeps CUDA's headers."""
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    libraries = [str(folder) for folder in Path(nvidia.__path__[0]).glob("*/lib")]
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join(libraries))
    (environment / "targets" / "any" / "include").mkdir(parents=True)
    return environment / "bin" / "python"


@pytest.mark.parametrize("named", ["a name", "a macro", "an option"])
def test_a_header_that_nvrtc_finds_counts(named: str, interpreter: Path, stage: Stage, tmp_path: Path) -> None:
    found = interpreter.parents[1] / "targets" / "any" / "include"
    header(found, '#include "inner.h"\n')
    text, more = CUDA, "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]\ndefault: {v: 1}"
    if named == "a macro":
        text = CUDA.replace("<factor.h>", "NAMED").replace("#include <cuda", "#define NAMED <factor.h>\n#include <cuda")
    elif named == "an option":
        text = CUDA.replace("#include <factor.h>\n", "")
        more += f"\ncompile_options: {{cuda: [--pre-include={found / 'factor.h'}]}}"
    file, bundle = stage(text, "knob", "{v: [1]}", "cuda", more), tmp_path / "bundle"
    command = ["export", file, "8", "--to", "cubin", "--architecture", "sm_80", "--output", bundle]
    binaries = []
    for content in (RIGHT, RIGHT, WRONG) if named == "a name" else (RIGHT, WRONG):
        (found / "inner.h").write_text(content)
        done = subprocess.run([interpreter, "-m", "tuner", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        binaries.append((bundle / "sm_80.cubin").read_bytes())
    assert binaries[0] == binaries[-2] != binaries[-1]
    assert bool(list(build_cache.folder().iterdir())) == (named != "a macro"), "what cannot be told is not kept"


def test_a_header_that_comes_to_stand_where_nvrtc_looks_first_counts(
    interpreter: Path, stage: Stage, tmp_path: Path
) -> None:
    found = interpreter.parents[1] / "targets" / "any" / "include"
    asks = CUDA.replace("#include <factor.h>", "#if __has_include(<factor.h>)\n#include <factor.h>\n#endif")
    text = asks.replace("= FACTOR", "\n#ifdef FACTOR\n= FACTOR\n#else\n= 7\n#endif\n")
    more = "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]\ndefault: {v: 1}"
    file, bundle = stage(text, "knob", "{v: [1]}", "cuda", more), tmp_path / "bundle"
    command = ["export", file, "8", "--to", "cubin", "--architecture", "sm_80", "--output", bundle]
    binaries = []
    for _ in range(2):
        done = subprocess.run([interpreter, "-m", "tuner", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        binaries.append((bundle / "sm_80.cubin").read_bytes())
        header(found, RIGHT)
    assert binaries[0] != binaries[1]
