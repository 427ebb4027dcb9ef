"""A cache of the workbenches of earlier tasks, which serve later tasks of the same problem."""

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

SHARE = 0.125  # of a GPU's memory, for cached workbenches; a processor caches only the latest one
TIMES = 4  # upper bound of a workbench's memory, in multiples of its arrays: two input sets with references


class WorkbenchCache:
    """The most recently used workbenches that fit into a share of the device's memory."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._workbenches: list[Workbench] = []  # the most recently used is the last

    def take(self, space: Space, scope: Scope) -> Workbench | None:
        """Remove and return the workbench that serves this problem; None if there is none.

        In that case, others are dropped until the new arrays have room.
        """
        for position in reversed(range(len(self._workbenches))):
            if self._workbenches[position].serves(space, scope):
                return self._workbenches.pop(position)
        needed = TIMES * operation.array_bytes(space.operation, nominal(space, scope))
        most = 0.0 if self._device.on_processor else SHARE * self._device.memory
        while (
            self._workbenches
            and sum(bench.nbytes for bench in self._workbenches) + max(0.0, needed - self._device.memory / 2) > most
        ):
            del self._workbenches[0]
        gc.collect()
        return None

    def latest(self) -> Workbench | None:
        """The workbench that was used last; None if there is none."""
        return self._workbenches[-1] if self._workbenches else None

    def add(self, bench: Workbench) -> None:
        """Cache the workbench of the current task."""
        self._workbenches.append(bench)

    def clear(self) -> bool:
        """Drop all workbenches. Returns whether there were any."""
        had_any = bool(self._workbenches)
        self._workbenches.clear()
        gc.collect()
        return had_any
