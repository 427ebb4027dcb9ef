"""Observers of a script of Kernel Tuner, in the process that measures."""

from __future__ import annotations

import functools
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import RequestError
from tuner.quoting import described, innermost, quoted, shown

if TYPE_CHECKING:
    from tuner.devices import Device

CALLED = (
    "register_device", "register_configuration", "before_start", "after_start", "during", "after_finish", "get_results",
)  # fmt: skip
REMEDY = "correct it and run the script again, or leave it out: what was measured is kept"


class Observers:
    """The observers in a pickled list, each of which has been shown the device.

    They are called before, during and after each timed run, as Kernel Tuner calls them. A script wrote the file for its
    own worker.
    """

    def __init__(self, file: str, device: Device) -> None:
        """Raises RequestError if one cannot be used here."""
        try:
            folders, pickled = pickle.loads(Path(file).read_bytes())  # noqa: S301  # the script's own objects
            sys.path += [folder for folder in folders if folder not in sys.path]
            pairs: list[tuple[Any, str]] = pickle.loads(pickled)  # noqa: S301  # as above
        except Exception as error:
            raise RequestError(f"observers: {Path(file).stem}: {described(error)}; leave it out") from None
        backend = SimpleNamespace(name=device.name, max_threads=device.limits.max_threads, env=_environment(device))
        self.each = [observer for observer, _ in pairs]
        for observer, script in pairs:
            _guard(observer, script)
            observer.register_device(backend)


def _guard(observer: Any, script: str) -> None:
    """Have each method that Kernel Tuner calls raise a RequestError that names the observer and the line of the script
    that defines it."""
    for name in CALLED:
        if (method := getattr(observer, name, None)) is not None:
            setattr(observer, name, functools.partial(_called, type(observer).__name__, script, method))
    if (continuous := getattr(observer, "continuous_observer", None)) is not None:
        _guard(continuous, script)


def _called(name: str, script: str, method: Callable[..., Any], *arguments: Any) -> Any:
    what = f"observers: {name}.{method.__name__}()"
    try:
        returned = method(*arguments)
    except RequestError:  # of another observer, which this one calls
        raise
    except Exception as error:
        raise RequestError(f"{what} raises {described(error)}{_place(error, script, method)}; {REMEDY}") from None
    if method.__name__ == "get_results" and not isinstance(returned, dict):
        raise RequestError(f"{what} returns {quoted(returned)}; return a dictionary")
    return returned


def _place(error: Exception, script: str, method: Callable[..., Any]) -> str:
    """` at tune.py:12`: the innermost line of the error in the method's own file; empty if unknown."""
    file = getattr(getattr(method, "__code__", None), "co_filename", None)
    frame = innermost(error, lambda name: name == file)
    return f" at {shown(script)}:{frame.lineno}" if script and frame is not None else ""


def _environment(device: Device) -> dict[str, str]:
    """What observers read of the device: for NVML, the address of its PCI bus."""
    return {"device_name": device.name, **({"pci_bus_id": device.place} if device.place else {})}


def plain(results: dict[str, Any]) -> dict[str, Any]:
    """Results of observers as JSON data; what is no number, text, list or dictionary becomes its text."""
    converted: dict[str, Any] = json.loads(json.dumps(results, default=_converted))
    return converted


def _converted(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value)
