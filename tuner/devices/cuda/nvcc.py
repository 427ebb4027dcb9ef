"""Compiles a whole CUDA file, host code included, to a cubin with nvcc, on any machine, with or without a GPU."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.classes import dataclass
from tuner.devices.builds.build import Build
from tuner.devices.builds.compiler import missing_kernel
from tuner.devices.builds.headers import Headers
from tuner.devices.commands import process, search_path
from tuner.devices.cuda import BACKEND, nvcc_program, ptx, toolkit_headers
from tuner.devices.cuda.common import STANDARD, VERBOSE, CudaCompiler
from tuner.errors import BuildError
from tuner.space.expressions import braces
from tuner.space.sources.source import Source

if TYPE_CHECKING:
    from tuner.space.model import Space

_SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")  # in which nvcc's C++ compiler looks for headers
# Options that name no folder of headers.
_UNRELATED = ("-D", "-O", "-maxrregcount", "--maxrregcount", "-lineinfo", "-use_fast_math", "--use_fast_math")
_STANDARDS = ("-std", "--std")
_UNTOLD = "incbin"  # reads a file that the compiler does not tell of
_RUNTIME = "/cuda_runtime.h"  # nvcc includes it in every file
_NAMED = re.compile(r'^#line \d+ "(.*)"$', re.MULTILINE)
_KERNELS = "tuner_kernels"  # a variable in the appended lines, and the name of their file in a log
_VARIABLE = re.compile(rf"^[^\n;]*\b{_KERNELS}\[\d+\]\s*=\s*\{{([^}}]*)\}};\n", re.MULTILINE)


class NvccCompiler(CudaCompiler):
    """Compiles whole files, with the options of the space file alone."""

    @property
    def toolchain(self) -> str:
        return f"nvcc {nvcc_program.version(nvcc_program.path())}"

    def name(self) -> str:
        return f"{self.toolchain} {STANDARD}"

    def surroundings(self, source: Source) -> str:
        """The C++ compiler that nvcc calls, and the folders of headers as for C."""
        return f" {nvcc_program.host(source.options)}{search_path.surroundings(source.options, _SEARCHED)}"

    def compile(self, source: Source) -> Build:
        nvcc_program.host(source.options)  # without it, nvcc's message does not say what to do
        with tempfile.TemporaryDirectory(prefix="tuner-", dir=paths.temporary()) as folder:
            return _Compilation(source, self, folder).build()


def surrounding(space: "Space") -> str:
    """A digest of the user's headers that the sources of a space include, if nvcc compiles it; empty without any."""
    if space.compiler_of(BACKEND.language) != "nvcc":
        return ""
    return search_path.contents(space, space.compile_options.get(BACKEND.language, ()), _SEARCHED)


