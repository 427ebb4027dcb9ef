"""The memory of a fork, read by the process that forked it."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any


class _Part(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


@functools.cache
def _reader() -> Callable[..., int] | None:
    """The system call that reads another process; None if there is none."""
    if not sys.platform.startswith("linux"):
        return None
    function: Any = getattr(ctypes.CDLL(None), "process_vm_readv", None)
    if function is not None:
        count = ctypes.c_ulong
        function.argtypes = (ctypes.c_int, ctypes.POINTER(_Part), count, ctypes.POINTER(_Part), count, count)
        function.restype = ctypes.c_ssize_t
    return function  # type: ignore[no-any-return]  # ctypes knows no types


def copy(process: int, address: int, nbytes: int) -> bool:
    """Copy the `nbytes` at `address` of a fork to the same address of this process.

    Returns False if the system does not allow that, or if the fork has no memory there.
    """
    read = _reader()
    done = 0
    while read is not None and done < nbytes:
        part = _Part(address + done, nbytes - done)
        count = read(process, ctypes.byref(part), 1, ctypes.byref(part), 1, 0)
        if count <= 0:
            return False
        done += count
    return read is not None
