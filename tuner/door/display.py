"""What a run prints for a script of Kernel Tuner."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from kernel_tuner import util

from tuner.classes import dataclass
from tuner.door import results
from tuner.door.calls.call import Call
from tuner.door.results import Row
from tuner.quoting import quoted
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.progress import SearchStart

UNITS = {"time": "ms", "energy": "J"}


@dataclass(frozen=True)
class Display:
    """Prints what Kernel Tuner prints: a line for each configuration. Messages go to standard error.

    keep: is called with each row.
    """

    call: Call
    metrics: Mapping[str, Any] | None
    is_quiet: bool
    is_verbose: bool
    keep: Callable[[Row], None] = lambda _: None
    made: dict[int, tuple[Trial, Row]] = field(default_factory=dict)  # by the trial's identity

    def begun(self, step: str) -> None:
        """Nothing is printed about single steps."""

    def started(self, start: SearchStart) -> None:
        self._say(f"Using: {start.device.name}")

    def measured(self, trial: Trial, done: int, best: Trial | None) -> None:
        row = self.row(trial)
        self.keep(row)
        if "__error__" not in row:
            util.print_config_output(self.call.parameters, row, self.is_quiet, self.metrics, UNITS)
        elif self.is_verbose and not self.is_quiet:
            config = util.get_instance_string({name: row[name] for name in self.call.parameters})
            first = row["error_message"].strip().partition("\n")[0]
            print(f"skipping config {config} reason: {row['__error__']}: {first}")

    def row(self, trial: Trial) -> Row:
        """The row of a trial, for which metrics are called once. Raises RequestError if one raises anything."""
        if id(trial) not in self.made:
            self.made[id(trial)] = trial, results.row(trial, self.call, self.metrics)
        return self.made[id(trial)][1]

    def finals(self, count: int) -> None:
        """Nothing is printed about the finals."""

    def noted(self, text: str) -> None:
        if not self.is_quiet:
            print(f"tuner: {text}", file=sys.stderr)

    def _say(self, text: str) -> None:
        if not self.is_quiet:
            print(text)

    def ended(self, rows: Sequence[Row], env: Mapping[str, Any], objective: str) -> None:
        """Print the best configuration, or say why there is none."""
        failed = [row for row in rows if "__error__" in row]
        if failed:
            self.noted(_failures(failed, len(rows)))
        right = next((row for row in rows if "__error__" not in row), None)
        if right is not None and "best_config" not in env:
            self.noted(f"objective {quoted(objective)}: no row has it; rows have {', '.join(right)}")
        if "best_config" not in env:
            self._say("no results to report")
            return
        keys = [*self.call.parameters, objective, *(self.metrics or {})]
        self._say(f"\nBEST PERFORMING CONFIGURATION FOR OBJECTIVE {objective}:")
        self._say(util.get_config_string(env["best_config"], keys, UNITS))


def _failures(failed: Sequence[Row], rows: int) -> str:
    first = failed[0].get("error_message", "see the rows").strip().partition("\n")[0]
    some = f"{len(failed)} of {rows} configurations failed, and their rows have `__error__` in place of `time`"
    count = some if len(failed) < rows else f"all {rows} configurations failed"
    return f"{count}; the first: {failed[0]['__error__']}: {first}"
