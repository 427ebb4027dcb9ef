"""`tune history`: show a search, trial by trial."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tuner.cli import output
from tuner.cli.options import ProblemArguments, of_problem, storage_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tuner.tuning.ledger.trial import Trial

LONGEST_BAR = 60  # columns


class _Step(NamedTuple):
    """A trial, its number (from 1), the best time so far in ms, and whether it is this trial's."""

    number: int
    trial: Trial
    best_ms: float | None
    is_best: bool


@click.command()
@of_problem(
    click.option("--all", "as_list", is_flag=True, help="List every trial, not only those that were the best so far."),
    storage_option("Database written by `tune --storage`."),
)
def command(arguments: ProblemArguments, as_list: bool, storage: str | None, as_json: bool) -> None:
    """Show how the search for KERNEL at SIZE went, trial by trial.

    Reads the latest ledger of this problem. Shows each trial that was the best so far, and the best times as a line of
    bars on a logarithmic scale. The finals follow the search; their times are in the store: see `tune best`.

    Example: tune history sgemm/07_tiled_1xn 4096
    """
    title, conditions, trials = arguments.latest_trials(storage)
    steps = _steps(trials)
    data = {**conditions, "trials": [_document(step) for step in steps]}
    failed = sum(step.trial.outcome.failure is not None for step in steps)
    lines = [f"{title}: {len(steps)} trials, {failed} failed", *_bars(steps), ""]
    rows = [_row(step) for step in steps if as_list or step.is_best]
    header = ["trial", "finished", "time", "spread", "best so far", "configuration"]
    output.answer(as_json, data, "\n".join([*lines, output.table(header, rows)]) if rows else lines[0])


def _steps(trials: Iterable[Trial]) -> list[_Step]:
    steps: list[_Step] = []
    best: float | None = None
    for number, trial in enumerate(trials, 1):
        is_best = trial.time_ms is not None and (best is None or trial.time_ms < best)
        best = trial.time_ms if is_best else best
        steps.append(_Step(number, trial, best, is_best))
    return steps


def _bars(steps: list[_Step]) -> list[str]:
    """One line: the best time after each trial as a bar, between the first and the last of these times."""
    from tuner.cli.screen.sparkline import BLOCKS, PLAIN, sparkline
    from tuner.cli.terminal import can_write

    bests = [step.best_ms for step in steps if step.best_ms is not None]
    if not bests:
        return []
    before, after = f"best so far: {bests[0]:.4g} ", f" {bests[-1]:.4g} ms"
    width = min(LONGEST_BAR, shutil.get_terminal_size().columns - len(before + after))
    return [before + sparkline(bests, width, BLOCKS if can_write(sys.stdout.encoding, BLOCKS) else PLAIN) + after]


def _row(step: _Step) -> list[str]:
    from tuner.measure.timing.clock import spread
    from tuner.space.texts import config_text

    trial = step.trial
    finished = f"{trial.finished:%Y-%m-%d %H:%M:%S}" if trial.finished else "?"
    time = f"{trial.time_ms:.4g} ms" if trial.time_ms is not None else f"failed, {trial.outcome.failure}"
    runs = trial.outcome.times
    best = f"{step.best_ms:.4g} ms" if step.best_ms is not None else ""
    spread_text = f"{spread(runs):.1%}" if len(runs) > 1 else ""
    return [str(step.number), finished, time, spread_text, best, config_text(trial.config)]


def _document(step: _Step) -> dict[str, Any]:
    outcome = step.trial.outcome
    return {
        "config": step.trial.config,
        "finished": step.trial.finished and step.trial.finished.isoformat(timespec="milliseconds"),
        "time_ms": step.trial.time_ms,
        "times_ms": list(outcome.times),
        "failure": outcome.failure,
        "seconds": dict(outcome.seconds),
        "best_ms": step.best_ms,
    }
