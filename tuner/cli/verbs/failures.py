"""`tune failures`: show which configurations failed, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tuner.cli import output
from tuner.cli.options import ProblemArguments, of_problem, storage_option
from tuner.report.relations import missing

if TYPE_CHECKING:
    from tuner.space.config import Value
    from tuner.tuning.ledger.trial import Trial

INDENT = "    "
Setting = tuple[str, "Value"]  # a parameter and one of its values


@click.command()
@of_problem(
    click.option("--all", "as_list", is_flag=True, help="List every failed configuration, not one for each reason."),
    storage_option("Database written by `tune --storage`."),
)
def command(arguments: ProblemArguments, as_list: bool, storage: str | None, as_json: bool) -> None:
    """Show which configurations of KERNEL at SIZE failed, and why.

    Reads the latest ledger of this problem. For each reason, shows how many configurations failed, the parameter values
    that always cause it or the relations that these lack and all right ones have, and one configuration with its
    message.

    Example: tune failures sgemm/07_tiled_1xn 4096
    """
    title, conditions, trials = arguments.latest_trials(storage)
    by_reason: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.outcome.failure is not None:
            by_reason.setdefault(trial.outcome.failure, []).append(trial)
    most_first = dict(sorted(by_reason.items(), key=lambda entry: -len(entry[1])))
    data = {
        **conditions,
        "trials": len(trials),
        "failed": {reason: len(failed) for reason, failed in most_first.items()},
        "failures": [output.failure(trial) for failed in most_first.values() for trial in failed],
    }
    count = sum(map(len, most_first.values()))
    lines = [f"{title}: {count or 'none'} of {len(trials)} trials failed"]
    causes = {reason: _causes(failed, trials) for reason, failed in most_first.items()}
    for reason, failed in most_first.items():
        others = [setting for other, settings in causes.items() if other != reason for setting in settings]
        lines += ["", f"{len(failed)} {reason}{_always(failed, trials, others)}"]
        lines += [_shown(trial) for trial in (failed if as_list else failed[:1])]
    output.answer(as_json, data, "\n".join(lines))


def _shown(trial: Trial) -> str:
    from tuner.space.texts import config_text

    message = output.first_lines(trial.outcome.log).splitlines()
    return "\n".join([f"  {config_text(trial.config)}", *(f"{INDENT}{line}" for line in message)])


def _always(failed: Sequence[Trial], trials: Sequence[Trial], others: Sequence[Setting]) -> str:
    """The settings that always cause this failure, or relations that it lacks, in words; empty if there are none.

    failed: the trials with this failure.
    others: the settings that always cause another failure, and therefore hide this one.
    """
    if len(failed) == len(trials):
        return ", with every configuration" if len(trials) > 1 else ""
    rest = [trial for trial in trials if not any(_has(trial, other) for other in others)]
    causes = _causes(failed, rest, among=len(trials))
    hiding = [o for o in others if any(_has(trial, o) and _has(trial, cause) for trial in trials for cause in causes)]
    unless = f", unless {_listed(hiding)}" if hiding else ""
    right = [trial.config for trial in trials if trial.outcome.failure is None]
    relations = missing(right, [trial.config for trial in failed])
    is_caused = all(any(_has(trial, cause) for cause in causes) for trial in failed)
    if relations and not (is_caused and len(causes) <= len(relations)):
        have = f"all {len(right)} right configurations have {' and '.join(relations)}"
        return f"; {have}, unlike these: a restriction may be missing"
    return f", always with {_listed(causes)}{unless}" if causes else ""


def _causes(failed: Sequence[Trial], trials: Sequence[Trial], among: int | None = None) -> list[Setting]:
    """The settings with which every one of `trials` failed for the same reason as `failed`.

    A setting counts if at least two trials have it, and fewer than `among` (default: the number of `trials`).
    """
    names = list(failed[0].config) if failed else []
    settings = [(name, value) for name in names for value in dict.fromkeys(trial.config[name] for trial in failed)]
    reason = failed[0].outcome.failure if failed else None

    def is_cause(setting: Setting) -> bool:
        outcomes = [trial.outcome.failure for trial in trials if _has(trial, setting)]
        return 1 < len(outcomes) < (among or len(trials)) and set(outcomes) == {reason}

    return [setting for setting in settings if is_cause(setting)]


def _has(trial: Trial, setting: Setting) -> bool:
    name, value = setting
    return trial.config[name] == value


def _listed(settings: Sequence[Setting]) -> str:
    return " or ".join(f"{name}={value}" for name, value in settings)
