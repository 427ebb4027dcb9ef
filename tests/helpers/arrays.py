"""Arrays of every library that a launch takes."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from helpers.gpu_arrays import Own
from helpers.processes import PATIENCE_SECONDS
from tuner import devices
from tuner.devices import Device

LIBRARIES = ["pycuda", "cupy", "torch", "own"]  # `own` is nobody's, and always there
SHAPE = {"M": 40, "N": 30, "K": 50}


def arrays() -> tuple[np.ndarray[Any, Any], ...]:
    random = np.random.default_rng(1)
    return tuple(random.random((1, *s), dtype=np.float32) for s in ((40, 30), (40, 50), (50, 30)))


def on_gpu(library: str, array: np.ndarray[Any, Any]) -> Any:
    if library == "own":
        return Own(_gpu(), array)
    if library == "pycuda":
        pycuda_driver()
        return importlib.import_module("pycuda.gpuarray").to_gpu(array)
    if library == "cupy":
        return pytest.importorskip("cupy").asarray(array)
    return pytest.importorskip("torch").from_numpy(array).cuda()


def installed_libraries() -> list[str]:
    return [name for name in LIBRARIES if name == "own" or importlib.util.find_spec(name)]


def pycuda_driver() -> Any:
    """PyCUDA's module, with the primary context on PyCUDA's own stack. We put it there only when we work through
    PyCUDA."""
    driver = pytest.importorskip("pycuda.driver")
    if _gpu().package != "pycuda":
        importlib.import_module("pycuda.autoprimaryctx")
    return driver


@functools.cache
def _gpu() -> Device:
    return devices.open_device("cuda")


def on_host(array: Any) -> np.ndarray[Any, Any]:
    fetch = getattr(array, "get", None) or (lambda: array.cpu().numpy())
    return np.asarray(fetch())


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Runs `work` with 0, 1, 2 .. at the same time, taking turns as often as can be; raises what one of them raises."""
    interval, together = sys.getswitchinterval(), threading.Barrier(count)
    sys.setswitchinterval(1e-6)

    def begin(number: int) -> None:
        together.wait(PATIENCE_SECONDS)
        work(number)

    try:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(begin, range(count)))
    finally:
        sys.setswitchinterval(interval)


def ones(cupy: Any) -> tuple[Any, Any, Any]:
    """A C of zeros, an A and a B of ones: each element of their product is 16."""
    return cupy.zeros((1, 16, 16), "float32"), *(cupy.ones((1, 16, 16), "float32") for _ in "AB")


class Foreign:
    """A stream of a library that nobody knows, and an array of one."""

    def __init__(self, stream: int = 0, interface: Any = None) -> None:
        self._handle = stream
        self.__cuda_array_interface__ = interface

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle
