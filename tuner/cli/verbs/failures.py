"""`tune failures`: why configurations failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tuner.cli import output
from tuner.cli.options import JSON, KERNEL, RESULTS, SET, SIZE, TARGET_DEVICE, TYPES, Asked, asked, storage_option

if TYPE_CHECKING:
    from tuner.space.config import Value
    from tuner.tuning.ledger.trial import Trial

INDENT = "    "
Knob = tuple[str, "Value"]  # a parameter with one of its values


@click.command()
@KERNEL
@SIZE
@TARGET_DEVICE
@SET
@TYPES
@click.option("--all", "as_list", is_flag=True, help="List every configuration that failed, not one for each reason.")
@storage_option("Database that `tune --storage` wrote.")
@RESULTS
@JSON
@asked
def command(question: Asked, as_list: bool, storage: str | None, as_json: bool) -> None:
    """Show which configurations of KERNEL at SIZE failed, and why.

    They are those of the ledger that was written last. For each reason you see how many failed by it, the knobs that
    always bring it about, and one configuration with its message.

    Example: tune failures sgemm/07_tiled_1xn 4096
    """
    problem = question.problem()
    from tuner.exchange.exports.trials import latest_study  # imports Optuna, for which a wrong request does not wait

    study = latest_study(problem, question.device, storage)
    trials = study.trials
    by_reason: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.outcome.failure is not None:
            by_reason.setdefault(trial.outcome.failure, []).append(trial)
    most_first = dict(sorted(by_reason.items(), key=lambda entry: -len(entry[1])))
    data = {
        "kernel": problem.space.name,
        "device": study.device,
        "size": problem.sizes,
        "types": problem.types,
        "options": problem.options,
        "trials": len(trials),
        "failed": {reason: len(failed) for reason, failed in most_first.items()},
        "failures": [output.failure(trial) for failed in most_first.values() for trial in failed],
    }
    count = sum(map(len, most_first.values()))
    peculiar = f", {study.peculiar}" if study.peculiar else ""
    where = f"{problem.space.name} at {problem.text} on {study.device}{peculiar}"
    lines = [f"{where}: {count or 'none'} of {len(trials)} trials failed"]
    knobs = {reason: _knobs(failed, trials) for reason, failed in most_first.items()}
    for reason, failed in most_first.items():
        others = [knob for other, found in knobs.items() if other != reason for knob in found]
        lines += ["", f"{len(failed)} {reason}{_always(failed, trials, others)}"]
        lines += [_shown(trial) for trial in (failed if as_list else failed[:1])]
    output.answer(as_json, data, "\n".join(lines))


def _shown(trial: Trial) -> str:
    from tuner.space.texts import config_text

    message = output.first_lines(trial.outcome.log).splitlines()
    return "\n".join([f"  {config_text(trial.config)}", *(f"{INDENT}{line}" for line in message)])


def _always(failed: Sequence[Trial], trials: Sequence[Trial], others: Sequence[Knob]) -> str:
    """The values that no trial had without failing in this way, or by `others`, which bring about another failure
    whatever else is chosen."""
    if len(failed) == len(trials):
        return ", whatever the configuration" if len(trials) > 1 else ""
    rest = [trial for trial in trials if not any(_has(trial, other) for other in others)]
    found = _knobs(failed, rest, among=len(trials))
    earlier = [o for o in others if any(_has(trial, o) and _has(trial, knob) for trial in trials for knob in found)]
    unless = f", unless {_named(earlier)}" if earlier else ""
    return f", always where {_named(found)}{unless}" if found else ""


def _knobs(failed: Sequence[Trial], trials: Sequence[Trial], among: int | None = None) -> list[Knob]:
    """The values that more than one of `trials` had, but not all of so many, and with which all failed as `failed`."""
    names = list(failed[0].config) if failed else []
    knobs = [(name, value) for name in names for value in dict.fromkeys(trial.config[name] for trial in failed)]
    reason = failed[0].outcome.failure if failed else None

    def brings_about(knob: Knob) -> bool:
        having = [trial.outcome.failure for trial in trials if _has(trial, knob)]
        return 1 < len(having) < (among or len(trials)) and set(having) == {reason}

    return [knob for knob in knobs if brings_about(knob)]


def _has(trial: Trial, knob: Knob) -> bool:
    name, value = knob
    return trial.config[name] == value


def _named(knobs: Sequence[Knob]) -> str:
    return " or ".join(f"{name}={value}" for name, value in knobs)
