"""Compiles C11 with OpenMP to a shared library for this CPU, with $CC or the first compiler on the path."""

import functools
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.devices import environment, settings
from tuner.devices.compiler import Build, Compiler
from tuner.devices.conditions import Conditions
from tuner.devices.headers import Headers, may_read
from tuner.devices.host import BACKEND
from tuner.devices.settings import Settings
from tuner.errors import BuildError, DeviceError
from tuner.quoting import quoted, shown
from tuner.space.sources.source import Source

if TYPE_CHECKING:
    from tuner.space.model import Space

# The shell sets the limits, so that no Python code runs between fork and exec. A limit that the system lacks is
# skipped.
LIMITED = 'ulimit -t "$1" 2>/dev/null; ulimit -v "$2" 2>/dev/null; shift 2; exec "$@"'
_SEARCHED = ("CPATH", "C_INCLUDE_PATH")  # lists of folders in which gcc and clang look for headers
_LOCAL = "/usr/local/include"  # where a compiler looks for headers that somebody has installed by hand
_LIST = re.compile(r"search starts here:\n(.*?)End of search list", re.DOTALL)
_UNRELATED = ("-D", "-O", "-W", "-f", "-g")  # options that name no folder of headers
_LIBRARY = re.compile(r"-l\w|.*\.(a|o)$")
_IGNORED = re.compile(r'^ignoring nonexistent directory "(.*)"$', re.MULTILINE)
_ASSEMBLED = "incbin"  # reads a file that the compiler does not tell of
_PROFILES = ("-fprofile-use", "-fauto-profile", "-fbranch-probabilities", "-fplugin", "-specs")  # so do these options
CANNOT_RUN = (126, 127)  # exit statuses of a shell
MOST_NAME = 100  # characters of the file's name in messages; a name of more than 255 is none
CODE: Settings = {"CCC_OVERRIDE_OPTIONS": "", "COMPILER_PATH": "", "GCC_EXEC_PREFIX": ""}  # which change its code
OPTIONS = ("-std=c11", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


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
    """The first line of the compiler's --version."""
    process = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return (process.stdout.splitlines() or [command[0]])[0]


class HostCompiler(Compiler):
    """A C compiler. `command` is the start of its command line. Its shared libraries run on this CPU only."""

    kind = BACKEND.kind

    def __init__(self, command: list[str], processor: str) -> None:
        self.architecture = platform.machine()
        self.command = command
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
        return f"{binary} {about}{self._settings.identity}"

    def compile(self, source: Source) -> Build:
        with tempfile.TemporaryDirectory(prefix="tuner-", dir=paths.temporary()) as folder:
            text, library = Path(folder, f"{source.kernels[0][:MOST_NAME]}.c"), Path(folder, "kernel.so")
            text.write_text(source.text, encoding="utf-8")
            told = Path(folder, "headers")
            options = [*OPTIONS, "-MD", "-MF", str(told), "-MT", "kernel", "-o", str(library)]
            # Those of the source come last: of a static library, a linker takes only what files before it need.
            command = [*self.command, *options, str(text), *source.options, "-lm"]
            process = subprocess.run(
                self._limited(command),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                errors="replace",
                env={**os.environ, "LC_ALL": "C"},  # tuner parses the log, which must be English
            )
            if process.returncode in CANNOT_RUN:
                said = shown((process.stderr.strip().splitlines() or ["the compiler cannot be run"])[-1])
                raise environment.trouble(environment.OTHER, f"{command[0]}: {said}")
            if process.returncode:
                log = process.stderr.replace(f"{folder}/", "").strip()
                if process.returncode < 0:
                    number = -process.returncode
                    log = f"{log}\n{signal.strsignal(number)} signal terminated program {command[0]}".strip()
                raise BuildError(log or f"{command[0]} failed")
            if not library.is_file():
                raise BuildError(f"{command[0]} wrote no library")
            return Build(library.read_bytes(), headers=self._headers(source, told, text))

    def _headers(self, source: Source, told: Path, text: Path) -> Headers | None:
        """The files that the compiler read, from the Makefile `told` that it wrote; None if it wrote none, or if it may
        have read others. `text` is the file of the source."""
        from tuner.devices import header_search  # a launch from the cache searches nothing

        if not told.is_file():
            return None
        files = [os.path.abspath(name) for name in _prerequisites(told.read_text(errors="surrogateescape"))]
        files = [file for file in dict.fromkeys(files) if file != str(text)]
        if _ASSEMBLED in source.text or any(option.startswith(_PROFILES) for option in source.options):
            return None
        options = [*self.command[1:], *source.options]
        later, absent = header_search.shadowed(files, _searched(tuple(self.command), tuple(source.options)))
        named = dict.fromkeys(header_search.files(options), ())
        try:
            return Headers.of({**named, **later}, absent)
        except OSError:
            return None

    def surroundings(self, source: Source) -> str:
        """The folders of headers that environment variables name, and the current one if a folder is relative to it.

        Builds with libraries are marked, because earlier versions named these before the source, where they gave
        nothing.
        """
        return f"{' libraries last' if any(map(_LIBRARY.match, source.options)) else ''}{self._folders(source)}"

    def _folders(self, source: Source) -> str:
        named = {name: os.environ[name] for name in _SEARCHED if os.environ.get(name)}
        options = [option for option in (*self.command[1:], *source.options) if _names_folder(option)]
        if not named and not options:
            return ""
        folders = [folder for value in named.values() for folder in value.split(os.pathsep)]
        is_relative = options or not all(map(os.path.isabs, folders))
        if not may_read(source.text, source.options):
            return ""
        return f" {sorted(named.items())} {os.getcwd() if is_relative else ''}"

    def _limited(self, command: list[str]) -> list[str]:
        """The command line that runs `command` within the allowance."""
        if self.allowance is None:
            return command
        limits = [str(self.allowance.seconds), str(self.allowance.memory >> 10)]
        return ["/bin/sh", "-c", LIMITED, "sh", *limits, *command]


def _names_folder(option: str) -> bool:
    """Whether an option of a compiler names a file or folder relative to the current folder."""
    value = re.sub(r"^(-I|-isystem|-iquote|-idirafter|-include|-imacros|-L|--sysroot)=?", "", option)
    return option.startswith(("-I", "-i", "-L", "--sysroot")) and not value.startswith("/")


def _prerequisites(rule: str) -> list[str]:
    """The files that a rule of a Makefile, as a compiler writes it, depends on."""
    words = re.findall(r"(?:\\[ #]|\S)+", rule.partition(":")[2].replace("\\\n", " "))
    return [re.sub(r"\\([ #])", r"\1", word).replace("$$", "$") for word in words]


def _searched(command: tuple[str, ...], options: tuple[str, ...]) -> tuple[str, ...]:
    """The folders in which a compiler looks for headers, in their order; before them those that do not exist."""
    relevant = tuple(option for option in options if option.startswith("-Wp,") or not option.startswith(_UNRELATED))
    return _folders_of(command, relevant, tuple(os.environ.get(name, "") for name in _SEARCHED), os.getcwd())


@functools.lru_cache(maxsize=64)
def _folders_of(command: tuple[str, ...], options: tuple[str, ...], *_surroundings: object) -> tuple[str, ...]:
    process = subprocess.run(
        [*command, *options, "-E", "-v", "-x", "c", os.devnull],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    )
    listed = _LIST.search(process.stderr)
    lines = listed[1].splitlines() if listed else []
    folders = [os.path.abspath(line.strip()) for line in lines if line.startswith(" ")]
    return (*map(os.path.abspath, _IGNORED.findall(process.stderr)), *folders)


def surrounding(space: "Space") -> str:
    """A digest of the headers that the sources of a space include from folders of the user's, and of the libraries that
    its options name: files that people change, and that are no part of the space. Empty without any."""
    from tuner.devices import header_search
    from tuner.space.sources.includes import inlined

    options = [*(find_command() or [""])[1:], *space.compile_options.get("c", ())]
    listed = [folder for name in _SEARCHED for folder in os.environ.get(name, "").split(os.pathsep)]
    search = header_search.HeaderSearch([*header_search.folders(options), *filter(None, listed), _LOCAL])
    for path in space.sources:
        search.of_text(inlined(path, space.include))
    files = [file for file in (*search.read, *header_search.files(options)) if os.access(file, os.R_OK)]
    return paths.digest(*(Path(file).read_bytes() for file in files)) if files else ""


def default(_architecture: str = "") -> HostCompiler:
    """The compiler for this CPU: $CC, or the first compiler on the path. Raises DeviceError if there is none."""
    command = find_command()
    if command is None:
        raise DeviceError("device host: no C compiler found; install one (apt-get install gcc) or set CC")
    return HostCompiler(command, processor())
