"""What is asked of a measurement: how configurations are timed, and what is made least."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tuner.devices.figures import Figures
from tuner.errors import RequestError

Objective = Literal["time", "energy", "edp", "registers", "shared_memory"]
OBJECTIVES: Mapping[Objective, str] = {  # and what their values are called, with their units
    "time": "time_ms",
    "energy": "energy_mj",
    "edp": "energy_delay_mj_ms",
    "registers": "registers",
    "shared_memory": "shared_memory_bytes",
}
OF_A_RUN: tuple[Objective, ...] = ("time", "energy", "edp")


@dataclass(frozen=True)
class Method:
    """How configurations are measured: timed runs of each; caches flushed before each run or not; what is to be least,
    one or several (time in ms, energy in mJ, their product, a thread's registers, a block's shared memory in bytes),
    where the first one decides what is best; whether hopeless ones are stopped early."""

    repeats: int = 7
    cold: bool = False
    objectives: tuple[Objective, ...] = ("time",)
    race: bool = True

    @property
    def races(self) -> bool:
        """Whether a slow configuration is hopeless: it may still be the best by another measure."""
        return self.race and self.objectives == ("time",)

    @property
    def wants_energy(self) -> bool:
        return "energy" in self.objectives or "edp" in self.objectives

    @property
    def metrics(self) -> tuple[str, ...]:
        """The objectives' names, with units."""
        return tuple(OBJECTIVES[objective] for objective in self.objectives)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Method:
        return Method(**{**data, "objectives": tuple(data["objectives"])})


STANDARD = Method()


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """`time`, or several with commas between. Raises RequestError for anything else."""
    names = text.split(",")
    chosen = tuple(objective for name in names for objective in OBJECTIVES if objective == name.strip())
    if len(chosen) != len(names) or len(set(chosen)) != len(names):
        raise RequestError(
            f"--objective {text!r}: write one of {', '.join(OBJECTIVES)}, or several with commas, each once, as in "
            "time,registers"
        )
    if chosen[0] not in OF_A_RUN:
        ordered = ",".join(objective for objective in OBJECTIVES if objective in ("time", *chosen))
        raise RequestError(
            f"--objective {text!r}: the first decides what is stored as the best; it must be one of "
            f"{', '.join(OF_A_RUN)}, as in {ordered}"
        )
    return chosen


def objective_values(
    objectives: Sequence[Objective], time_ms: float, energy_mj: float | None, figures: Figures
) -> tuple[float, ...]:
    """What is to be least, in the units of OBJECTIVES; what is not known counts as infinite."""
    known: dict[Objective, float | None] = {
        "time": time_ms,
        "energy": energy_mj,
        "edp": None if energy_mj is None else energy_mj * time_ms,
        "registers": figures.registers,
        "shared_memory": figures.shared_memory,
    }
    values = (known[objective] for objective in objectives)
    return tuple(math.inf if value is None else float(value) for value in values)
