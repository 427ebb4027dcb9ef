"""Space files with `compiler: nvcc`: the user's nvcc builds whole files, within limits, cached, under true names."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.processes import Tune
from helpers.records import H200, record
from tuner.catalog import catalog
from tuner.devices.builds.allowance import Allowance
from tuner.devices.builds.build import Build
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.errors import BuildError, DeviceError, SpaceError
from tuner.space import identity
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import COMMON_GPU
from tuner.space.sources.rendering import Version, render
from tuner.space.sources.source import Source
from tuner.store.store import Store

NVCC = shutil.which("nvcc", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
needs_nvcc = pytest.mark.skipif(NVCC is None or not shutil.which("gcc"), reason="nvcc or gcc is not installed")
WHOLE = """\
#include <cstdio>
#include <vector>

namespace mine {
constexpr int twice(int n) { return 2 * n; }  // of the host: a kernel calls it by --expt-relaxed-constexpr
}
__constant__ float factors[9];
extern "C" __global__ void plain(float *y) { y[threadIdx.x] = factors[threadIdx.x]; }
namespace mine {
template <typename T, int threads>
__global__ void scale(T *y, const T *x, int n) {
    extern __shared__ float room[];
    int i = blockIdx.x * threads + threadIdx.x;
    if (i < n) y[i] = twice(1) * x[i];
    room[threadIdx.x] = 0;
}
}
static __global__ void hidden(float *y, std::vector<float> *of_host) { y[0] = 1; }

int main() {
    const int n = 1000;
    std::vector<float> data(n);
    mine::scale<float, 7><<<1, 7, 28>>>(nullptr, data.data(), n);
    std::printf("%d\\n", n);
}
"""
KERNELS = ("plain", "mine::scale<float, 64>", "hidden")
RELAXED = ("--expt-relaxed-constexpr",)
SPACE: dict[str, Any] = {
    "title": "twice",
    "operation": {
        "sizes": {"n": 4096},
        "arguments": [
            {"name": "y", "dtype": "float32", "shape": ["n"], "role": "out"},
            {"name": "x", "dtype": "float32", "shape": ["n"], "role": "in"},
            {"name": "n", "dtype": "int32"},
        ],
        "reference": "2 * x",
    },
    "kernel": "mine::scale<float, {threads}>",
    "source": "whole.cu",
    "compiler": "nvcc",
    "compile_options": {"cuda": list(RELAXED)},
    "parameters": {"threads": [64]},
    "grid": ["ceil_div(n, threads)"],
    "block": ["threads"],
    "shared_memory": "4 * threads",
}


def written(folder: Path, text: str = WHOLE, **changes: Any) -> Path:
    """The space file of `text`, with these keys; None removes one."""
    folder.mkdir(exist_ok=True)
    (folder / "whole.cu").write_text(text)
    data = {key: value for key, value in {**SPACE, **changes}.items() if value is not None}
    (folder / "whole.yaml").write_text(yaml.safe_dump(data))
    return folder / "whole.yaml"


def loaded(folder: Path, text: str = WHOLE, **changes: Any) -> Space:
    return catalog.load(str(written(folder, text, **changes)))


def rendered(space: Space) -> Source:
    scope = space.operation.scope({"n": 4096}, {}, "cuda", COMMON_GPU, {})
    (step,) = render(Instance(space, {"threads": 64}, scope))
    return step.source


def compiler(allowance: Allowance | None = None) -> NvrtcCompiler:
    made = NvrtcCompiler("sm_90a")
    made.allowance = allowance
    return made


@pytest.fixture(scope="module")
def built() -> Iterator[Build]:
    """A build of WHOLE; the variables of the environment would break it if nvcc read them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NVCC_PREPEND_FLAGS", "--no-such-option")
        patch.setenv("NVCC_APPEND_FLAGS", "--no-such-option-either")
        yield compiler().chosen("nvcc").compile(Source(WHOLE, KERNELS, RELAXED, "nvcc"))


