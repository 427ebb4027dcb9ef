"""CUDA C++ to a cubin through NVRTC. Needs no GPU, so any machine can check that a stage compiles."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

from tuner.devices.compiler import Build, Compiler
from tuner.devices.figures import from_ptxas
from tuner.errors import BuildError, DeviceError
from tuner.space.source import Source

STANDARD = "--std=c++17"
# ptxas says what a build needs, unless NVRTC's own cache, which ours makes needless, answers in its place.
_TELLING = ("--ptxas-options=-v", "--no-cache")


class NvrtcCompiler(Compiler):
    """CUDA C++ to a cubin for one architecture, such as sm_90a."""

    kind = "cuda"
    portable = True
    tells = ("registers", "shared_memory")

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture

    def name(self) -> str:
        headers = [_installed(wheel) for wheel in ("runtime", "crt", "cccl")]
        return f"NVRTC {version()} {STANDARD} headers {headers}"

    def compile(self, source: Source) -> Build:
        return compile_cubin(source, self.architecture)


def compile_cubin(source: Source, architecture: str) -> Build:
    """Machine code of `source` for `architecture`. Raises BuildError with the compiler's log."""
    nvrtc = _nvrtc()
    program = _ok(nvrtc.nvrtcCreateProgram(source.text.encode(), f"{source.kernel}.cu".encode(), 0, [], []))
    try:
        options = [
            f"--gpu-architecture={architecture}",
            STANDARD,
            *_TELLING,
            *_include_options(),
            *source.options,
        ]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        written = bytearray(_ok(nvrtc.nvrtcGetProgramLogSize(program)))
        nvrtc.nvrtcGetProgramLog(program, written)
        log = bytes(written).rstrip(b"\0").decode(errors="replace").strip()
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise BuildError(log or status.name)
        cubin = bytearray(_ok(nvrtc.nvrtcGetCUBINSize(program)))
        _ok(nvrtc.nvrtcGetCUBIN(program, cubin))
        return Build(bytes(cubin), from_ptxas(log, source.kernel))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


@functools.cache
def _roots() -> tuple[Path, ...]:
    """The folders that NVIDIA's wheels unpack into, called `nvidia`."""
    spec = importlib.util.find_spec("nvidia")
    return tuple(Path(root) for root in (spec.submodule_search_locations or [])) if spec else ()


@functools.cache
def _installed(wheel: str) -> str | None:
    """The version of the wheel nvidia-cuda-`wheel`, by the name of the folder beside it that describes it: a launch
    from the cache asks too, and importing importlib.metadata takes longer than all the rest of it."""
    found = (path.name for root in _roots() for path in root.parent.glob(f"nvidia_cuda_{wheel}-*.dist-info"))
    return next((name.removesuffix(".dist-info").rpartition("-")[2] for name in sorted(found)), None)


@functools.cache
def version() -> str:
    """NVRTC's version: its wheel's where there is one, which costs no loading of the library, else its own word.
    Raises DeviceError where there is none."""
    found = _installed("nvrtc")
    if found is None:
        _, major, minor = _nvrtc().nvrtcVersion()
        found = f"{major}.{minor}"
    return found


@functools.cache
def _include_options() -> tuple[str, ...]:
    """CUDA's own headers (cuda_fp16.h, mma.h, cuda/barrier), from the wheels or from an installed toolkit."""
    roots = [*(root / "cu13" / "include" for root in _roots()), Path("/usr/local/cuda/include")]
    found = [folder for root in roots for folder in (root, root / "cccl") if folder.is_dir()]
    return tuple(f"--include-path={folder}" for folder in found)


@functools.cache
def _nvrtc() -> Any:
    """The bindings of NVRTC, which load the library when it is first called."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        raise DeviceError("compiling CUDA needs NVRTC; pip install cuda-bindings nvidia-cuda-nvrtc") from None
    return nvrtc


def _ok(result: tuple[Any, ...]) -> Any:
    """What a call gave beside its status; BuildError where the status is not success."""
    status, *values = result
    if status != type(status).NVRTC_SUCCESS:
        raise BuildError(f"NVRTC: {status.name}")
    return values[0] if values else None
