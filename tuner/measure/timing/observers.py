"""Observers of a script of Kernel Tuner, in the process that measures."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import RequestError
from tuner.quoting import shown

if TYPE_CHECKING:
    from tuner.devices import Device


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
            self.each: list[Any] = pickle.loads(pickled)  # noqa: S301  # as above
            backend = SimpleNamespace(name=device.name, max_threads=device.limits.max_threads, env=_environment(device))
            for observer in self.each:
                observer.register_device(backend)
        except Exception as error:
            name = Path(file).stem
            raise RequestError(f"observers: {name}: {type(error).__name__}: {shown(error)}; leave it out") from None


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