@needs_nvcc
def test_kernels_have_their_names_figures_and_interface_as_with_nvrtc(built: Build) -> None:
    assert built.binary.startswith(b"\x7fELF")
    assert built.entry("plain") == "plain"
    assert built.entry("mine::scale<float, 64>") == "_ZN4mine5scaleIfLi64EEEvPT_PKS1_i"
    assert built.entry("hidden").startswith("_Z6hiddenPf")
    assert all(name.encode() in built.binary for name in built.entries.values())
    figures = built.figures_of("mine::scale<float, 64>")
    assert figures.registers
    assert (figures.spills, figures.shared_memory) == (0, 0)
    assert built.interface is not None
    assert built.interface.parameters["mine::scale<float, 64>"] == (8, 8, 4)
    assert built.interface.variables == {"factors": 36}
    assert built.interface.dynamic == ("mine::scale<float, 64>",)


@needs_nvcc
def test_the_list_of_kernels_leaves_no_trace_in_the_binary(built: Build) -> None:
    assert b"tuner_kernels" not in built.binary


@needs_nvcc
def test_headers_are_known_and_those_of_cuda_by_their_version(built: Build) -> None:
    assert built.headers is not None
    names = [Path(file.path).name for file in built.headers.read]
    assert {"vector", "cuda_runtime_api.h"} <= {*names}
    assert "whole.cu" not in names
    assert not [file for file in built.headers.read if "/crt/device_" in file.path]


@needs_nvcc
def test_a_build_is_cached_until_a_header_of_the_users_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPATH", str(tmp_path))
    (tmp_path / "value.h").write_text("#define VALUE 2\n")
    text = "#include <value.h>\n" + '#line 1 "k.cu"\nextern "C" __global__ void k(float *y) { y[0] = VALUE; }\n'
    source = Source(text, ("k",), (), "nvcc")
    time.sleep(0.05)  # a header that is as young as its build may have changed meanwhile: it would be built again
    one = compiler().build(source)
    assert one.fresh
    assert not compiler().build(source).fresh
    (tmp_path / "value.h").write_text("#define VALUE 3\n")
    time.sleep(0.05)
    other = compiler().build(source)
    assert other.fresh
    assert other.binary != one.binary


@needs_nvcc
@pytest.mark.parametrize(
    ("text", "kernel", "says"),
    [
        ("#define T 3\n\n__global__ void k(float *y) { y[0] = absent; }", "k", r'^k\.cu\(3\): error: .*"absent"'),
        ("namespace a { __global__ void k() {} }", "k", r"^the source has no kernel 'k': .*; it defines a::k$"),
        ("template <int n> __global__ void k() {}", "k<float>", r"^the source has no kernel 'k<float>': "),
        ('#include "absent.h"\n__global__ void k() {}', "k", r"absent\.h: No such file or directory"),
        ('__global__ void k() { asm("no such thing;"); }', "k", r"^ptxas .*; (?:fatal|error) *: "),
        ("#pragma once\n__global__ void k(float *y) { y[0] = absent; }", "k", r'\A[^\n]*: error: .*"absent"'),
    ],
)
def test_a_message_is_that_of_nvcc_or_names_the_missing_kernel(text: str, kernel: str, says: str) -> None:
    with pytest.raises(BuildError) as refusal:
        compiler().chosen("nvcc").compile(Source(text, (kernel,), (), "nvcc"))
    assert re.search(says, str(refusal.value), re.MULTILINE), str(refusal.value)
    assert "/tuner-" not in str(refusal.value)


@needs_nvcc
def test_a_whole_file_is_validated_and_compiled_without_a_gpu(tmp_path: Path, tune: Tune) -> None:
    done = tune("validate", written(tmp_path), "--compile")
    assert (done.status, done.err) == (0, ""), done.err
    assert re.search(r"cuda: the default compiles for sm_\w+, \d+ registers", done.out)


