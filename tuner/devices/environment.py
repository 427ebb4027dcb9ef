"""Distinguish faults of a kernel, which its compiler reports, from trouble of the machine, such as a full disk, a
missing file or a kill.

Trouble is no result: the configuration is tried again, and the ledger does not store it. A failure counts against a
configuration only if a log speaks of its source; whatever nobody has listed here is trouble.
"""

import contextlib
import errno
import functools
import os
import re
import resource
from collections.abc import Iterable
from pathlib import Path

from tuner.errors import EnvironmentTrouble
from tuner.quoting import shown

NO_SPACE, NO_MEMORY, NO_FILES, KILLED = "no space", "no memory", "too many open files", "killed"
CHANGED, LOST, OTHER = "changed compiler", "lost device", "machine trouble"
PERHAPS_ITS_OWN = (NO_MEMORY, KILLED)  # a configuration may also cause these itself
NOT_STORED = (*PERHAPS_ITS_OWN, OTHER)  # reasons after which a run goes on without the configuration
LITTLE_SPACE = 1 << 20  # free bytes of a disk; with less, a compiler may fail without a reason in its log

_ERRORS = {
    errno.ENOSPC: NO_SPACE,
    errno.EDQUOT: NO_SPACE,
    errno.EFBIG: NO_SPACE,
    errno.ENOMEM: NO_MEMORY,
    errno.EAGAIN: NO_MEMORY,  # a process or thread cannot be started
    errno.EMFILE: NO_FILES,
    errno.ENFILE: NO_FILES,
}
_TEXTS = {os.strerror(number).lower(): reason for number, reason in _ERRORS.items()} | {
    "file size limit exceeded": NO_SPACE,
    "out of memory": NO_MEMORY,
    "out_of_memory": NO_MEMORY,  # NVRTC
    "out_of_host_memory": NO_MEMORY,  # OpenCL
    "memory exhausted": NO_MEMORY,
    "bad_alloc": NO_MEMORY,
    "failed to map segment": NO_MEMORY,  # the loader
    "killed signal terminated": KILLED,
    "killed (program": KILLED,
    "terminated signal terminated": KILLED,
    "terminated with signal 9": KILLED,
    "died due to signal 9": KILLED,  # nvcc
}
_DIAGNOSTIC = r"\S+(:\d+:(\d+:)?|\(\d+\):) (error|warning|note): |\S+: In function |\s*\d*\s*\|"
_OF_SOURCE = (
    r"(?:(?::\d+){1,2}:|\(\d+\):) (?:fatal |catastrophic )?error\b"  # at a line: gcc, clang, NVRTC
    r"|\berror: \S+?(?::\d+){2}: "  # PoCL
    r"|ptxas error *:|^ptxas [^;]*; error *:|nvcc fatal *: (?:Unknown|Unsupported) "
    r"|undefined reference to |undefined symbol: |multiple definition of "
    r"|^the source has no kernel "  # see `missing_kernel`
    r"|error: (?:unrecognized|unknown|unsupported|invalid) (?:command|argument|option|value)"
)
_OF_FILE = r"No such file or directory|open(?:ing)? [\w ]*file|file not found"
# A compiler that reads a file may end a diagnostic with the system's message. A missing file may be the kernel's fault;
# the others are words of a compiler, too.
_WORDS = {errno.ENOENT, errno.EINVAL, errno.EDOM, errno.ERANGE, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPROTO}
_NO_FILE = re.compile(r"^\[Errno \d+\] |: exec: .*: not found$|: cannot open shared object file: ", re.MULTILINE)
_PYTHON = re.compile(r"ended with status 1: [\w.]*(?:Error|Exception)\b")  # of a worker itself, not of its kernel
_DESCRIPTIONS = {
    NO_SPACE: "no space is left",
    NO_MEMORY: "too little memory is left",
    NO_FILES: "too many files are open",
    KILLED: "a program was killed",
    OTHER: "a file cannot be used",
}
_ADVICE = {
    NO_SPACE: "free some, or set TUNER_CACHE to a folder on another disk",
    NO_MEMORY: "end other programs, or try a smaller size",
    NO_FILES: "raise `ulimit -n`",
    KILLED: "`dmesg` shows whether the system killed it for lack of memory",
    CHANGED: "let the change finish",
    OTHER: "no configuration is to blame",
}


def trouble(reason: str, what: str) -> EnvironmentTrouble:
    """The error for a reason, with the matching advice; `what` says what happened."""
    return EnvironmentTrouble(f"{what}; {_ADVICE[reason]}", reason)


