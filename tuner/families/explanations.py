"""What a call of a family runs, and why, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.space.config import Config
from tuner.space.texts import config_text, size_text

if TYPE_CHECKING:
    from tuner.families.vendor import LibraryKernel
    from tuner.launch.kernel import Kernel


AS_THEY_LIE = "as they lie"


@dataclass(frozen=True)
class Explanation:
    """What a call runs, and why. `kernel` is a kernel's name, or `library`; `match` and `regret`, a fraction, are those
    of the look-up, as `Kernel` says; `how` says what became of arrays that a kernel does not take as they lie, and
    `why` all of it in words."""

    kernel: str
    config: Config
    match: str
    regret: float | None
    device: str
    sizes: Mapping[str, int]
    how: str = AS_THEY_LIE
    why: str = ""

    def __str__(self) -> str:
        config = f": {config_text(self.config)}" if self.config else ""
        regret = "" if self.regret is None else f", expected regret {self.regret:.1%}"
        how = "" if self.how == AS_THEY_LIE else f"; with {self.how}"
        return (
            f"{self.kernel} at {size_text(self.sizes)} on {self.device}{config} ({self.match}{regret}){how}; {self.why}"
        )


def explained(kernel: Kernel | LibraryKernel, how: str = AS_THEY_LIE, because: str = "") -> Explanation:
    """What a loaded kernel is, and why it was taken."""
    candidate, sizes = kernel.candidate, kernel.scope.sizes
    return Explanation(
        kernel.name, kernel.config, candidate.match, candidate.regret, kernel.device.name, sizes, how,
        because or _reason(kernel),
    )  # fmt: skip


def _reason(kernel: Kernel | LibraryKernel) -> str:
    record = kernel.candidate.record
    where = size_text(record.sizes) if record is not None else ""
    match kernel.match:
        case "exact":
            return "the least time that was measured at this size"
        case "predicted":
            sibling = kernel.candidate.sibling
            return "the least time that the times at other sizes predict" + (f", of {sibling}" if sibling else "")
        case "nearest_size":
            return "the least time that was measured at the nearest size" + (f", {where}" if where else "")
        case "architecture" if sibling := kernel.candidate.sibling:
            return f"what the times of {sibling}, the same chip, tell"
        case "default":
            return "nothing of the family was measured; the default"
    return f"measured on {record.device if record else 'another device'} at {where}"
