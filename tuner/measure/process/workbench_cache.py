"""Workbenches of earlier tasks, which serve later ones of the same problem."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from tuner.space import operation
from tuner.space.instance import nominal

if TYPE_CHECKING:
    from tuner.devices import Device
    from tuner.measure.workbench import Workbench
    from tuner.space.model import Space
    from tuner.space.scope import Scope

SHARE = 0.125  # of a device's memory, that is kept; of this machine's memory only what served last is
TIMES = 4  # a workbench takes so many times its arrays, or less: two sets, and references


class KeptWorkbenches:
    """Those that served last, as far as a share of the device's memory holds them."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._kept: list[Workbench] = []  # what served last is the last

    def take(self, space: Space, scope: Scope) -> Workbench | None:
        """The one that serves this problem, which is then no longer kept; None where there is none. Then others make
        room for its arrays."""
        for position in reversed(range(len(self._kept))):
            if self._kept[position].serves(space, scope):
                return self._kept.pop(position)
        needed = TIMES * operation.array_bytes(space.operation, nominal(space, scope))
        most = 0.0 if self._device.on_processor else SHARE * self._device.memory
        while (
            self._kept and sum(bench.nbytes for bench in self._kept) + max(0.0, needed - self._device.memory / 2) > most
        ):
            del self._kept[0]
        gc.collect()
        return None

    def keep(self, bench: Workbench) -> None:
        """Keep one that serves now."""
        self._kept.append(bench)

    def clear(self) -> bool:
        """Let all go; whether there were any."""
        had_any = bool(self._kept)
        self._kept.clear()
        gc.collect()
        return had_any