def of_error(error: Exception) -> EnvironmentTrouble:
    """The EnvironmentTrouble that an error of Python indicates: no compiler, driver or comparison says it of a
    kernel."""
    if isinstance(error, MemoryError):
        return trouble(NO_MEMORY, _DESCRIPTIONS[NO_MEMORY])
    if isinstance(error, OSError) and error.errno:
        file = f"{shown(_missing(error))}: " if isinstance(error.filename, str) else ""
        return trouble(_ERRORS.get(error.errno, OTHER), f"{file}{error.strerror}")
    import traceback  # slow to import; a launch meets no error

    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return trouble(OTHER, f"{type(error).__name__}: {shown(str(error))}{place}")


def _missing(error: OSError) -> Path:
    """The file that an error names. If it does not exist, the first folder of its path that does not: names of
    temporary files differ, but the same trouble is to be reported only once."""
    file = Path(error.filename).absolute()
    if error.errno != errno.ENOENT:
        return file
    return next((path for path in (*reversed(file.parents), file) if not os.path.lexists(path)), file)


def of_log(log: str, what: str, folders: Iterable[Path] = ()) -> EnvironmentTrouble | None:
    """The EnvironmentTrouble that a failed program's log indicates, or that results from a full disk of one of
    `folders`. None if the machine did not cause the failure. `what` is the beginning of the message.

    The message does not quote the log: temporary file names differ, but the same trouble is to be reported only once.
    """
    reason = next(filter(None, map(reason_in, log.splitlines())), None)
    if reason is None and (said := _of_system().search(log)):
        return trouble(OTHER, f"{what}: {_DESCRIPTIONS[OTHER]}{said[0]}")
    if reason is None:
        return of_folders(what, folders)
    disk = "".join(f" on the disk at {_mount(folder)}" for folder in list(folders)[:1]) if reason == NO_SPACE else ""
    return trouble(reason, f"{what}: {_DESCRIPTIONS[reason]}{disk}")


@functools.cache
def _of_system() -> re.Pattern[str]:
    """The system's messages. Compiled when it is first needed, which takes longer than the import of a module."""
    messages = (re.escape(os.strerror(number)) for number in errno.errorcode if number not in _WORDS)
    return re.compile(rf": (?:{'|'.join(messages)})\.?$", re.MULTILINE | re.IGNORECASE)


def of_folders(what: str, folders: Iterable[Path]) -> EnvironmentTrouble | None:
    """The EnvironmentTrouble of a failure without a reason if the disk of one of `folders` is full, else None."""
    for folder in folders:
        with contextlib.suppress(OSError):
            disk = os.statvfs(folder)
            free = disk.f_bavail * disk.f_frsize
            if free < LITTLE_SPACE or (disk.f_files and not disk.f_favail):
                return trouble(NO_SPACE, f"{what}: {_DESCRIPTIONS[NO_SPACE]} on the disk at {_mount(folder)}")
    return None


def has(memory: int) -> bool:
    """Whether the machine has `memory` bytes available, and this process may allocate them."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    allowed = soft == resource.RLIM_INFINITY or soft >= memory
    available = _available()
    return allowed and (available is None or available >= memory)


def available_memory() -> int:
    """The bytes that programs may still allocate: the pages that are free, and those of caches that give way."""
    available = _available()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") if available is None else available


def _available() -> int | None:
    """What Linux says that programs may still allocate, in bytes; None from any other system."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)
    return None


def _mount(folder: Path) -> Path:
    """The mount point of the disk that holds `folder`."""
    return next(path for path in (folder, *folder.parents) if path.is_mount() or path == path.parent)


def speaks_of_source(log: str) -> bool:
    """Whether a compiler's log speaks of the source that it has compiled, or of its options.

    A line about a missing file does not tell: the source may name it, or somebody may have deleted it.
    """
    return any(re.search(_OF_SOURCE, line) and not re.search(_OF_FILE, line) for line in log.splitlines())


def is_doubtful(failure: str | None, log: str) -> bool:
    """Whether the machine may have caused a recorded failure: version 0.1.0 recorded such failures, too."""
    if failure in ("compile", "launch", "finals"):
        return any(reason_in(line) for line in log.splitlines()) or _NO_FILE.search(log) is not None
    return failure in ("crash", "compile crash") and ("was killed by SIGKILL" in log or bool(_PYTHON.search(log)))


def reason_in(line: str) -> str | None:
    """The reason that a line of a log indicates, else None. A compiler's diagnostics and its quotes of the source do
    not count."""
    if re.match(_DIAGNOSTIC, line):
        return None
    return next((reason for text, reason in _TEXTS.items() if text in line.lower()), None)
