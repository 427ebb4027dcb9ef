"""Check an array's guards on the host.

The workbench checks the guards of its arrays on the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tuner.devices.base import GUARD
from tuner.errors import WrongResult

if TYPE_CHECKING:
    from tuner.devices.base import Buffer, Device


def check_guards(device: Device, name: str, buffer: Buffer, byte: int) -> None:
    """Raise WrongResult, which names the array, if one of its guards holds a byte other than `byte`."""
    for offset, side in ((0, "before the start"), (GUARD + buffer.nbytes, "after the end")):
        guard = np.empty(GUARD, np.uint8)
        device.read(buffer.whole, guard, offset)
        if (guard != byte).any():
            raise WrongResult(f"writes {side} of {name}", "writes outside")
