"""`tune best`: the best known configuration."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import output
from tuner.cli.options import JSON, KERNEL, RESULTS, SET, SIZE, TARGET_DEVICE, TYPES, warn
from tuner.errors import RequestError

if TYPE_CHECKING:
    from tuner.exchange.target import Problem
    from tuner.tuning.study import StoredStudy
    from tuner.tuning.trial import Trial


@click.command()
@KERNEL
@SIZE
@TARGET_DEVICE
@SET
@TYPES
@RESULTS
@JSON
def command(
    kernel: str,
    size: str | None,
    device: str | None,
    options: dict[str, float],
    types: dict[str, str],
    results: Path | None,
    as_json: bool,
) -> None:
    """Show the best known configuration of KERNEL at SIZE.

    It comes from the store: from this device at this size; else it is what the times at other sizes predict, where that
    proves better than the nearest size; else it is from the nearest size, or from the most similar device. Where no
    record fits, it is the kernel's default. Where trials of this problem wait for their finals, you are told.

    Example: tune best sgemm/07_tiled_1xn 4096
    """
    from tuner import devices, launcher
    from tuner.exchange.target import Problem, choose_target
    from tuner.space import catalog
    from tuner.space.texts import config_text, options_texts, problem_text, size_text, types_text

    space = catalog.load(kernel)
    problem = Problem.parse(space, size, options, types, results)
    if device is None or devices.is_name(device):
        local_device = devices.open_device(devices.for_space(space, device))
        scope = problem.scope(local_device.language, local_device.limits)
        name, best = local_device.name, launcher.find(space, scope, local_device, results)
    else:  # a device that the store knows
        target = choose_target(problem, device)
        name, best = target.device.name, target.best
    warn(best.notes)
    record = best.record
    about = {"kernel": space.name, "device": name, "size": problem.sizes, "types": problem.types}
    about["options"] = problem.options
    match = {"match": best.match, "variant": best.variant, "stale": best.stale, "regret": best.regret}
    rejected = {"rejected": best.rejected or None}
    study = None if best.match == "exact" and not best.stale else _unfinished(problem, name)
    waiting = {"waiting": study and _document(study, kernel)}
    data = {**about, **match, **rejected, **waiting, "config": best.config, "record": record and record.to_json()}
    how = f"{best.match}{', of a variant' if best.variant else ''}{', stale' if best.stale else ''}"
    how += "" if best.regret is None else f", expected regret {best.regret:.1%}"
    defaults = space.operation.options
    set_here, set_there = options_texts(problem.options, record.options if record else problem.options, defaults)
    asked = f"{size or size_text(problem.sizes)}{types_text(problem.types)}{set_here}"
    lines = [f"{space.name} at {asked} on {name}: {how}"]
    if record is None:
        is_right = study is not None and any(t.config == best.config and t.time_ms is not None for t in study.trials)
        verified = "the search has verified" if is_right else "nobody has verified"
        verdict, why = ("failed verification", f": {best.rejected}") if best.rejected else (verified, "")
        lines.append(f"no record; the default, which {verdict}: {config_text(best.config)}{why}")
    else:
        if best.match != "exact":
            lines.append(f"measured on {record.device} at {problem_text(record.sizes, record.types)}{set_there}:")
        lines.append(output.runner_up(record, best.rank) if best.rank else output.best(record, space))
    if study is not None:
        lines += _waits(study, kernel)
    output.answer(as_json, data, "\n".join(lines))


def _unfinished(problem: Problem, device: str) -> StoredStudy | None:
    """The study of this problem on the device called so, of which a final round would make a record; None without."""
    from tuner import paths
    from tuner.space import kernel_names

    names = (problem.space.name, *kernel_names.other_names(problem.space))
    if not any((paths.state() / "studies" / name).is_dir() for name in names):
        return None  # and Optuna need not be imported
    from tuner.exchange.trials import studies

    try:
        found = [study for study in studies(problem) if study.device == device and _fastest(study)]
    except RequestError as error:  # a ledger that cannot be read keeps no answer back
        warn([str(error)])
        return None
    return max(found, key=lambda study: len(study.trials), default=None)


def _fastest(study: StoredStudy) -> Trial | None:
    right = [trial for trial in study.trials if trial.time_ms is not None]
    return min(right, key=lambda trial: trial.time_ms or 0.0, default=None)


def _command(study: StoredStudy, kernel: str) -> str | None:
    """The command that goes on from its trials, of the kernel as it was typed; None where it is not known."""
    if not study.commands:
        return None
    verb, _, *words = shlex.split(study.commands[-1])
    return shlex.join([verb, kernel, *(word for word in words if word != "--fresh")])


def _waits(study: StoredStudy, kernel: str) -> list[str]:
    """What a study has, and how it becomes a record."""
    from tuner.space.texts import config_text

    count, fastest = len(study.trials), _fastest(study)
    assert fastest is not None
    trials = "1 trial waits" if count == 1 else f"{count} trials wait"
    command = _command(study, kernel)
    again = f"run `{command}` again" if command else "tune again"
    return [
        f"{trials} in a ledger; {again} to finish: it measures the best of them once more, and stores a record",
        f"the fastest in the search: {fastest.time_ms:.4g} ms, {config_text(fastest.config)}",
    ]


def _document(study: StoredStudy, kernel: str) -> dict[str, Any]:
    fastest = _fastest(study)
    assert fastest is not None
    best = {"config": fastest.config, "time_ms": fastest.time_ms}
    return {"trials": len(study.trials), "command": _command(study, kernel), "fastest": best}