@needs_nvcc
@pytest.mark.slow
def test_thrust_compiles(tmp_path: Path, tune: Tune) -> None:
    head = "#include <thrust/device_vector.h>\n"
    text = WHOLE.replace("twice(1) *", "thrust::plus<T>()(x[i], 0) +")
    text = text.replace("std::vector<float> data(n)", "thrust::device_vector<float> data(n)")
    done = tune("validate", written(tmp_path, head + text.replace("data.data()", "data.data().get()")), "--compile")
    assert (done.status, done.err) == (0, ""), done.err
    assert "the default compiles for sm_" in done.out


@pytest.mark.gpu
@needs_nvcc
def test_a_search_and_its_record_name_nvcc(tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path, parameters={"threads": [64, 128, 256]})
    done = tune(file, "n=100000", "--json")
    assert done.status == 0, done.err
    records = [file.read_text() for file in (tmp_path / "results").rglob("*.jsonl")]
    assert '"toolchain": "nvcc ' in "".join(records)
    assert tune("run", file, "n=5000").status == 0


class Stand:
    """A program in the place of nvcc: it says a version, and otherwise its limits."""

    def __init__(self, folder: Path, version: str = "13.0.88") -> None:
        self.path = folder / "nvcc"
        folder.mkdir(parents=True, exist_ok=True)
        self.path.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "release {version}, V{version}" && exit\n'
            'echo "k.cu(1): error: $(ulimit -t) s, $(ulimit -v) KiB" >&2\nexit 1\n'
        )
        self.path.chmod(0o755)


