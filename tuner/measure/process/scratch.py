"""Temporary files and folders of child processes, removed even if a kill ends the child or its parent."""

import contextlib
import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

from tuner import paths
from tuner.devices import environment
from tuner.errors import EnvironmentTrouble


def folder() -> Path:
    """Create a folder for one child, in the cache. The caller must `remove` it when the child is gone.

    First removes the folders of dead parents on this machine. Raises EnvironmentTrouble if no folder can be created,
    and RequestError if the cache's folder is not safe.
    """
    root = paths.private(paths.cache() / "scratch")
    for other in root.glob(f"{platform.node()}-*-*"):
        node, pid, _ = other.name.rsplit("-", 2)
        if node == platform.node() and pid.isdecimal() and _is_dead(int(pid)):
            remove(other)
    try:
        return Path(tempfile.mkdtemp(dir=root, prefix=f"{platform.node()}-{os.getpid()}-"))
    except OSError as error:
        text = f"{root}: cannot create a folder: {error.strerror}; set TUNER_CACHE to another folder"
        raise _trouble(error, text) from None


def file() -> BinaryIO:
    """Create an unnamed temporary file, which disappears with the last process that has it open. Raises
    EnvironmentTrouble."""
    try:
        return tempfile.TemporaryFile(prefix="tuner-")
    except OSError as error:
        text = f"{tempfile.gettempdir()}: cannot create a file: {error.strerror}; set TMPDIR to another folder"
        raise _trouble(error, text) from None


def _trouble(error: OSError, text: str) -> EnvironmentTrouble:
    """The known trouble that `error` is, else one with this text."""
    known = environment.of_error(error)
    return known if known.reason != environment.OTHER else EnvironmentTrouble(text)


def remove(path: Path) -> None:
    """Delete a folder as far as possible; errors are ignored."""
    shutil.rmtree(path, ignore_errors=True)


def _is_dead(pid: int) -> bool:
    with contextlib.suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
    return False
