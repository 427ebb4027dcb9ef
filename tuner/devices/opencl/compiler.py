"""Compiles OpenCL C with the compiler of an OpenCL driver."""

import os
import warnings
from pathlib import Path
from typing import Any

import pyopencl as cl

from tuner import paths
from tuner.devices.builds.build import Build
from tuner.devices.builds.compiler import Compiler, missing_kernel
from tuner.devices.builds.figures import Figures
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.devices.opencl import BACKEND, cuda_words, parameters
from tuner.errors import BuildError
from tuner.quoting import quoted
from tuner.space.sources.source import Source

MOST_PROGRAMS = 16  # that are kept: more than the finals load


class OpenCLCompiler(Compiler):
    """The driver's compiler, in a context of the open device.

    PoCL compiles a kernel for each block shape at the first launch, and caches the result by source. Its binary would
    be another build, for any block shape, which takes longer to compile and never runs. So with PoCL, the source serves
    as the build.
    """

    kind = BACKEND.kind
    tells = ("shared_memory",)

    def __init__(
        self, context: cl.Context, architecture: str, name: str, is_pocl: bool, settings: Conditions = DEFAULT
    ) -> None:
        """`settings` are those of the runtime that change its code."""
        self.architecture = architecture
        self._context, self._name, self._is_pocl, self._settings = context, name, is_pocl, settings
        # The latest programs by text and options: PoCL takes about 0.05 s to find what it compiled. Programs with
        # variables of their own are not kept, because such a variable has its first value after each loading.
        self._programs: dict[tuple[str, tuple[str, ...]], cl.Program] = {}
        self._keeps_programs = is_pocl and all(device.max_global_variable_size == 0 for device in context.devices)

    def name(self) -> str:
        return f"{self._name}{', by source' if self._is_pocl else ''}{self._settings.identity}"

    @property
    def setting_options(self) -> list[str]:
        """A macro that no source uses, which stands for the settings: PoCL's own cache of binaries ignores these, and
        would return what was compiled under others."""
        return [f"-DTUNER_SETTINGS_{paths.digest(self._settings.identity)}"] if self._settings else []

    def folders(self) -> list[Path]:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return [*super().folders(), Path(os.environ.get("POCL_CACHE_DIR") or caches)]

    def compile(self, source: Source) -> Build:
        program = self._built(source, source.text)
        defined: Any = program.get_info(cl.program_info.KERNEL_NAMES)
        names = defined.split(";")
        for kernel in source.kernels:
            if kernel not in names:
                other = f"_cl_{kernel}"  # PoCL's headers define the names of functions as macros
                reason = f"OpenCL C has a function of this name, which makes it {quoted(other)}; rename it"
                raise BuildError(missing_kernel(source, kernel, reason if other in names else ""))
        binary = source.text.encode() if self._is_pocl else _binary_of(program)
        interface = parameters.interface(program, source.kernels, lambda more: self._built(source, source.text + more))
        return Build(binary, {k: self._figures(program, k) for k in source.kernels}, interface=interface)

    def loaded(self, text: str, source: Source) -> cl.Program:
        """The program of a build of PoCL, which is the `text` of a source. Raises BuildError."""
        return self._programs.get((text, tuple(source.options))) or self._built(source, text)

    def _built(self, source: Source, text: str) -> cl.Program:
        options = parameters.ARGUMENT_INFO, *self.setting_options
        program = build_program(cl.Program(self._context, text), source, *options)
        if self._keeps_programs:
            # The mapping is replaced, never changed, so that threads need no lock.
            latest = [*self._programs.items()][1 - MOST_PROGRAMS :]
            self._programs = {**dict(latest), (text, tuple(source.options)): program}
        return program

    def _figures(self, program: cl.Program, kernel: str) -> Figures:
        (device,) = self._context.devices
        try:
            shared = cl.Kernel(program, kernel).get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)
        except cl.Error:
            shared = None  # loading the build reports the error
        return Figures(shared_memory=shared)


def _binary_of(program: cl.Program) -> bytes:
    """The binary of a program that was built for a single device."""
    binaries: Any = program.get_info(cl.program_info.BINARIES)
    return bytes(binaries[0])


def build_program(program: cl.Program, source: Source, *options: str) -> cl.Program:
    """Compile or link `program` with these options more, and return it. Raises BuildError with the compiler's log."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)
            program.build(options=[*source.options, *options], cache_dir=False)  # type: ignore[arg-type]  # wrongly annotated
            return program
    except cl.Error as error:
        # In pyopencl's message, the compiler's log is after the device's description and before the options. The log
        # may contain these separators, too.
        log = str(error).partition(">:\n")[2].rpartition("(options:")[0].strip() or str(error)
        raise BuildError(cuda_words.explained(log)) from None
