"""When a search is given up before its budget is spent: every build has failed, all with the same message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.errors import BuildError
from tuner.paths import shown
from tuner.space.model import Value

if TYPE_CHECKING:
    from tuner.search.pool import Pool
    from tuner.tuning.trial import Trial

LEAST = 20  # configurations
_ERROR = re.compile(r"\berror\b", re.IGNORECASE)
# What may hold for other values of the parameters: conditions of the source's own, and room.
_CONDITION = re.compile(r"static.?assert|#\s*error|too much|too many|exceed", re.IGNORECASE)


class Futility:
    """Whether a search goes on.

    It does once anything else has come of a configuration. It also does while the values that were tried may be to
    blame: until the space's default has failed too, or every value of every parameter.
    """

    def __init__(self, pool: Pool, default: Mapping[str, Value], least: int) -> None:
        """`default` is the declared one, if any; at least so many configurations must have failed, and LEAST."""
        self._least = max(LEAST, least)
        self._default = default if default and pool.find(default) is not None else None
        columns = zip(pool.names, pool.values, pool.rows.T, strict=True)
        self._untried = {(name, values[place]) for name, values, column in columns for place in set(column.tolist())}
        self._has_hope, self._count, self._line = False, 0, ""

    def add(self, trial: Trial) -> str | None:
        """Take in a trial. Returns why no other is worth its build; None where it may be."""
        line = _diagnostic(trial.outcome.log)
        self._line = self._line or line
        is_alike = trial.outcome.failure == BuildError.reason and line == self._line
        self._has_hope = self._has_hope or not is_alike or bool(_CONDITION.search(line))
        if self._has_hope:
            return None
        self._count += 1
        self._untried.difference_update(trial.config.items())
        if trial.config == self._default:
            self._untried.clear()
        if self._untried or self._count < self._least:
            return None
        self._has_hope = True  # this is said once
        return (
            f"stopped: the first {self._count} configurations all fail to compile with the same message: "
            f"{shown(line)}; mend the source, and run the same command again; where something else was missing, "
            "--fresh tries these again"
        )


def _diagnostic(log: str) -> str:
    """The first line of a compiler's log that tells of an error; its first line where none does."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "")
