"""Compiles C11 with OpenMP to a shared library for this CPU, with $CC or the first compiler on the path."""

import functools
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.devices import environment, settings
from tuner.devices.builds.build import Build
from tuner.devices.builds.compiler import Compiler
from tuner.devices.builds.headers import Headers, may_read
from tuner.devices.commands import process, search_path
from tuner.devices.conditions import Conditions
from tuner.devices.host import BACKEND
from tuner.devices.settings import Settings
from tuner.errors import BuildError, DeviceError
from tuner.quoting import quoted
from tuner.space.sources.source import Source

if TYPE_CHECKING:
    from tuner.space.model import Space

_SEARCHED = ("CPATH", "C_INCLUDE_PATH")  # lists of folders in which gcc and clang look for headers
_SEARCHED_BY_CPP = ("CPATH", "CPLUS_INCLUDE_PATH")
_UNRELATED = ("-D", "-O", "-W", "-f", "-g")  # options that name no folder of headers
_LIBRARY = re.compile(r"-l\w|.*\.(a|o)$")
_ASSEMBLED = "incbin"  # reads a file that the compiler does not tell of
_PROFILES = ("-fprofile-use", "-fauto-profile", "-fbranch-probabilities", "-fplugin", "-specs")  # so do these options
CODE: Settings = {"CCC_OVERRIDE_OPTIONS": "", "COMPILER_PATH": "", "GCC_EXEC_PREFIX": ""}  # which change its code
_OF_CODE = ("-O", "-f", "-m")  # options that change the code, and so the times
CPP = "-xc++"  # the option of a source that is C++
_UNROLL = re.compile(r"#pragma GCC unroll\W{1,2}requires .*")  # a number in a certain range
_NAMED = re.compile(r"^\s*#\s*pragma\s+GCC\s+unroll[\s(]+([A-Za-z_]\w*)", re.MULTILINE)
_LANGUAGE = ("-std=c11", "-D_DEFAULT_SOURCE=")  # with the functions and M_PI that cc's own dialect has of C's headers
OPTIONS = (*_LANGUAGE, "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


def count() -> int:
    """1 if there is a C compiler, else 0."""
    try:
        return int(find_command() is not None)
    except DeviceError:
        return 1  # $CC is invalid: opening the device reports that


def find_command() -> list[str] | None:
    """$CC, or the first compiler on the path, as the start of a command line; None if there is none. Raises DeviceError
    if $CC is not a valid command line."""
    name = os.environ.get("CC", "")
    try:
        words = shlex.split(name) or [next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), "")]
    except ValueError as error:
        raise DeviceError(
            f"device host: CC is {quoted(name)}, which is not a command: {error}; set CC to a C compiler, such as "
            "gcc, or unset it"
        ) from None
    compiler = shutil.which(words[0]) if words[0] else None
    return [compiler, *words[1:]] if compiler else None


@functools.cache
def processor() -> str:
    """The CPU's name in /proc/cpuinfo, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


@functools.cache
def version(command: tuple[str, ...]) -> str:
    """The first line of the compiler's --version, and those options of the command that change the code."""
    process = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    options = [word for word in command[1:] if word.startswith(_OF_CODE)]
    return " ".join([*(process.stdout.splitlines() or [command[0]])[:1], *options])


