"""Isolation of a process that runs code which nobody trusts: what it may see and do, as far as the system allows it.

`apart` comes before the process has threads, `lowered` before it runs such code.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import secrets
import signal
import sys
import tempfile
from pathlib import Path

from tuner.children import reaper

USER, NETWORK, FILES, FOLDER = "user", "network", "files", "folder"  # what a process may be given of its own
_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_NETWORK = 0x20000, 0x8000000, 0x10000000, 0x40000000  # of unshare
_PRIVATE, _RECURSIVE, _NO_SUID, _NO_DEVICES = 1 << 18, 1 << 14, 2, 4  # of mount
_SET_DUMPABLE, _NO_NEW_PRIVILEGES = 4, 38  # of prctl
_FIRST_USER, _USERS = 1 << 30, 1 << 20  # numbers of users that no machine has
_MOST_WRITTEN = 64 << 20  # bytes of a file
_OWN = "/dev/shm"  # noqa: S108  # which an empty one replaces: no program keeps its own files there
# Beginnings of the names of environment variables that drivers and runtimes of kernels read; a kernel sees no others.
_KEPT = ("PATH", "LANG", "LC_", "LD_", "OMP_", "GOMP_", "KMP_", "POCL_", "OCL_", "PYOPENCL_", "TUNER_CUDA")
# Libraries of compiled kernels, which are loaded while their files can still be seen.
_LIBRARIES = ("libm.so.6", "libgomp.so.1", "libomp.so.5", "libiomp5.so", "libstdc++.so.6", "libgcc_s.so.1")


class Confinement:
    """What this process has of its own: the names in `got`. `folder` is the empty folder in which it may write; `made`
    is its path if it is not in memory, so that somebody must delete it."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.folder, self.made = Path(_OWN), ""
        self._is_root = sys.platform.startswith("linux") and os.geteuid() == 0

    def apart(self) -> None:
        """Give this process a network without connections and an empty folder for temporary files."""
        spaces = _NEW_NETWORK | _NEW_MOUNTS | _NEW_IPC
        user, group = os.getuid(), os.getgid()
        if _call("unshare", spaces) or (_call("unshare", spaces | _NEW_USER) and _mapped(user, group)):
            self.got.append(NETWORK)
        if NETWORK in self.got and _call("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None):
            options = b"size=256m,mode=1777"
            if _call("mount", b"tmpfs", _OWN.encode(), b"tmpfs", _NO_SUID | _NO_DEVICES, options):
                self.got.append(FOLDER)
        if FOLDER not in self.got:
            self.folder = Path(tempfile.mkdtemp(prefix="tuner-"))
            self.made = str(self.folder)
        for name in [name for name in os.environ if not name.startswith(_KEPT)]:
            del os.environ[name]
        self._live_in(self.folder)

    def lowered(self, hides_files: bool) -> None:
        """Make this process an unprivileged user's. If it `hides_files`, it sees only its own folder from now on."""
        for limit, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, _MOST_WRITTEN)):
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(limit, (most, most))
        owner = _FIRST_USER + secrets.randbelow(_USERS) if self._is_root else None
        if owner is not None:
            for path in (self.folder, *self.folder.rglob("*")):  # what opening the device has left there, too
                with contextlib.suppress(OSError):
                    os.chown(path, owner, owner)
        if hides_files:
            for library in _LIBRARIES:
                with contextlib.suppress(OSError):
                    ctypes.CDLL(library)
            with contextlib.suppress(OSError):
                os.chroot(self.folder)
                self._live_in(Path("/"))
                self.got.append(FILES)
        if owner is not None:
            with contextlib.suppress(OSError):
                os.setgroups([])
                os.setresgid(owner, owner, owner)
                os.setresuid(owner, owner, owner)
                self.got.append(USER)
        _drop_capabilities()
        _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        reaper.end_with_parent(signal.SIGKILL)  # a change of the user has revoked it
        self.got.sort()

    def _live_in(self, folder: Path) -> None:
        self.folder = folder
        os.chdir(folder)
        tempfile.tempdir = str(folder)
        os.environ.update(dict.fromkeys(("TMPDIR", "HOME", "XDG_CACHE_HOME", "POCL_CACHE_DIR"), str(folder)))


def hide_memory() -> None:
    """Let no other process of this user read this one's memory."""
    _call("prctl", _SET_DUMPABLE, 0, 0, 0, 0)


def _call(name: str, *arguments: object) -> bool:
    """Call a function of the C library that returns 0. False if it fails, or if there is none."""
    function = getattr(ctypes.CDLL(None), name, None)
    return function is not None and function(*arguments) == 0


def _mapped(user: int, group: int) -> bool:
    """Keep the user and the group of this process in its new user namespace."""
    try:
        for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path(f"/proc/self/{file}").write_text(text, encoding="ascii")
    except OSError:
        return False
    return True


def _drop_capabilities() -> None:
    """Give up what this process may do in its own namespaces, such as leaving its root folder."""
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    _call("capset", header, data)
