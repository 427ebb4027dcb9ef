"""`tune failures`: why configurations failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import output
from tuner.cli.options import JSON, KERNEL, RESULTS, SET, SIZE, TARGET_DEVICE, TYPES, storage_option

if TYPE_CHECKING:
    from tuner.tuning.trial import Trial

INDENT = "    "


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
def command(
    kernel: str,
    size: str | None,
    device: str | None,
    options: dict[str, float],
    types: dict[str, str],
    as_list: bool,
    storage: str | None,
    results: Path | None,
    as_json: bool,
) -> None:
    """Show which configurations of KERNEL at SIZE failed, and why.

    They are those of the ledger that was written last. For each reason you see how many failed by it, the knobs that
    always bring it about, and one configuration with its message.

    Example: tune failures sgemm/07_tiled_1xn 4096
    """
    from tuner.exchange.target import Problem
    from tuner.space import catalog

    problem = Problem.parse(catalog.load(kernel), size, options, types, results)
    from tuner.exchange.trials import latest_study  # imports Optuna, for which a wrong request does not wait

    study = latest_study(problem, device, storage)
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
    for reason, failed in most_first.items():
        lines += ["", f"{len(failed)} {reason}{_always(failed, trials)}"]
        lines += [_shown(trial) for trial in (failed if as_list else failed[:1])]
    output.answer(as_json, data, "\n".join(lines))


def _shown(trial: Trial) -> str:
    from tuner.space.texts import config_text

    message = output.first_lines(trial.outcome.log).splitlines()
    return "\n".join([f"  {config_text(trial.config)}", *(f"{INDENT}{line}" for line in message)])


def _always(failed: Sequence[Trial], trials: Sequence[Trial]) -> str:
    """The values that no trial had without failing in this way, if more than one trial had them."""
    if len(failed) == len(trials):
        return ", whatever the configuration" if len(trials) > 1 else ""
    config = failed[0].config if failed else {}
    always = [
        f"{name}={value}"
        for name in config
        for value in dict.fromkeys(trial.config[name] for trial in failed)
        if _brings_about({name: value}, failed[0].outcome.failure, trials)
    ]
    return f", always where {' or '.join(always)}" if always else ""


def _brings_about(setting: Mapping[str, Any], reason: str | None, trials: Sequence[Trial]) -> bool:
    having = [t.outcome.failure for t in trials if all(t.config[name] == value for name, value in setting.items())]
    return len(having) > 1 and set(having) == {reason} and len(having) < len(trials)
