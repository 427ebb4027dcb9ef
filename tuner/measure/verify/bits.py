"""The bits that a launch writes: a digest for each set of inputs on which its outputs were compared."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

from tuner.space.values.bit_classes import VARIES, digest

if TYPE_CHECKING:
    from tuner.devices.base import Array, Device

SHARE = 0.005  # of the time of a trial: the most that digests after the first may take
PROCESSOR_RATE = (
    3e9  # bytes per second of a digest on a processor; a GPU's are below 1 ms, and a build takes far longer
)


class RunBits:
    """Collects the digests of one configuration's runs, all of which had right outputs.

    In a search, digests are left out that would take too long: on a processor, to read a large output once more takes a
    tenth of what preparing and comparing a run does.
    """

    def __init__(self, seconds: float = 0.0, spent: float = 0.0) -> None:
        """`seconds` is what a digest takes, 0 for no limit, and `spent` how long the trial has taken so far."""
        self.digests: dict[str, str] = {}
        self._seconds, self._began, self._taken = seconds, time.perf_counter() - spent, 0

    @property
    def has_room(self) -> bool:
        """Whether there is time for another digest."""
        elapsed = time.perf_counter() - self._began
        return not self._taken or (self._taken + 1) * self._seconds <= SHARE * elapsed

    def add(self, inputs: str, outputs: list[tuple[str, int, int]]) -> None:
        """Add a run on the set `inputs`: the name, the size in bytes and the 64-bit digest of each output.

        Without outputs, as nothing was compared, nothing is known of the bits.
        """
        if not outputs:
            return
        found = digest(outputs)
        self.digests[inputs] = found if self.digests.get(inputs, found) == found else VARIES
        self._taken += 1


def seconds_of(device: Device, nbytes: int) -> float:
    """What a digest of so many bytes takes; 0 if that does not matter."""
    return nbytes / PROCESSOR_RATE if device.on_processor else 0.0


def digest_of(value: Array) -> int:
    """The 64-bit digest of a derived value, which the host computes."""
    return int.from_bytes(hashlib.blake2b(value.tobytes(), digest_size=8).digest(), "little")
