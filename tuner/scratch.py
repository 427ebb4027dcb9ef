"""Temporary folders of child processes, which may be killed before they can tidy up; so may their parent."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import tempfile
from pathlib import Path

from tuner import paths


def folder() -> Path:
    """A new folder for one child, in the cache of builds; `remove` it when the child is gone. Folders that dead
    parents of this machine left behind are removed now."""
    root = paths.private(paths.cache() / "scratch")
    for other in root.glob(f"{platform.node()}-*-*"):
        if _is_dead(int(other.name.rsplit("-", 2)[1])):
            remove(other)
    return Path(tempfile.mkdtemp(dir=root, prefix=f"{platform.node()}-{os.getpid()}-"))


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
