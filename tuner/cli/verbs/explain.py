"""`tune explain`: show why the best configuration is faster than the default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tuner.cli import output
from tuner.cli.options import COMPLETE_DEVICE, ProblemArguments, of_problem, storage_option, with_kept_files
from tuner.errors import DeviceError
from tuner.report.words import spread, times

if TYPE_CHECKING:
    from tuner.measure.results import Final
    from tuner.report.contenders import Contender
    from tuner.report.explanation import Contrast
    from tuner.report.limiting import Limiting


@click.command()
@of_problem(
    click.option("--no-measure", is_flag=True, help="Measure nothing; use only the times of the search."),
    click.option("--counters", is_flag=True, help="Also profile both with ncu, which must be installed."),
    storage_option("Database written by `tune --storage`; only its trials are used."),
    device=click.option(
        "--device",
        metavar="NAME",
        shell_complete=COMPLETE_DEVICE,
        help="Device of this machine, or part of the name of a device that has trials.",
    ),
)
@with_kept_files
def command(arguments: ProblemArguments, no_measure: bool, counters: bool, storage: str | None, as_json: bool) -> None:
    """Show why the best configuration of KERNEL at SIZE beats the default.

    Changes each parameter in which the two differ, one at a time, in both of them. All of these configurations are
    measured, interleaved, on the device of the search. If this machine does not have that device, the times of the
    search are used, if there are any. Also shows what limits both.

    Example: tune explain sgemm/09_coarsened_2d 4096 --counters
    """
    from tuner.report import counters as counting
    from tuner.report import explanation

    if counters:
        counting.program()
    problem = arguments.problem()
    from tuner.report import subject  # here: it imports Optuna, and a wrong request fails before that

    study = subject.of_problem(problem, arguments.device, storage)
    rows = explanation.rows(study)
    finals: dict[Any, Final] = {}
    is_default = len(rows) == 1  # the best is the default: there is nothing to compare
    if not no_measure and not is_default and not study.obstacle:
        from tuner.cli.screen import progress
        from tuner.report import measuring

        with progress.displayed() as listener:
            measured = measuring.measure(study, rows, storage, listener, interleaved=True)
        study = measured.subject
        finals = measured.finals
    elif not no_measure and not is_default:
        output.say(f"{study.obstacle}: showing the times of the {study.source}")
    result = explanation.explain(study, finals)
    profiles: dict[str, dict[str, str]] = {}
    if counters:
        if study.local_device is None or study.obstacle:
            raise DeviceError(f"--counters: {study.obstacle}; leave out --counters")
        for name, row in (("best", study.best), ("default", study.default)):
            assert row is not None
            profiles[name] = counting.profile(study, study.config(row), study.local_device.id)
    output.answer(as_json, _data(result, profiles), _text(result, profiles))


def _data(result: Contrast, profiles: dict[str, dict[str, str]]) -> dict[str, Any]:
    from tuner.report import explanation

    subject = result.subject
    return {
        "kernel": subject.kernel,
        "problem": subject.problem_text,
        "device": subject.recording.device,
        "conditions": dict(subject.trials.conditions.values),
        "best": _contender(result.best),
        "default": _contender(result.default),
        "timed": result.origin,
        "parameters": [vars(change) for change in result.changes],
        "limits": {
            name: bounds and {**vars(bounds), "figures": bounds.figures.to_json(), "limiter": bounds.limiter}
            for name, bounds in result.bounds.items()
        },
        "counters": profiles,
        "words": explanation.sentences(result),
    }


def _contender(contender: Contender) -> dict[str, Any]:
    return {
        "config": contender.config,
        "time_ms": contender.time_ms,
        "spread": contender.spread,
        "timed": contender.origin,
    }


def _text(result: Contrast, profiles: dict[str, dict[str, str]]) -> str:
    from tuner.report import explanation

    subject = result.subject
    parts = [
        f"{subject.kernel} at {subject.problem_text} on {subject.recording.device}",
        "\n".join(explanation.sentences(result)),
    ]
    if result.changes:
        header = ["parameter", "default", "best", "best with default's value", "default with best's value"]
        rows, reasons = _lines(result)
        parts.append("\n".join([output.table(header, rows), *reasons]))
    limits = [[name, *cells] for name, cells in _limits(result).items() if any(cells)]
    if limits:
        parts.append(output.table(["", "best", "default"], limits))
    if profiles:
        names = dict.fromkeys(name for profile in profiles.values() for name in profile)
        lines = [[name, *(profile.get(name, "") for profile in profiles.values())] for name in names]
        parts.append(output.table(["counter", *profiles], lines))
    return "\n\n".join(parts)


def _lines(result: Contrast) -> tuple[list[list[Any]], list[str]]:
    """The rows of the table of parameters, and the numbered reasons to which cells without a time refer."""
    reasons: list[str] = []

    def cell(time_ms: float | None, base_ms: float | None, reason: str, width: float | None, verdict: str) -> str:
        if time_ms is not None:
            ratio = times(time_ms / base_ms) if base_ms is not None else ""
            return ", ".join(filter(None, (f"{time_ms:.4g} ms{spread(width)}", verdict or ratio)))
        if verdict:
            return verdict
        if reason not in reasons:
            reasons.append(reason)
        return f"({reasons.index(reason) + 1})"

    rows = [
        [
            change.name,
            change.default,
            change.best,
            cell(change.without, result.best_ms, change.without_reason, change.without_spread, change.without_verdict),
            cell(change.alone, result.default_ms, change.alone_reason, change.alone_spread, change.alone_verdict),
        ]
        for change in result.changes
    ]
    return rows, [f"({number}) {reason}" for number, reason in enumerate(reasons, 1)]


def _limits(result: Contrast) -> dict[str, list[str]]:
    """What limits the best and the default: for each row of the table, the cells of the two."""
    both: list[Limiting | None] = [result.bounds["best"], result.bounds["default"]]

    def line(text: Any) -> list[str]:
        return [text(bounds) if bounds is not None else "" for bounds in both]

    return {
        "registers": line(lambda b: _count(b.figures.registers)),
        "spills, bytes": line(lambda b: _count(b.figures.spills)),
        "shared memory, bytes": line(lambda b: _count(b.figures.shared_memory)),
        "local memory, bytes": line(lambda b: _count(b.figures.local_memory)),
        "threads per block": line(lambda b: f"{b.threads:,}"),
        "blocks": line(lambda b: f"{b.grid:,}"),
        "occupancy": line(lambda b: "" if b.occupancy is None else f"{b.occupancy:.1%}"),
        "limited by": line(lambda b: b.limiter),
        "waves": line(lambda b: "" if b.waves is None else f"{b.waves:.2f}"),
    }


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
