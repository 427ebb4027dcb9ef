"""The shared libraries of NVIDIA's packages, loaded by ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os

_VERSIONS = 13, 12  # of CUDA
_LOADED = ctypes.DEFAULT_MODE | getattr(os, "RTLD_NOLOAD", 0)  # only if the process has it


@functools.cache
def shared_library(name: str) -> ctypes.CDLL | None:
    """A library such as "cublas"; None if it is not installed. If another package has loaded it, that copy is used."""
    if _LOADED != ctypes.DEFAULT_MODE:  # to import what would find it takes 40 ms
        for version in _VERSIONS:
            with contextlib.suppress(OSError):
                return ctypes.CDLL(f"lib{name}.so.{version}", _LOADED)
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        return ctypes.CDLL(str(load_nvidia_dynamic_lib(name).abs_path))
    except (RuntimeError, OSError):  # it or a dependency is missing
        return None


def version_text(version: int) -> str:
    """A library version as text, `13.1.0` for 130100."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def load() -> None:
    """Load cuBLAS and cuBLASLt."""
    for name in ("cublasLt", "cublas"):
        shared_library(name)
