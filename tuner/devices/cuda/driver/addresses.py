"""Where the memory at an address was allocated."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable

from tuner.devices.cuda.driver.context import Context, library

_CONTEXT, _DEVICE_ORDINAL = 1, 9  # of CUpointer_attribute


def device_of(address: int) -> int | None:
    """The number of the GPU whose memory holds an address; None if no GPU's does."""
    number = ctypes.c_int()
    status = library().cuPointerGetAttribute(ctypes.byref(number), _DEVICE_ORDINAL, ctypes.c_uint64(address))
    return None if status else number.value


def membership(context: Context) -> Callable[[Iterable[int]], bool]:
    """A predicate: whether all addresses were allocated in `context`. Threads must not share it."""
    owner, cell, own = ctypes.c_void_p(), ctypes.c_uint64(), context.handle.value
    query = functools.partial(library().cuPointerGetAttribute, ctypes.byref(owner), _CONTEXT, cell)

    def contains(addresses: Iterable[int]) -> bool:
        for address in addresses:
            cell.value = address
            if query() or owner.value != own:
                return False
        return True

    return contains


def context_of(address: int) -> int | None:
    """The handle of the context in which memory was allocated; None for memory of a CUDA memory pool, and for memory
    that CUDA did not allocate."""
    context = ctypes.c_void_p()
    status = library().cuPointerGetAttribute(ctypes.byref(context), _CONTEXT, ctypes.c_uint64(address))
    return None if status else context.value
