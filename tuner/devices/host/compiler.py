"""Compiles C11 with OpenMP to a shared library for this CPU, with $CC or the first compiler on the path."""

import functools
import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from tuner.devices import environment
from tuner.devices.compiler import Build, Compiler
from tuner.devices.host import BACKEND
from tuner.errors import BuildError, DeviceError
from tuner.quoting import quoted, shown
from tuner.space.sources.source import Source

# The shell sets the limits, so that no Python code runs between fork and exec. A limit that the system lacks is
# skipped.
LIMITED = 'ulimit -t "$1" 2>/dev/null; ulimit -v "$2" 2>/dev/null; shift 2; exec "$@"'
CANNOT_RUN = (126, 127)  # exit statuses of a shell
MOST_NAME = 100  # characters of the file's name in messages; a name of more than 255 is none
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

    def name(self) -> str:
        """The compiler's file, size and modification time, because its version would need a process."""
        try:
            binary = Path(self.command[0]).resolve()
            status = binary.stat()
        except OSError as error:
            raise environment.of_error(error) from None
        return f"{binary} {status.st_size} {status.st_mtime_ns} {self.command[1:]} {self._processor} {OPTIONS}"

    def compile(self, source: Source) -> Build:
        with tempfile.TemporaryDirectory(prefix="tuner-") as folder:
            text, library = Path(folder, f"{source.kernels[0][:MOST_NAME]}.c"), Path(folder, "kernel.so")
            text.write_text(source.text, encoding="utf-8")
            command = [*self.command, *OPTIONS, *source.options, "-o", str(library), str(text), "-lm"]
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
            return Build(library.read_bytes())

    def _limited(self, command: list[str]) -> list[str]:
        """The command line that runs `command` within the allowance."""
        if self.allowance is None:
            return command
        limits = [str(self.allowance.seconds), str(self.allowance.memory >> 10)]
        return ["/bin/sh", "-c", LIMITED, "sh", *limits, *command]


def default(_architecture: str = "") -> HostCompiler:
    """The compiler for this CPU: $CC, or the first compiler on the path. Raises DeviceError if there is none."""
    command = find_command()
    if command is None:
        raise DeviceError("device host: no C compiler found; install one (apt-get install gcc) or set CC")
    return HostCompiler(command, processor())
