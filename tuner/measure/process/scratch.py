"""Temporary files and folders of child processes. A kill may end a child, or its parent, before either tidies up."""

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
    """A new folder for one child, in the cache; `remove` it when the child is gone.

    Removes the folders of dead parents on this machine first. Raises RequestError or EnvironmentTrouble where no folder
    can be made.
    """
    root = paths.private(paths.cache() / "scratch")
    for other in root.glob(f"{platform.node()}-*-*"):
        node, pid, _ = other.name.rsplit("-", 2)
        if node == platform.node() and _is_dead(int(pid)):
            remove(other)
    try:
        return Path(tempfile.mkdtemp(dir=root, prefix=f"{platform.node()}-{os.getpid()}-"))
    except OSError as error:
        plain = RequestError(f"{root}: a folder cannot be made: {error.strerror}; TUNER_CACHE names another")
        raise environment.of_error(error) or plain from None


def file() -> BinaryIO:
    """A temporary file without a name: it goes with the last process that has it open. Raises as `folder` does."""
    try:
        return tempfile.TemporaryFile(prefix="tuner-")
    except OSError as error:
        where = tempfile.gettempdir()
        plain = RequestError(f"{where}: no file can be made: {error.strerror}; TMPDIR names another folder")
        raise environment.of_error(error) or plain from None


def remove(path: Path) -> None:
    """Delete a folder, as far as that is possible."""
    shutil.rmtree(path, ignore_errors=True)


def _is_dead(pid: int) -> bool:
    with contextlib.suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
    return False
