"""Explain in words which kernel a call of a family runs, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.space.config import Config
from tuner.space.texts import config_text, size_text

if TYPE_CHECKING:
    from tuner.families.vendor import LibraryKernel
    from tuner.launch.kernel import Kernel


WITHOUT_COPIES = "without copies"


@dataclass(frozen=True)
class Explanation:
    """What a call runs, and why; `str()` says all of it in one line.

    `kernel` is a kernel's name, or `library`; `config` its configuration, `sizes` the sizes, `device` the device's
    name. `match` and `regret` are as in `Kernel`: how the record fits, and the expected regret (0.02 = 2 %). `how` says
    which arrays are copied, or `without copies`. `why` is the reason for the choice, in words.
    """

    kernel: str
    config: Config
    match: str
    regret: float | None
    device: str
    sizes: Mapping[str, int]
    how: str = WITHOUT_COPIES
    why: str = ""

    def __str__(self) -> str:
        config = f": {config_text(self.config)}" if self.config else ""
        regret = "" if self.regret is None else f", expected regret {self.regret:.1%}"
        how = "" if self.how == WITHOUT_COPIES else f"; with {self.how}"
        return (
            f"{self.kernel} at {size_text(self.sizes)} on {self.device}{config} ({self.match}{regret}){how}; {self.why}"
        )


def explained(kernel: Kernel | LibraryKernel, how: str = WITHOUT_COPIES, because: str = "") -> Explanation:
    """The explanation of a loaded kernel; `because` replaces the reason that its match gives."""
    candidate, sizes = kernel.candidate, kernel.scope.sizes
    why = "; ".join(filter(None, (because or kernel.because or _reason(kernel), kernel.besides)))
    return Explanation(
        kernel.name, kernel.config, candidate.match, candidate.regret, kernel.device.name, sizes, how, why
    )


def _reason(kernel: Kernel | LibraryKernel) -> str:
    record = kernel.candidate.record
    where = size_text(record.sizes) if record is not None else ""
    match kernel.match:
        case "exact" if kernel.space.is_of_library and kernel.config:
            return "the algorithm of the library that was the fastest measured at this size"
        case "exact":
            return "the fastest measured at this size"
        case "predicted":
            sibling = kernel.candidate.sibling
            return "the fastest predicted from the times at other sizes" + (f", of {sibling}" if sibling else "")
        case "nearest_size":
            return "the fastest measured at the nearest size" + (f", {where}" if where else "")
        case "architecture" if sibling := kernel.candidate.sibling:
            return f"the fastest according to the times of {sibling}, which has the same chip"
        case "default" if not kernel.config:
            return "the library, because no kernel of the family was measured near this size, or none is valid"
        case "default":
            return "the default, because nothing of the family was measured"
    return f"measured on {record.device if record else 'another device'} at {where}"
