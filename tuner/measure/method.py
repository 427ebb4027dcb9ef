"""The method of a measurement: how configurations are timed, and which objectives are minimised."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from tuner.classes import dataclass
from tuner.errors import OptionError, RequestError
from tuner.quoting import quoted
from tuner.space.deployments import ISOLATED, REPEATED, WORDS, Deployment

if TYPE_CHECKING:
    from tuner.devices.builds.figures import Figures

TIMEOUT = 60.0  # seconds for each configuration: one limit for its build, another for verifying and timing it
MOST_REPEATS = 1000  # timed runs of a configuration that a user may ask for
LOOPS_TIMEOUT = 1800.0  # for the plain loops of `tune reproduce`: ten runs, each of a minute or more at 2048
LONGEST_TIMEOUT = 86_400.0
# Runs of the best that are compared at the end: they miss a fault in one of 50 runs with a probability of 0.98**228,
# which is 1 %. A user may ask for more, which may take longer than COMPARED_SECONDS.
COMPARED_RUNS, MOST_COMPARED_RUNS = 228, 1_000_000
COMPARED_SECONDS = 2.0

# The version of the measurement protocol. Times of different protocols are not compared: a new protocol begins new
# studies, and a record of a new protocol always replaces one of an old protocol.
#   1  A candidate ran once on the same arrays before each timed run. Outputs were poisoned before the verified run.
#   2  Our own kernels prepare each run, input sets alternate, and the outputs of each run are compared.
#   3  With `--flush` only: a flush empties the caches of a processor, too.
PROTOCOL, FLUSHED_PROTOCOL = 2, 3

Objective = Literal["time", "energy", "edp", "registers", "shared_memory"]
OBJECTIVES: Mapping[Objective, str] = {  # name of the value, which ends in its unit
    "time": "time_ms",
    "energy": "energy_mj",
    "edp": "energy_delay_mj_ms",
    "registers": "registers",
    "shared_memory": "shared_memory_bytes",
}
RUN_OBJECTIVES: tuple[Objective, ...] = (
    "time",
    "energy",
    "edp",
)  # measured in a run; the others are read from the build


@dataclass(frozen=True)
class Method:
    """How configurations are measured.

    `repeats` is the number of timed runs in a batch. The race decides how many batches follow, up to `most_batches` in
    all, or up to its own limit if that is None. `deployment` is how a program launches the kernel: a time is that of
    such a launch; `cold` flushes the caches before each run. The `objectives` are minimised: time in ms, energy in mJ,
    their product, registers per thread, bytes of shared memory per block. The first objective decides which
    configuration is best. `race` stops hopeless configurations early. `observers` is the path of a file with observers
    of Kernel Tuner (see `observers.Observers`), which see every timed run; empty: none.
    """

    repeats: int = 7
    deployment: Deployment = ISOLATED
    objectives: tuple[Objective, ...] = ("time",)
    race: bool = True
    observers: str = ""
    most_batches: int | None = None

    @property
    def cold(self) -> bool:
        """Whether the caches are flushed before each run."""
        return self.deployment == "cold"

    @property
    def protocol(self) -> int:
        """The version of the measurement protocol."""
        return FLUSHED_PROTOCOL if self.cold else PROTOCOL

    @property
    def races(self) -> bool:
        """Whether hopeless configurations are stopped early.

        Only if time or energy is the only objective: by another one, a slow configuration may still be the best.
        """
        return self.race and self.objectives in (("time",), ("energy",))

    @property
    def wants_energy(self) -> bool:
        return "energy" in self.objectives or "edp" in self.objectives

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the objectives' values, which end in their units."""
        return tuple(OBJECTIVES[objective] for objective in self.objectives)

    def to_json(self) -> dict[str, Any]:
        """What studies store: an earlier version reads it, unless its `deployment` is one that it does not know."""
        data = asdict(self)
        deployment = data.pop("deployment")
        return {**data, "cold": self.cold, **({"deployment": deployment} if deployment in REPEATED else {})}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Method:
        fields = {name: value for name, value in data.items() if name != "cold"}
        if data.get("cold"):
            fields["deployment"] = "cold"
        return Method(**{**fields, "objectives": tuple(data["objectives"])})


STANDARD = Method()


def peculiarity(deployment: Deployment | None, objective: str) -> str:
    """How a method differs from tuning for time with warm caches: `caches flushed, tuned for energy`, or empty. The
    deployment is None if a newer version knows it."""
    words = "deployed in an unknown way" if deployment is None else WORDS[deployment]
    return ", ".join([words] * bool(words) + [f"tuned for {objective}"] * (objective != "time"))


def check_timeout(seconds: float) -> None:
    """Raise OptionError if the timeout is not in 1 to LONGEST_TIMEOUT seconds."""
    if not 1 <= seconds <= LONGEST_TIMEOUT:
        raise OptionError(f"{seconds:g}: must be 1 to {LONGEST_TIMEOUT:g} seconds", "timeout")


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """Parse `time`, or several objectives separated by commas. Raises RequestError for anything else."""
    names = text.split(",")
    objectives = tuple(objective for name in names for objective in OBJECTIVES if objective == name.strip())
    if len(objectives) != len(names) or len(set(objectives)) != len(names):
        raise RequestError(
            f"--objective {quoted(text)}: write one of {', '.join(OBJECTIVES)}, or several with commas, each once, as "
            "in time,registers"
        )
    if objectives[0] not in RUN_OBJECTIVES:
        example = ",".join(objective for objective in OBJECTIVES if objective in ("time", *objectives))
        raise RequestError(
            f"--objective {quoted(text)}: the first objective decides which configuration is stored as the best; it "
            f"must be one of {', '.join(RUN_OBJECTIVES)}, as in {example}"
        )
    return objectives


def objective_values(
    objectives: Sequence[Objective], time_ms: float, energy_mj: float | None, figures: Figures
) -> tuple[float, ...]:
    """The value of each objective, in the units of OBJECTIVES; infinite if unknown."""
    measured: dict[Objective, float | None] = {
        "time": time_ms,
        "energy": energy_mj,
        "edp": None if energy_mj is None else energy_mj * time_ms,
        "registers": figures.registers,
        "shared_memory": figures.shared_memory,
    }
    values = (measured[objective] for objective in objectives)
    return tuple(math.inf if value is None else float(value) for value in values)
