"""The floating-point environment of a thread: its rounding mode, and whether it treats subnormal numbers as zero.

A kernel may change it, and so does the loader for a library that gcc before version 13 linked with -Ofast.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Iterator

_ROOM = 256  # bytes, more than any fenv_t
_DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV of the C libraries of Linux


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The C library with the functions of fenv.h; None if it is unknown, or has another FE_DFL_ENV."""
    if not sys.platform.startswith("linux"):
        return None
    for name in ("libm.so.6", None):
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(name)
            library.fegetenv, library.fesetenv  # noqa: B018  # raises AttributeError
            return library
    return None


def reset() -> None:
    """Give this thread the environment with which programs start."""
    if (library := _library()) is not None:
        library.fesetenv(_DEFAULT)


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """A block in the environment with which programs start; this thread then gets its own again."""
    library = _library()
    if library is None:
        yield
        return
    own = ctypes.create_string_buffer(_ROOM)
    library.fegetenv(own)
    library.fesetenv(_DEFAULT)
    try:
        yield
    finally:
        library.fesetenv(own)
