"""When a search is given up before its budget is spent: every build has failed, all with the same message, or every
result is wrong, all in the same way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.errors import BuildError, WrongResult
from tuner.quoting import shown
from tuner.space.config import Value

if TYPE_CHECKING:
    from tuner.search.pool import Pool
    from tuner.tuning.ledger.trial import Trial

LEAST = 20  # configurations
_ERROR = re.compile(r"\berror\b", re.IGNORECASE)
# What may hold for other values of the parameters: conditions of the source's own, and room.
_CONDITION = re.compile(r"static.?assert|#\s*error|too much|too many|exceed", re.IGNORECASE)
_WRONG = (
    "are all wrong in the same element, by the same value",
    "mend the kernel or its reference, and run the same command again; --fresh where neither file changes",
)
_SAID = {  # by the failure that they share: what they do, and the cure
    BuildError.reason: (
        "all fail to compile with the same message",
        "mend the source, and run the same command again; where something else was missing, --fresh tries these again",
    ),
    WrongResult.reason: _WRONG,
    "not a number": _WRONG,
}


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
        self._has_hope, self._count = False, 0
        self._same: tuple[str, str] | None = None  # failure and message of the first trial

    def add(self, trial: Trial) -> str | None:
        """Take in a trial. Returns why no other is worth its build; None where it may be."""
        failure, line = trial.outcome.failure or "", _diagnostic(trial.outcome.log)
        # of a wrong result the element, its value and what is right, and not how many others are wrong
        same = failure, line if failure == BuildError.reason else line.partition(";")[0]
        self._same = self._same or same
        is_alike = failure in _SAID and same == self._same
        may_differ = failure == BuildError.reason and _CONDITION.search(line)
        self._has_hope = self._has_hope or not is_alike or bool(may_differ)
        if self._has_hope:
            return None
        self._count += 1
        self._untried.difference_update(trial.config.items())
        if trial.config == self._default:
            self._untried.clear()
        if self._untried or self._count < self._least:
            return None
        self._has_hope = True  # this is said once
        what, cure = _SAID[failure]
        return f"stopped: the first {self._count} configurations {what}: {shown(line)}; {cure}"


def _diagnostic(log: str) -> str:
    """The first line of a compiler's log that tells of an error; its first line where none does."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "")
