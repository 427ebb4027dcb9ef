"""Recognises failures that the machine caused, not the configuration: a full disk, no memory, no descriptors, or a
kill.

Such a failure is no result: the configuration is tried again, and the ledger does not store it.
"""

import contextlib
import errno
import os
import re
import resource
from collections.abc import Iterable
from pathlib import Path

from tuner.errors import EnvironmentTrouble

NO_SPACE, NO_MEMORY, NO_FILES, KILLED = "no space", "no memory", "too many open files", "killed"
PERHAPS_ITS_OWN = (NO_MEMORY, KILLED)  # a configuration may also cause these itself
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
}
_DIAGNOSTIC = re.compile(r"\S+(:\d+:(\d+:)?|\(\d+\):) (error|warning|note): |\S+: In function |\s*\d*\s*\|")
_DESCRIPTIONS = {
    NO_SPACE: "no space is left",
    NO_MEMORY: "too little memory is left",
    NO_FILES: "too many files are open",
    KILLED: "a program was killed",
}
_ADVICE = {
    NO_SPACE: "free some, or set TUNER_CACHE to a folder on another disk",
    NO_MEMORY: "end other programs, or try a smaller size",
    NO_FILES: "raise `ulimit -n`",
    KILLED: "`dmesg` shows whether the system killed it for lack of memory",
}


def trouble(reason: str, what: str) -> EnvironmentTrouble:
    """The error for a reason, with the matching advice; `what` says what happened."""
    return EnvironmentTrouble(f"{what}; {_ADVICE[reason]}", reason)


def of_error(error: OSError | MemoryError) -> EnvironmentTrouble | None:
    """The EnvironmentTrouble that a system error indicates; None if the machine did not cause it."""
    if isinstance(error, MemoryError):
        return trouble(NO_MEMORY, _DESCRIPTIONS[NO_MEMORY])
    reason = _ERRORS.get(error.errno or 0)
    file = f"{error.filename}: " if error.filename else ""
    return trouble(reason, f"{file}{error.strerror}") if reason else None


def of_log(log: str, what: str, folders: Iterable[Path] = ()) -> EnvironmentTrouble | None:
    """The EnvironmentTrouble that a failed program's log indicates, or that results from a full disk of one of
    `folders`. None if the machine did not cause the failure. `what` is the beginning of the message.

    The message does not quote the log: temporary file names differ, but the same trouble is to be reported only once.
    """
    reason = next(filter(None, map(reason_in, log.splitlines())), None)
    if reason is None:
        return of_folders(what, folders)
    disk = "".join(f" on the disk at {_mount(folder)}" for folder in list(folders)[:1]) if reason == NO_SPACE else ""
    return trouble(reason, f"{what}: {_DESCRIPTIONS[reason]}{disk}")


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
    with contextlib.suppress(OSError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
        return allowed and (available is None or available << 10 >= memory)
    return allowed


def _mount(folder: Path) -> Path:
    """The mount point of the disk that holds `folder`."""
    return next(path for path in (folder, *folder.parents) if path.is_mount() or path == path.parent)


def is_doubtful(failure: str | None, log: str) -> bool:
    """Whether the machine may have caused a recorded failure: version 0.1.0 recorded such failures, too."""
    if failure in ("compile", "launch", "finals"):
        return any(reason_in(line) for line in log.splitlines())
    return failure in ("crash", "compile crash") and "was killed by SIGKILL" in log


def reason_in(line: str) -> str | None:
    """The reason that a line of a log indicates, else None. A compiler's diagnostics and its quotes of the source do
    not count."""
    if _DIAGNOSTIC.match(line):
        return None
    return next((reason for text, reason in _TEXTS.items() if text in line.lower()), None)
