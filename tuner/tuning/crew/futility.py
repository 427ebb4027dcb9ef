"""Give up a search early if every build fails with the same message, or every result is wrong in the same way."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import BuildError, WrongResult
from tuner.measure.verify.comparison import UNWRITTEN
from tuner.quoting import shown
from tuner.space.config import Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tuner.search.pool import Pool
    from tuner.space.argument import Argument
    from tuner.tuning.ledger.trial import Trial

LEAST = 20  # configurations that must fail before a search is given up
_ERROR = re.compile(r"\berror\b", re.IGNORECASE)
# Errors that other parameter values may avoid: the source's own conditions, and exceeded limits.
_CONDITION = re.compile(r"static.?assert|#\s*error|too much|too many|exceed", re.IGNORECASE)
_WRONG = (
    "all compute the same wrong value for the same element",
    "fix the kernel or its reference, and run it again; if neither file changes, ask for a fresh run",
)
_TALLY = re.compile(r"\b(\d+) of (\d+) elements\b")
MOST_OF_BORDER = 0.5  # a larger share of unwritten elements is no border
FEW = 0.01  # a smaller share of wrong elements may be due to rounding, as where a real number becomes an integer
_TEXTS = {  # by shared failure: what the configurations have in common, and the next step
    BuildError.reason: (
        "all fail to compile with the same message",
        "fix the source, and run it again; if the cause is not in the source, ask for a fresh run",
    ),
    WrongResult.reason: _WRONG,
    "not a number": _WRONG,
}


class Futility:
    """Decides whether a search is hopeless, because all its configurations fail alike.

    A search is not hopeless once one configuration has another result, unless it is the one that gives the answers:
    that its outputs agree with themselves proves nothing. Nor is it while the tried values may be the
    cause: until the space's default has failed too, or every value of every parameter.
    """

    def __init__(
        self,
        pool: Pool,
        default: Mapping[str, Value],
        least: int,
        reference: Mapping[str, Value] | None = None,
        arguments: Collection[Argument] = (),
    ) -> None:
        """`default` is the declared one, if any, and `reference` the configuration that gives the answers, if one does.

        At least `least` and LEAST configurations must fail. `arguments` are those of the kernel.
        """
        self._least, self._reference, self._arguments = max(LEAST, least), reference, arguments
        self._default = default if default and pool.find(default) is not None else None
        self._pool, columns = pool, zip(pool.names, pool.values, pool.rows.T, strict=True)
        self._untried = {(name, values[index]) for name, values, column in columns for index in set(column.tolist())}
        self._has_hope, self._count = False, 0
        self._same: tuple[str, str] | None = None  # failure and message of the first trial

    def add(self, trial: Trial) -> str | None:
        """Add a trial. Returns the reason to give up the search, once; None if there is none."""
        if trial.config == self._reference:
            return None
        failure, line = trial.outcome.failure or "", _diagnostic(trial.outcome.log)
        # of a wrong result: the element, its value and the answer, but not the number of wrong elements
        same = failure, line if failure == BuildError.reason else line.partition(";")[0]
        self._same = self._same or same
        is_alike = failure in _TEXTS and same == self._same
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
        self._has_hope = True  # return the reason only once
        problem, next_step = _TEXTS[failure]
        next_step = allowance(line, self._arguments) + next_step
        return f"stopped: the first {self._count} configurations {problem}: {shown(line)}; {next_step}"

    def doubts(self) -> NDArray[np.float64] | None:
        """How many values that were not tried each configuration of the pool has, once LEAST have failed alike: these
        tell soonest whether the search is hopeless. None before, and while there is hope."""
        if self._has_hope or self._count < self._least or not self._untried:
            return None
        scores = np.zeros(len(self._pool))
        for name, values, column in zip(self._pool.names, self._pool.values, self._pool.rows.T, strict=True):
            scores += np.array([(name, value) in self._untried for value in values])[column]
        return scores


def allowance(line: str, arguments: Collection[Argument]) -> str:
    """What the space file may say if the message of a wrong result counts few wrong elements, if its answers are not
    finite, or if what is NaN may come from scratch; else empty."""
    name = line.partition("[")[0]
    roles = {argument.name: argument.role for argument in arguments if argument.role is not None}  # nothing derived
    is_scratch_unset = any(each.role == "scratch" and each.zeroed == "never" for each in arguments)
    is_border = name in roles and not (is_scratch_unset and roles[name] == "inout")  # which keeps what it had
    tally = _TALLY.search(line)
    share = int(tally[1]) / int(tally[2]) if tally else 1.0
    is_finite = not re.search(r"\b(nan|inf) expected", line)
    if UNWRITTEN in line and share < MOST_OF_BORDER and is_border and is_finite:  # which no rounding explains
        is_zero = re.search(r"; -?0([+-]0j)? expected", line)
        fill = "`fill: zeros`" if is_zero else "a `fill:` that holds there what is expected"
        role = f"`role: inout`, with {fill}, for {name}"
        return f"if the kernel leaves these elements as they are, as those of a border, write {role}; else "
    if UNWRITTEN in line and is_scratch_unset:
        return "if the kernel reads scratch before it writes it, give that scratch `zeroed: each`; else "
    if not is_finite:
        return "if the expected outputs should be finite, give inputs a `fill:` with which they are; else "
    if UNWRITTEN in line or share >= FEW:
        return ""
    return f"if rounding explains so few wrong elements, allow them by `tolerance: {{wrong: {1.5 * share:.1g}}}`; else "


def _diagnostic(log: str) -> str:
    """The first line of a compiler's log that contains `error`, else its first line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "")
