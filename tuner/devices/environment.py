"""What a failure says of the machine instead of a configuration: no room, no memory, no descriptors, or a kill.

Such a failure is no result. What met it is tried again, and no ledger keeps it.
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
PERHAPS_ITS_OWN = (NO_MEMORY, KILLED)  # a greedy configuration may bring these about by itself
LITTLE_SPACE = 1 << 20  # bytes; where a disk has less, a compiler may fail without saying why

_ERRORS = {
    errno.ENOSPC: NO_SPACE,
    errno.EDQUOT: NO_SPACE,
    errno.EFBIG: NO_SPACE,
    errno.ENOMEM: NO_MEMORY,
    errno.EAGAIN: NO_MEMORY,  # no process or thread can be started
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
_SAID_OF_THE_SOURCE = re.compile(r"\S+(:\d+:(\d+:)?|\(\d+\):) (error|warning|note): |\S+: In function |\s*\d*\s*\|")
_SAID = {
    NO_SPACE: "no space is left",
    NO_MEMORY: "too little memory is left",
    NO_FILES: "too many files are open",
    KILLED: "a program was killed",
}
_ADVICE = {
    NO_SPACE: "free some, or name a folder on another disk with TUNER_CACHE",
    NO_MEMORY: "end other programs, or try a smaller size",
    NO_FILES: "raise `ulimit -n`",
    KILLED: "`dmesg` tells whether the system did it, for lack of memory",
}


def trouble(reason: str, what: str) -> EnvironmentTrouble:
    """The error: what happened, and what to do."""
    return EnvironmentTrouble(f"{what}; {_ADVICE[reason]}", reason)


def of_error(error: OSError | MemoryError) -> EnvironmentTrouble | None:
    """What an error of the system means; None where it is no trouble of the machine's."""
    if isinstance(error, MemoryError):
        return trouble(NO_MEMORY, _SAID[NO_MEMORY])
    reason = _ERRORS.get(error.errno or 0)
    where = f"{error.filename}: " if error.filename else ""
    return trouble(reason, f"{where}{error.strerror}") if reason else None


def of_log(log: str, what: str, folders: Iterable[Path] = ()) -> EnvironmentTrouble | None:
    """What a failure of a program with this log means, by its text, or else because one of `folders` is full.

    The message does not quote the log, whose names of temporary files change: it is to be told once.
    """
    reason = next(filter(None, map(reason_in, log.splitlines())), None)
    if reason is None:
        return of_folders(what, folders)
    where = "".join(f" on the disk at {_mount(folder)}" for folder in list(folders)[:1]) if reason == NO_SPACE else ""
    return trouble(reason, f"{what}: {_SAID[reason]}{where}")


def of_folders(what: str, folders: Iterable[Path]) -> EnvironmentTrouble | None:
    """What a failure means that does not say why, where one of `folders` is full."""
    for folder in folders:
        with contextlib.suppress(OSError):
            disk = os.statvfs(folder)
            free = disk.f_bavail * disk.f_frsize
            if free < LITTLE_SPACE or (disk.f_files and not disk.f_favail):
                return trouble(NO_SPACE, f"{what}: {_SAID[NO_SPACE]} on the disk at {_mount(folder)}")
    return None


def has(memory: int) -> bool:
    """Whether the machine has so many bytes of memory left, and this process may take them."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    allowed = soft == resource.RLIM_INFINITY or soft >= memory
    with contextlib.suppress(OSError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
        return allowed and (available is None or available << 10 >= memory)
    return allowed


def _mount(folder: Path) -> Path:
    """The folder at which the disk of `folder` is mounted."""
    return next(place for place in (folder, *folder.parents) if place.is_mount() or place == place.parent)


def is_doubtful(failure: str | None, log: str) -> bool:
    """Whether a recorded failure may have been trouble of the machine's, which version 0.1.0 recorded too."""
    if failure in ("compile", "launch", "finals"):
        return any(reason_in(line) for line in log.splitlines())
    return failure in ("crash", "compile crash") and "was killed by SIGKILL" in log


def reason_in(line: str) -> str | None:
    """The reason that a line of a log tells. What a compiler says of the source, and quotes of it, tells none."""
    if _SAID_OF_THE_SOURCE.match(line):
        return None
    return next((reason for text, reason in _TEXTS.items() if text in line.lower()), None)
