"""Compiles CUDA C++ to a cubin with NVRTC, on any machine, with or without a GPU."""

import contextlib
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner.devices.compiler import Build, Compiler, missing_kernel
from tuner.devices.cuda import BACKEND, host_code, ptx
from tuner.devices.figures import Figures
from tuner.devices.headers import Headers, may_read
from tuner.errors import BuildError, DeviceError
from tuner.space.expressions import braces
from tuner.space.sources.source import Source

STANDARD = "--std=c++17"
# Files in a toolkit's folder of headers. They contain the versions of CUDA and of its C++ libraries.
_VERSIONS = ("cuda_runtime_api.h", "crt/common_functions.h", "cccl/cub/version.cuh", "cub/version.cuh")
_FOLDERS = ("cccl", "cooperative_groups", "crt", "cub", "cuda", "nv", "thrust")
_RELATIVE = re.compile(r"(?:-I|--include-path|-include|--pre-include)[= ]*(?!/|=| )")
_NAMES = "__nv_name_map"  # the file name in a log for errors in name expressions
_PROPERTIES = re.compile(r"Function properties for (\S+)\n[^\n]*?(\d+) bytes spill stores, (\d+) bytes spill loads")
# ptxas does not report the figures of a build from NVRTC's cache, so that cache is off; `build_cache` replaces it.
_REPORT_OPTIONS = ("--ptxas-options=-v", "--no-cache")


class NvrtcCompiler(Compiler):
    """Compiles CUDA C++ to a cubin for one architecture, such as sm_90a."""

    kind = BACKEND.kind
    portable = True
    tells = ("registers", "shared_memory")

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture

    def name(self) -> str:
        headers = [_wheel_version(wheel) for wheel in ("runtime", "crt", "cccl")]
        return f"NVRTC {version()} {STANDARD} headers {headers} {host_code.version()}"

    def surroundings(self, source: Source) -> str:
        """The current folder, if an option names a folder of headers relative to it."""
        is_relative = any(_RELATIVE.match(option) for option in source.options)
        return f" {os.getcwd()}" if is_relative and may_read(source.text, source.options) else ""

    def compile(self, source: Source) -> Build:
        return compile_cubin(source, self.architecture)


def compile_cubin(source: Source, architecture: str) -> Build:
    """The cubin of `source` for `architecture`. Raises BuildError with the compiler's log, or with a list of kernels if
    the source lacks a requested one."""
    nvrtc = _nvrtc()
    file = f"{braces.function(source.kernels[0])}.cu"
    names, headers = [name.encode() for name in host_code.headers()], list(host_code.headers().values())
    program = _ok(nvrtc.nvrtcCreateProgram(source.text.encode(), file.encode(), len(names), headers, names))
    try:
        for kernel in source.kernels:  # instantiates templates; does not change the cubin of other kernels
            _ok(nvrtc.nvrtcAddNameExpression(program, kernel.encode()))
        options = [
            f"--gpu-architecture={architecture}",
            STANDARD,
            *_REPORT_OPTIONS,
            *_include_options(),
            *source.options,
        ]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        buffer = bytearray(_ok(nvrtc.nvrtcGetProgramLogSize(program)))
        nvrtc.nvrtcGetProgramLog(program, buffer)
        log = bytes(buffer).rstrip(b"\0").decode(errors="replace").strip()
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            errors = re.findall(r"^(\S+)\(\d+\): error: (.*)$", log, re.MULTILINE)
            if errors and all(file == _NAMES for file, _ in errors):
                missing = next((k for k in source.kernels if braces.function(k) in errors[0][1]), source.kernels[0])
                raise BuildError(missing_kernel(source, missing, errors[0][1].partition(". ")[0]))
            raise BuildError(host_code.explained(log) or status.name)
        cubin = bytearray(_ok(nvrtc.nvrtcGetCUBINSize(program)))
        _ok(nvrtc.nvrtcGetCUBIN(program, cubin))
        entries = {
            kernel: _ok(nvrtc.nvrtcGetLoweredName(program, kernel.encode())).decode() for kernel in source.kernels
        }
        assembly = _ptx(nvrtc, program)
        return Build(
            bytes(cubin),
            {kernel: _figures(log, name, assembly) for kernel, name in entries.items()},
            entries={kernel: name for kernel, name in entries.items() if name != kernel},
            interface=ptx.interface(assembly, entries) if assembly else None,
            headers=_headers(source),
        )
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _headers(source: Source) -> Headers | None:
    """The headers that NVRTC read for `source`; None if they cannot all be determined.

    NVRTC does not report them, so they are searched for in its folders. Headers whose version is part of the compiler's
    name are left out.
    """
    if not may_read(source.text, source.options):
        return Headers()
    from tuner.devices import header_search  # a launch from the cache searches nothing

    options = [*_include_options(), *source.options]
    search = header_search.HeaderSearch(header_search.folders(options), _version_of, frozenset(host_code.headers()))
    search.of_text(source.text)
    for file in header_search.files(source.options):
        search.take(file)
    if not search.is_complete:
        return None
    try:
        return Headers.of(search.read, search.absent)
    except OSError:
        return None


