"""What a call of Kernel Tuner optimises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel_tuner.util import get_objective_defaults

from tuner.classes import dataclass
from tuner.door.calls.call import ELSEWHERE
from tuner.errors import RequestError
from tuner.measure.method import Objective
from tuner.quoting import quoted

# Objectives that a search of ours minimises, by the names that scripts give them.
OWN: Mapping[str, Objective] = {"time": "time", "energy": "energy", "nvml_energy": "energy"}


@dataclass(frozen=True)
class Goal:
    """The objective by which the best row is chosen, and whether higher values are better.

    searched: what the search minimises. It is the time if the objective is computed from it.
    """

    objective: str
    is_higher_better: bool
    searched: Objective

    @staticmethod
    def of(
        objective: str | Sequence[str] | None,
        is_higher_better: bool | Sequence[bool] | None,
        objectives: Mapping[str, bool] | None,
    ) -> Goal:
        """The goal of the arguments of these names. Raises RequestError for several objectives."""
        if objectives:
            objective, is_higher_better = list(objectives), list(objectives.values())
        names, directions = _single(objective), _single(is_higher_better)
        if len(names) > 1 or len(directions) > 1:
            raise RequestError(
                f"objective: {', '.join(map(str, names))}: several objectives are not supported; {ELSEWHERE}"
            )
        try:
            name, higher = get_objective_defaults(names[0] if names else None, directions[0] if directions else None)
        except ValueError:
            raise RequestError(
                f"objective {quoted(names[0])}: write objective_higher_is_better=True or False"
            ) from None
        return Goal(str(name), bool(higher), OWN.get(str(name), "time"))


def _single(value: Any) -> list[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, str | bool) else list(value)