@pytest.fixture
def gcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A C++ compiler that says its version."""
    program = tmp_path / "gcc"
    program.write_text("#!/bin/sh\necho gcc 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("NVCC_CCBIN", str(program))
    return program


KERNEL = Source("", ("k",), (), "nvcc")


def test_nvcc_has_the_limits_of_a_c_compiler(tmp_path: Path, gcc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", str(Stand(tmp_path / "a").path))
    with pytest.raises(BuildError, match=r"error: 77 s, 1048576 KiB$"):
        compiler(Allowance(77, 1 << 30)).build(KERNEL)


def test_versions_of_nvcc_and_its_c_compiler_are_part_of_a_builds_name(
    tmp_path: Path, gcc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(program: Path) -> str:
        monkeypatch.setenv("NVCC", str(program))
        return compiler().key(KERNEL)

    one, same, other = (
        Stand(tmp_path / name, f"13.{number}.1").path for name, number in (("a", 0), ("b", 0), ("c", 2))
    )
    assert key(one) == key(same) != key(other)
    assert compiler().chosen("nvcc").toolchain == "nvcc 13.2.1"
    before = key(one)
    gcc.write_text("#!/bin/sh\necho gcc 12.1\n")
    assert key(one) != before
    assert compiler().key(KERNEL) != compiler().key(Source("", ("k",), ())), "NVRTC's builds have other names"


def test_nvcc_is_searched_for_in_cuda_home_before_the_path(
    tmp_path: Path, gcc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NVCC", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", f"{Stand(tmp_path / 'path', '12.1').path.parent}:{os.environ['PATH']}")
    assert compiler().chosen("nvcc").toolchain == "nvcc 12.1"
    Stand(tmp_path / "home" / "bin", "12.2")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert compiler().chosen("nvcc").toolchain == "nvcc 12.2"


def test_messages_say_what_nvcc_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", str(tmp_path / "absent"))
    with pytest.raises(DeviceError, match=r"NVCC is '.*absent', which is no program; set NVCC to nvcc, or unset it"):
        compiler().build(KERNEL)
    stand = Stand(tmp_path / "a", "of nothing")
    monkeypatch.setenv("NVCC", str(stand.path))
    with pytest.raises(DeviceError, match=r"reports no version of nvcc; set NVCC"):
        compiler().build(KERNEL)
    Stand(tmp_path / "a")
    monkeypatch.setenv("NVCC_CCBIN", "no-such-gcc")
    with pytest.raises(DeviceError, match=r"there is no 'no-such-gcc'; install g\+\+, or set NVCC_CCBIN"):
        compiler().build(KERNEL)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"compiler": "gcc"}, r"compiler: .*'nvrtc', 'nvcc' or 'cublaslt'"),
        (
            {"compiler": "nvcc", "languages": ["opencl"], "kernel": "scale", "compile_options": {}},
            r"compiler: nvcc compiles CUDA, and the languages are opencl; remove .*, or write `languages: \[cuda\]`",
        ),
    ],
)
def test_other_compilers_and_other_languages_are_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        loaded(tmp_path, **changes)


def test_nvcc_gets_host_code_and_leaves_the_names_of_its_variables_alone(tmp_path: Path) -> None:
    whole, device = loaded(tmp_path / "a"), loaded(tmp_path / "b", compiler=None)
    assert "const int n = 1000;" in rendered(whole).text
    assert "main" not in rendered(device).text
    assert rendered(whole).digest != rendered(device).digest


def test_host_code_is_part_of_the_identity_of_code_with_nvcc_alone(tmp_path: Path) -> None:
    called, host = WHOLE.replace("return 2 * n", "return 3 * n"), f"{WHOLE}\nint count() {{ return 3; }}\n"

    def codes(name: str, compiler: str | None) -> tuple[str, str, str]:
        texts = enumerate((WHOLE, called, host))
        spaces = (loaded(tmp_path / f"{name}{i}", text, compiler=compiler) for i, text in texts)
        one, other, last = (Version.of(space).code for space in spaces)
        return one, other, last

    by_nvrtc, by_nvcc, explicitly = codes("a", None), codes("b", "nvcc"), codes("c", "nvrtc")
    assert len({*by_nvcc}) == 3, "a kernel may call what it calls by --expt-relaxed-constexpr"
    assert by_nvrtc[0] == by_nvrtc[2] == explicitly[0] not in (by_nvcc[0], by_nvrtc[1])


def test_a_space_has_its_compiler_in_its_language_alone(tmp_path: Path) -> None:
    space = loaded(tmp_path)
    assert space.compiler_of("cuda") == "nvcc"
    assert space.compiler_of("opencl") == ""


@needs_nvcc
def test_a_bundle_has_the_mangled_name_of_its_kernel(tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path)
    done = tune("export", file, "n=4096", "--to", "cubin", "--architecture", "sm_80", "--output", tmp_path / "bundle")
    assert done.status == 0, done.err
    assert "_ZN4mine5scaleIfLi64EEEvPT_PKS1_i" in (tmp_path / "bundle" / "launch.h").read_text()


DEFINING = """\
#define THREADS 128
extern "C" __global__ void twice(float *y, const float *x, int n) {
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
int main() {
    twice<<<1, THREADS>>>(nullptr, nullptr, 0);
}
"""


def test_exports_name_nvcc_and_the_host_code_that_reads_a_parameter(tmp_path: Path, tune: Tune) -> None:
    changes = {"parameters": {"THREADS": [64, 128]}, "grid": ["ceil_div(n, THREADS)"], "block": ["THREADS"]}
    file = written(tmp_path, DEFINING, kernel="twice", shared_memory=None, **changes)
    space = catalog.load(str(file))
    best = record(
        device=H200,
        kind="cuda",
        architecture="sm_90a",
        sizes={"n": 64},
        options={},
        config={"THREADS": 64},
        signature=identity.of(space),
    )
    Store.of(space, tmp_path / "results").put([best])
    about = ("--device", "H200", "--results", tmp_path / "results")
    done = tune("export", file, "64", "--to", "patch", *about, "--output", tmp_path / "made.patch")
    assert done.status == 0, done.err
    patch = (tmp_path / "made.patch").read_text()
    assert "#   whole.cu:7: twice<<<1, THREADS>>>" in patch
    assert "+#define THREADS 64\n" in patch
    done = tune("export", file, "64", "--to", "cu", *about, "--output", tmp_path / "made.cu")
    assert done.status == 0, done.err
    made = (tmp_path / "made.cu").read_text()
    assert "Compile with: nvcc --std=c++17 --expt-relaxed-constexpr" in made
    assert "int main()" in made