@dataclass(frozen=True)
class _Compilation:
    """One compilation, whose files are in `folder`: nvcc translates to PTX, and then the PTX to a cubin.

    The kernels are listed in a variable at the end of the file, which instantiates templates, and shows their mangled
    names in the PTX. There it is removed, so the cubin is the same as without it.
    """

    source: Source
    compiler: NvccCompiler
    folder: str

    def build(self) -> Build:
        text, told = self._file(".cu"), self._file(".d")
        text.write_text(f"{self.source.text}\n{_listing(self.source.kernels)}", encoding="utf-8")
        with self._naming_missing_kernels():
            # The C++ compiler's warnings, such as of `#pragma once` in headers that are expanded here, hide the errors.
            self._run(text, "-ptx", "-Xcompiler=-w", "-MD", "-MF", str(told))
        assembly, entries = _without_listing(self._written(".ptx").read_text(encoding="utf-8"), self.source.kernels)
        self._file(".ptx").write_text(assembly, encoding="utf-8")
        log = self._run(self._file(".ptx"), "-cubin", VERBOSE)
        return Build(
            self._written(".cubin").read_bytes(),
            {kernel: ptx.figures(log, name, assembly) for kernel, name in entries.items()},
            entries={kernel: name for kernel, name in entries.items() if name != kernel},
            interface=ptx.interface(assembly, entries),
            headers=self._headers(told, text),
        )

    def _file(self, suffix: str) -> Path:
        return Path(self.folder, f"{braces.function(self.source.kernels[0])[: process.MOST_NAME]}{suffix}")

    def _written(self, suffix: str) -> Path:
        """A file that nvcc has written. Raises BuildError if an option has made it write another."""
        file = self._file(suffix)
        if not file.is_file():
            raise BuildError(f"nvcc fatal   : it wrote no {suffix} file; remove the compile option that prevents it")
        return file

    def _run(self, text: Path, output: str, *options: str) -> str:
        """Translate `text` to the kind of file that the option `output` names. Returns nvcc's log."""
        target = ["-o", str(self._file(f".{output.removeprefix('-')}")), f"-arch={self.compiler.architecture}"]
        command = [nvcc_program.path(), output, *options, *target, *self._options, str(text)]
        variables = {**nvcc_program.variables(), "TMPDIR": self.folder}  # a killed nvcc leaves its files
        return process.run(command, self.folder, self.compiler.allowance, variables)

    @property
    def _options(self) -> Sequence[str]:
        """The options of the source, the usual standard of C++ unless they name another, and the folders of wheels."""
        names_standard = any(option.startswith(_STANDARDS) for option in self.source.options)
        standard = () if names_standard else (STANDARD,)
        return (*standard, *self.source.options, *toolkit_headers.last_options())

    @contextlib.contextmanager
    def _naming_missing_kernels(self) -> Iterator[None]:
        """If only the list of kernels does not compile, the error says which kernel the source lacks."""
        try:
            yield
        except BuildError as error:
            errors = re.findall(r"^(\S+)\(\d+\): error(?: #\S+)?: (.*)$", str(error), re.MULTILINE)
            if not errors or any(file != _KERNELS for file, _ in errors):
                raise
            kernels, said = self.source.kernels, errors[0][1]
            missing = next((k for k in kernels if f'"{braces.function(k)}"' in said), kernels[0])
            raise BuildError(missing_kernel(self.source, missing, said)) from None

    def _headers(self, told: Path, text: Path) -> Headers | None:
        """The files that nvcc read, from the Makefile `told` that it wrote; None if it may have read others. `text` is
        the file of the source. Files that tell the version of CUDA stand for its headers."""
        if not told.is_file() or _UNTOLD in self.source.text:
            return None
        written = text.read_text(encoding="utf-8")  # nvcc also lists the files that #line directives name
        own = {str(text), *map(os.path.abspath, _NAMED.findall(written))}
        files = [file for file in search_path.read_files(told) if file not in own]
        # Real paths, because the C++ compiler resolves links for some headers.
        runtime = next((Path(os.path.realpath(file)).parent for file in files if file.endswith(_RUNTIME)), None)
        read = dict[str, None]()
        for file in files:
            versions = None if runtime is None else toolkit_headers.versions_in(runtime, os.path.realpath(file))
            read.update(dict.fromkeys([file] if versions is None else versions))
        relevant = [option for option in self._options if not option.startswith(_UNRELATED)]
        command = [nvcc_program.path(), *relevant, "-E", "-Xcompiler", "-v", "-x", "cu", os.devnull]
        searched = search_path.folders(command, nvcc_program.variables())
        return search_path.headers(read, searched, self.source.options)


def _listing(kernels: Sequence[str]) -> str:
    """The lines that list kernels."""
    addresses = ", ".join(f"(const void *)({kernel})" for kernel in kernels)
    return f'#line 1 "{_KERNELS}"\nextern "C" {{ __device__ const void *{_KERNELS}[] = {{{addresses}}}; }}\n'


def _without_listing(assembly: str, kernels: Sequence[str]) -> tuple[str, Mapping[str, str]]:
    """PTX without the list of kernels, and each kernel's name in it. Raises BuildError if the list is not there."""
    listed = _VARIABLE.search(assembly)
    names = [name.strip() for name in listed[1].split(",")] if listed else []
    if listed is None or len(names) != len(kernels):
        raise BuildError("nvcc fatal   : the PTX does not list the kernels; use another version of nvcc")
    rest = assembly[: listed.start()] + assembly[listed.end() :]
    is_used = re.search(rf"\b{_KERNELS}\b", rest) is not None  # by debug information
    return assembly if is_used else rest, dict(zip(kernels, names, strict=True))
