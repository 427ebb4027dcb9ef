"""What a failure says of the machine instead of a configuration: no room, no memory, no descriptors, or a kill.

Such a failure is no result. What met it is tried again, and no ledger keeps it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
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
    "memory exhausted": NO_MEMORY,
    "bad_alloc": NO_MEMORY,
    "failed to map segment": NO_MEMORY,  # the loader
    "killed signal terminated": KILLED,
    "killed (program": KILLED,
    "terminated signal terminated": KILLED,
    "terminated with signal 9": KILLED,
}
_SAID_OF_THE_SOURCE = re.compile(r"\S+:\d+:(\d+:)? (error|warning|note): |\s*\d*\s*\|")
_ADVICE = {
    NO_SPACE: "free some, or name a folder on another disk with TUNER_CACHE",
    NO_MEMORY: "end other programs, or try a smaller size",
    NO_FILES: "raise `ulimit -n`",
    KILLED: "end what kills it; `dmesg` tells whether the system did, for lack of memory",
}


def trouble(reason: str, what: str) -> EnvironmentTrouble:
    """The error: what happened, and what to do."""
    return EnvironmentTrouble(f"{what}; {_ADVICE[reason]}", reason)


def of_error(error: OSError | MemoryError) -> EnvironmentTrouble | None:
    """What an error of the system means; None where it is no trouble of the machine's."""
    if isinstance(error, MemoryError):
        return trouble(NO_MEMORY, "this machine has too little memory")
    reason = _ERRORS.get(error.errno or 0)
    where = f"{error.filename}: " if error.filename else ""
    return trouble(reason, f"{where}{error.strerror}") if reason else None


def of_log(log: str, what: str, folders: Iterable[Path] = ()) -> EnvironmentTrouble | None:
    """What a failure with this log means, by its text, or else because one of `folders` is full. `what` is at work."""
    for line in log.splitlines():
        reason = reason_in(line)
        if reason is not None:
            return trouble(reason, f"{what}: {line.strip()}")
    return of_folders(what, folders)


def of_folders(what: str, folders: Iterable[Path]) -> EnvironmentTrouble | None:
    """What a failure means that does not say why, where one of `folders` is full."""
    for folder in folders:
        with contextlib.suppress(OSError):
            disk = os.statvfs(folder)
            free = disk.f_bavail * disk.f_frsize
            if free < LITTLE_SPACE or (disk.f_files and not disk.f_favail):
                return trouble(NO_SPACE, f"{what}: {folder} has {free >> 10} KiB of space left")
    return None


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