def _version_of(file: str) -> Sequence[str] | None:
    """The files that contain the version of a CUDA header; None if `file` is in no wheel and no toolkit's _FOLDERS.

    For a toolkit's header, these are the files of _VERSIONS. For a wheel's header, there are none, because the wheel's
    version is part of the compiler's name.
    """
    if file in _of_wheels():
        return ()
    for folder in _toolkits():
        if file.startswith(tuple(f"{folder}/{name}/" for name in _FOLDERS)):
            return [*filter(os.path.isfile, (str(folder / name) for name in _VERSIONS))]
    return None


@functools.cache
def _of_wheels() -> frozenset[str]:
    """The headers of the wheels whose versions are in the compiler's name."""
    found = set[str]()
    for root in _roots():
        for wheel in ("runtime", "crt", "cccl"):
            for record in root.parent.glob(f"nvidia_cuda_{wheel}-*.dist-info/RECORD"):
                with contextlib.suppress(OSError):
                    lines = record.read_text(encoding="utf-8").splitlines()
                    found.update(str(root.parent / line.partition(",")[0]) for line in lines)
    return frozenset(found)


@functools.cache
def _roots() -> tuple[Path, ...]:
    """The folders named `nvidia` into which NVIDIA's wheels unpack."""
    spec = importlib.util.find_spec("nvidia")
    return tuple(Path(root) for root in (spec.submodule_search_locations or [])) if spec else ()


@functools.cache
def _wheel_version(wheel: str) -> str | None:
    """The version of the wheel nvidia-cuda-`wheel`, from the name of its .dist-info folder; None if it is not
    installed.

    A launch from the cache needs the version, and importing importlib.metadata would take longer than the rest of that
    launch.
    """
    folders = (path.name for root in _roots() for path in root.parent.glob(f"nvidia_cuda_{wheel}-*.dist-info"))
    return next((name.removesuffix(".dist-info").rpartition("-")[2] for name in sorted(folders)), None)


@functools.cache
def version() -> str:
    """NVRTC's version: that of its wheel, because this does not load the library; without a wheel, the one that the
    library reports. Raises DeviceError if NVRTC is missing."""
    wheel = _wheel_version("nvrtc")
    if wheel is not None:
        return wheel
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


@functools.cache
def _toolkits() -> tuple[Path, ...]:
    """The folders of headers of this interpreter's conda environment and of an installed toolkit."""
    return (*Path(sys.prefix).glob("targets/*/include"), Path("/usr/local/cuda/include"))


@functools.cache
def _include_options() -> tuple[str, ...]:
    """The compiler options for the folders of CUDA's headers (cuda_fp16.h, mma.h, cuda/barrier): in wheels, in this
    interpreter's conda environment, and in an installed toolkit."""
    roots = [*(root / "cu13" / "include" for root in _roots()), *_toolkits()]
    folders = [folder for root in roots for folder in (root, root / "cccl") if folder.is_dir()]
    return tuple(f"--include-path={folder}" for folder in folders)


@functools.cache
def _nvrtc() -> Any:
    """The Python bindings of NVRTC. The first call loads NVRTC. Raises DeviceError if it is missing."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        raise DeviceError("compiling CUDA needs NVRTC; pip install cuda-bindings nvidia-cuda-nvrtc") from None
    return nvrtc


def _ok(result: tuple[Any, ...]) -> Any:
    """The value that a call of NVRTC returned after its status. Raises BuildError unless the status is success."""
    status, *values = result
    if status != type(status).NVRTC_SUCCESS:
        raise BuildError(f"NVRTC: {status.name}")
    return values[0] if values else None


def _ptx(nvrtc: Any, program: Any) -> str:
    """The PTX of a compiled program; empty if NVRTC does not provide it in addition to the cubin."""
    status, size = nvrtc.nvrtcGetPTXSize(program)
    text = bytearray(size or 0)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS or nvrtc.nvrtcGetPTX(program, text)[0] != status:
        return ""
    return text.rstrip(b"\0").decode(errors="replace")


def _figures(log: str, kernel: str, assembly: str) -> Figures:
    """The figures of `kernel` from ptxas's verbose output, which also lists functions that are not inlined.

    The spills of the functions that the kernel calls are added to its own. Its registers and stack already include
    theirs. `assembly` is the PTX, which shows the called functions; without it, all functions in the output count.
    """
    section = log.partition(f"Compiling entry function '{kernel}'")[2].partition("Compiling entry function")[0]
    registers = re.search(r"Used (\d+) registers", section)
    shared = re.search(r"(\d+) bytes smem", section)
    stack = re.search(r"(\d+) bytes cumulative stack size", section) or re.search(r"(\d+) bytes stack frame", section)
    spills = {name: int(stored) + int(loaded) for name, stored, loaded in _PROPERTIES.findall(log)}
    entries = set(re.findall(r"Compiling entry function '([^']+)'", log))
    called = ptx.called(assembly, kernel) if assembly else {kernel, *(spills.keys() - entries)}
    return Figures(
        registers=int(registers[1]) if registers else None,
        spills=sum(spills[name] for name in called & spills.keys()) if kernel in spills else None,
        shared_memory=int(shared[1]) if shared else 0 if registers else None,
        local_memory=int(stack[1]) if stack else None,
    )
