"""Compiles CUDA C++ to a cubin with NVRTC, on any machine, with or without a GPU."""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tuner.devices.builds.build import Build
from tuner.devices.builds.compiler import missing_kernel
from tuner.devices.builds.headers import Headers, may_read
from tuner.devices.cuda import host_code, toolkit_headers
from tuner.devices.cuda.common import STANDARD, VERBOSE, CudaCompiler
from tuner.errors import BuildError, DeviceError
from tuner.languages import ALGORITHMS
from tuner.space.expressions import braces
from tuner.space.sources.source import Source

if TYPE_CHECKING:
    from tuner.space.model import Space

OTHERS = {  # modules and classes of the compilers that few kernels need, by their names in spaces
    "nvcc": ("tuner.devices.cuda.nvcc", "NvccCompiler"),
    "triton": ("tuner.devices.cuda.triton.compiler", "TritonCompiler"),
    ALGORITHMS: ("tuner.devices.cuda.blas.algorithm_compiler", "CublasLtCompiler"),
}
_RELATIVE = re.compile(r"(?:-I|--include-path|-include|--pre-include)[= ]*(?!/|=| )")
_NAMES = "__nv_name_map"  # the file name in a log for errors in name expressions
# ptxas does not report the figures of a build from NVRTC's cache, so that cache is off; `build_cache` replaces it.
_REPORT_OPTIONS = (VERBOSE, "--no-cache")


class NvrtcCompiler(CudaCompiler):
    """Compiles device code. It knows the compilers that other space files choose."""

    def __init__(self, architecture: str) -> None:
        super().__init__(architecture)
        self._others = dict[str, CudaCompiler]()

    @property
    def toolchain(self) -> str:
        return f"NVRTC {version()}"

    def chosen(self, compiler: str) -> CudaCompiler:
        if compiler not in OTHERS:
            return self
        if compiler not in self._others:
            module, name = OTHERS[compiler]
            self._others[compiler] = getattr(importlib.import_module(module), name)(self.architecture)
        other = self._others[compiler]
        other.allowance, other.forks = self.allowance, self.forks
        return other

    def name(self) -> str:
        headers = [toolkit_headers.wheel_version(wheel) for wheel in ("runtime", "crt", "cccl")]
        return f"NVRTC {version()} {STANDARD} headers {headers} {host_code.version()}"

    def surroundings(self, source: Source) -> str:
        """The current folder, if an option names a folder of headers relative to it."""
        is_relative = any(_RELATIVE.match(option) for option in source.options)
        return f" {os.getcwd()}" if is_relative and may_read(source.text, source.options) else ""

    def compile(self, source: Source) -> Build:
        return compile_cubin(source, self.architecture)


def forkable_modules(space: Space) -> Sequence[str]:
    """The modules of the compiler that a space chooses which may be imported before a fork."""
    if space.compiler != "triton":
        return ()
    modules: Sequence[str] = importlib.import_module(OTHERS["triton"][0]).forkable_modules()
    return modules


def compile_cubin(source: Source, architecture: str) -> Build:
    """The cubin of `source` for `architecture`. Raises BuildError with the compiler's log, or with a list of kernels if
    the source lacks a requested one."""
    from tuner.devices.cuda import ptx  # its patterns take 1 ms, and what loads builds needs none

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
            *toolkit_headers.include_options(),
            *host_code.accepted_by_nvcc(source.text),
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
            {kernel: ptx.figures(log, name, assembly) for kernel, name in entries.items()},
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
    from tuner.devices.builds import header_search  # a launch from the cache searches nothing

    options = [*toolkit_headers.include_options(), *source.options]
    folders, given = header_search.folders(options), frozenset(host_code.headers())
    search = header_search.HeaderSearch(folders, toolkit_headers.version_of, given)
    search.of_text(source.text)
    for file in header_search.files(source.options):
        search.take(file)
    if not search.is_complete:
        return None
    try:
        return Headers.of(search.read, search.absent)
    except OSError:
        return None


@functools.cache
def version() -> str:
    """NVRTC's version: that of its wheel, because this does not load the library; without a wheel, the one that the
    library reports. Raises DeviceError if NVRTC is missing."""
    wheel = toolkit_headers.wheel_version("nvrtc")
    if wheel is not None:
        return wheel
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


@functools.cache
def _nvrtc() -> Any:
    """The Python bindings of NVRTC. The first call loads NVRTC. Raises DeviceError if it is missing."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        advice = "pip install -e '.[cuda]' in the checkout, or pip install cuda-bindings nvidia-cuda-nvrtc"
        raise DeviceError(f"compiling CUDA needs NVRTC; {advice}") from None
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
