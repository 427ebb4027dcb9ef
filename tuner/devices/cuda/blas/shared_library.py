"""The shared libraries of NVIDIA's packages, loaded by ctypes."""

from __future__ import annotations

import ctypes
import functools


@functools.cache
def shared_library(name: str) -> ctypes.CDLL | None:
    """A library such as "cublas"; None if it is not installed. If another package has loaded it, that copy is used."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        return ctypes.CDLL(str(load_nvidia_dynamic_lib(name).abs_path))
    except (RuntimeError, OSError):  # it or a dependency is missing
        return None