class HostCompiler(Compiler):
    """A C compiler. `command` is the start of its command line. Its shared libraries run on this CPU only.

    Options in `command` come after ours, and before those of a source, so that they prevail over ours alone.
    """

    kind = BACKEND.kind

    def __init__(self, command: list[str], processor: str) -> None:
        self.architecture = platform.machine()
        self.command = command
        options = next((place for place, word in enumerate(command) if place and word.startswith("-")), len(command))
        self._program, self._options = command[:options], command[options:]
        self._processor = processor
        self._settings = Conditions.of(settings.effective(CODE), CODE)

    @property
    def is_gnu(self) -> bool:
        """Whether it is GCC, whose OpenMP is libgomp."""
        return any("gcc" in path.name for path in (Path(self.command[0]), Path(self.command[0]).resolve()))

    def name(self) -> str:
        """The compiler's file, size and modification time, because its version would need a process."""
        try:
            binary = Path(self.command[0]).resolve()
            status = binary.stat()
        except OSError as error:
            raise environment.of_error(error) from None
        about = f"{status.st_size} {status.st_mtime_ns} {self.command[1:]} {self._processor} {OPTIONS}"
        order = " prevailing" if self._options else ""  # earlier versions put these options before ours
        return f"{binary} {about}{order}{self._settings.identity}"

    def compile(self, source: Source) -> Build:
        with tempfile.TemporaryDirectory(prefix="tuner-", dir=paths.temporary()) as folder:
            text, library = Path(folder, f"{source.kernels[0][: process.MOST_NAME]}.c"), Path(folder, "kernel.so")
            text.write_text(source.text, encoding="utf-8")
            told = Path(folder, "headers")
            own, file = (
                ([*OPTIONS[len(_LANGUAGE) :]], ["-xc++", str(text), "-xnone"])
                if _is_cpp(source)
                else ([*OPTIONS], [str(text)])
            )
            told_by = ["-MD", "-MF", str(told), "-MT", "kernel", "-o", str(library)]
            # Those of the source come last: of a static library, a linker takes only what files before it need.
            libraries = ["-lstdc++", "-lm"] if _is_cpp(source) else ["-lm"]
            given = [*self._options, *told_by, *file, *(o for o in source.options if o != CPP)]
            command = [*self._program, *own, *given, *libraries]
            try:
                process.run(command, folder, self.allowance)
            except BuildError as error:
                raise BuildError(_advised(str(error), source.text)) from None
            if not library.is_file():
                raise BuildError(f"{command[0]} wrote no library")
            return Build(library.read_bytes(), headers=self._headers(source, told, text))

    def _headers(self, source: Source, told: Path, text: Path) -> Headers | None:
        """The files that the compiler read, from the Makefile `told` that it wrote; None if it wrote none, or if it may
        have read others. `text` is the file of the source."""
        if not told.is_file():
            return None
        if _ASSEMBLED in source.text or any(option.startswith(_PROFILES) for option in source.options):
            return None
        files = [file for file in search_path.read_files(told) if file != str(text)]
        relevant = [o for o in source.options if o.startswith("-Wp,") or not o.startswith(_UNRELATED)]
        language = "c++" if _is_cpp(source) else "c"
        relevant = [option for option in relevant if option != CPP]
        searched = search_path.folders([*self.command, *relevant, "-E", "-v", "-x", language, os.devnull])
        return search_path.headers(files, searched, [*self.command[1:], *source.options])

    def surroundings(self, source: Source) -> str:
        """The folders of headers that environment variables name, and the current one if a folder is relative to it.

        Builds with libraries are marked, because earlier versions named these before the source, where they gave
        nothing.
        """
        libraries = " libraries last" if any(map(_LIBRARY.match, source.options)) else ""
        if not may_read(source.text, source.options):
            return libraries
        searched = _SEARCHED_BY_CPP if _is_cpp(source) else _SEARCHED
        return f"{libraries}{search_path.surroundings([*self.command[1:], *source.options], searched)}"


def _is_cpp(source: Source) -> bool:
    """Whether the source is C++, as one of its options says, instead of C."""
    return CPP in source.options


def surrounding(space: "Space") -> str:
    """A digest of the headers that the sources of a space include from folders of the user's, and of the libraries that
    its options name: files that people change, and that are no part of the space. Empty without any."""
    options = [*(find_command() or [""])[1:], *space.compile_options.get("c", ())]
    return search_path.contents(space, options, _SEARCHED_BY_CPP if CPP in options else _SEARCHED)


def default(_architecture: str = "") -> HostCompiler:
    """The compiler for this CPU: $CC, or the first compiler on the path. Raises DeviceError if there is none."""
    command = find_command()
    if command is None:
        raise DeviceError("device host: no C compiler found; install one (apt-get install gcc) or set CC")
    return HostCompiler(command, processor())


def _advised(log: str, text: str) -> str:
    """A compiler's log, with what to write if GCC refuses a pragma in which `text`, the source, has a macro's name in
    place of a number."""
    from tuner.space.sources.checks.ignored import UNROLL_BY  # which no launch needs

    if not (_UNROLL.search(log) and (named := _NAMED.search(text))):
        return log
    advice = f"GCC puts no macro's value there: write UNROLL_BY({named[1]}), with {UNROLL_BY}"
    return _UNROLL.sub(lambda found: f"{found[0]}; {advice}", log, count=1)
