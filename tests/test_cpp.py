"""The page about C++ projects: its files, built as it says. Without nvcc, a C++ compiler runs the kernel in loops."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.documents import TEXTS, blocks
from helpers.processes import PATIENCE_SECONDS, Tune, run
from helpers.records import A100, H200, record
from tuner.catalog import catalog
from tuner.space.sources import rendering
from tuner.store.store import Store

STAND_IN = """
#include <cstdlib>
#include <cstring>
#define __global__
typedef void *cudaStream_t;
struct cudaDeviceProp { char name[256]; int major, minor; };
static struct { int x; } blockIdx, threadIdx;
inline int cudaGetDevice(int *number) { return *number = 0; }
inline int cudaGetDeviceProperties(cudaDeviceProp *gpu, int) {
    gpu->major = std::atoi(std::getenv("MAJOR"));
    gpu->minor = 0;
    std::strcpy(gpu->name, std::getenv("GPU"));
    return 0;
}
inline int cudaMallocManaged(float **array, size_t bytes) { return !(*array = (float *)std::calloc(1, bytes)); }
inline int cudaDeviceSynchronize() { return 0; }
#define LOOP(index, extent) for (index.x = 0; index.x < extent; index.x++)
"""


def page(folder: Path) -> Path:
    """A folder with the files of the page."""
    for text in blocks(TEXTS["docs/cpp.md"], "c", "cuda", "cpp", "yaml", "toml", "cmake", "py"):
        if named := re.match(r"(?://|#) ([\w./]+\.\w+)\n", text):
            (folder / named[1]).parent.mkdir(exist_ok=True)
            (folder / named[1]).write_text(text)
    return folder


def lines() -> list[str]:
    return "".join(blocks(TEXTS["docs/cpp.md"], "sh")).splitlines()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cmake"), reason="cmake is not installed")
def test_the_project_chooses_the_version_of_its_gpu_at_run_time(
    tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(page(tmp_path))
    space = catalog.load("kernels/scale.yaml")
    for device, architecture, threads in ((H200, "sm_90a", 512), (A100, "sm_80", 128)):
        Store(space.name, Path("results")).add(
            record(
                device=device, architecture=architecture, kind="cuda", sizes={"n": 10_000_000}, options={"a": 2.0},
                config={"threads": threads, "items": 4}, signature=rendering.signature(space),
            )
        )  # fmt: skip
    (export,) = (line for line in lines() if line.startswith("tune export"))
    done = tune(*export.split()[1:])
    assert done.status == 0, done.err
    (tmp_path / "cuda_runtime.h").write_text(STAND_IN)
    text = (tmp_path / "scale_launch.cu").read_text()
    text, replaced = re.subn(
        r"scale<<<(\w+), (\w+), 0, stream>>>\(", r"LOOP(blockIdx, \1) LOOP(threadIdx, \2) scale(", text
    )
    assert replaced == 1
    (tmp_path / "scale_launch.cpp").write_text(text)
    project = (tmp_path / "CMakeLists.txt").read_text().replace(" CUDA)", ")").replace("launch.cu", "launch.cpp")
    (tmp_path / "CMakeLists.txt").write_text(project + "add_compile_definitions(FAST_SCALE_MACROS=1)\n")
    monkeypatch.setenv("CPATH", str(tmp_path))
    for line in lines():
        if line.startswith("cmake"):
            run(*line.replace('"', "").split(), *(["-DCMAKE_CXX_COMPILER_WORKS=1"] if "-B" in line else []))
    gpus = {H200: "9", A100: "8", "NVIDIA H100 PCIe": "9", "NVIDIA B200": "10"}
    chosen = (H200, A100, H200, "other devices")
    for (gpu, major), version in zip(gpus.items(), chosen, strict=True):
        done = subprocess.run(
            "build/scale", capture_output=True, text=True, check=False, env={"GPU": gpu, "MAJOR": major}
        )
        assert (done.returncode, done.stdout) == (0, f"right, with the version for {version}\n"), gpu


@pytest.mark.gpu
@pytest.mark.skipif(not shutil.which("nvcc"), reason="nvcc is not installed")
def test_the_project_and_the_extension_run_on_a_gpu(
    tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(page(tmp_path))
    for line in lines():
        if line.startswith("tune"):
            done = tune(*line.split()[1:])
            assert done.status == 0, done.err
    name = re.findall(r'_DEVICE "(.+)"', (tmp_path / "tuned/scale.h").read_text())[0]
    if shutil.which("cmake"):
        for line in lines():
            if line.startswith("cmake"):
                run(*line.replace('"', "").split())
    else:  # what CMake would run
        macros = [f"TUNED_FOR_{each}" for each in (re.sub(r"\W", "_", f"CUDA_{name}".upper()), "OTHERS")]
        for macro in macros:
            run("nvcc", f"-D{macro}", "-c", "scale_launch.cu", "-o", f"{macro}.o")
        (tmp_path / "build").mkdir()
        run("nvcc", "main.cpp", "scale.cpp", *(f"{macro}.o" for macro in macros), "-o", "build/scale")
    assert run("build/scale").stdout == f"right, with the version for {name}\n"
    for package in ("torch", "ninja"):
        pytest.importorskip(package, reason=f"{package} is not installed: the extension is not built")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TORCH_EXTENSIONS_DIR": str(tmp_path / "built")}
    done = subprocess.run(
        [sys.executable, "extension.py"],
        capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
