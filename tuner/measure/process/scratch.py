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
from tuner.errors import RequestError


def folder() -> Path:
    """Create a folder for one child, in the cache. The caller must `remove` it when the child is gone.

    First removes the folders of dead parents on this machine. Raises RequestError or EnvironmentTrouble if no folder
    can be created.
    """
    root = paths.private(paths.cache() / "scratch")
    for other in root.glob(f"{platform.node()}-*-*"):
        node, pid, _ = other.name.rsplit("-", 2)
        if node == platform.node() and _is_dead(int(pid)):
            remove(other)
    try:
        return Path(tempfile.mkdtemp(dir=root, prefix=f"{platform.node()}-{os.getpid()}-"))
    except OSError as error:
        plain = RequestError(f"{root}: cannot create a folder: {error.strerror}; set TUNER_CACHE to another folder")
        raise environment.of_error(error) or plain from None


def file() -> BinaryIO:
    """Create an unnamed temporary file, which disappears with the last process that has it open.

    Raises as `folder` does.
    """
    try:
        return tempfile.TemporaryFile(prefix="tuner-")
    except OSError as error:
        folder_path = tempfile.gettempdir()
        plain = RequestError(f"{folder_path}: cannot create a file: {error.strerror}; set TMPDIR to another folder")
        raise environment.of_error(error) or plain from None


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
