"""`tune explain`: why the best configuration is faster than the default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tuner.cli import output
from tuner.cli.options import COMPLETE_DEVICE, JSON, KERNEL, RESULTS, SET, SIZE, TYPES, Asked, asked, storage_option
from tuner.errors import DeviceError
from tuner.report.words import spread, times

if TYPE_CHECKING:
    from tuner.measure.results import Final
    from tuner.report.contenders import Contender
    from tuner.report.explanation import Contrast
    from tuner.report.limiting import Limiting


@click.command()
@KERNEL
@SIZE
@click.option(
    "--device",
    metavar="NAME",
    shell_complete=COMPLETE_DEVICE,
    help="Device of this machine, or part of the name of one that was tuned on.",
)
@click.option("--no-measure", is_flag=True, help="Measure nothing: only the times of the search.")
@click.option("--counters", is_flag=True, help="Profile both with ncu, where it is installed.")
@storage_option("Database that `tune --storage` wrote; its trials alone are used.")
@SET
@TYPES
@RESULTS
@JSON
@asked
def command(question: Asked, no_measure: bool, counters: bool, storage: str | None, as_json: bool) -> None:
    """Say why the best configuration of KERNEL at SIZE is faster than the default, and what limits it.

    Each parameter in which the two differ is changed alone, in both. The device that was tuned on measures them all in
    turns. Where it is not here, the times of the search serve, as far as there are any.

    Example: tune explain sgemm/09_coarsened_2d 4096 --counters
    """
    from tuner.report import counters as counting
    from tuner.report import explanation

    if counters:
        counting.program()
    problem = question.problem()
    from tuner.report import subject  # imports Optuna, for which a wrong request does not wait

    found = subject.of_problem(problem, question.device, storage)
    needed = explanation.rows(found)
    in_turns: dict[Any, Final] = {}
    is_default = len(needed) == 1  # then there is nothing to compare it with
    if not no_measure and not is_default and found.here is not None:
        from tuner.cli.screen import progress
        from tuner.report import measuring

        with progress.displayed() as listener:
            measured = measuring.measure(found, needed, storage, listener, in_turns=True)
        found = measured.subject
        in_turns = measured.finals
    elif not no_measure and not is_default:
        output.say(f"{found.recording.device} is not here: these are the times of the {found.source}")
    result = explanation.explain(found, in_turns)
    profiles: dict[str, dict[str, str]] = {}
    if counters:
        if found.here is None:
            raise DeviceError(f"--counters: {found.recording.device} is not here; leave --counters out")
        for name, row in (("best", found.best), ("default", found.default)):
            assert row is not None
            profiles[name] = counting.profile(found, found.config(row), found.here.id)
    output.answer(as_json, _data(result, profiles), _text(result, profiles))


def _data(result: Contrast, profiles: dict[str, dict[str, str]]) -> dict[str, Any]:
    from tuner.report import explanation

    subject = result.subject
    return {
        "kernel": subject.kernel,
        "problem": subject.problem_text,
        "device": subject.recording.device,
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


def _contender(found: Contender) -> dict[str, Any]:
    return {"config": found.config, "time_ms": found.time_ms, "spread": found.spread, "timed": found.origin}


def _text(result: Contrast, profiles: dict[str, dict[str, str]]) -> str:
    from tuner.report import explanation

    subject = result.subject
    parts = [
        f"{subject.kernel} at {subject.problem_text} on {subject.recording.device}",
        "\n".join(explanation.sentences(result)),
    ]
    if result.changes:
        header = ["parameter", "default", "best", "best without it", "default with it"]
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
    """The rows of the table of parameters, and the reasons that its cells have the numbers of."""
    reasons: list[str] = []

    def cell(time_ms: float | None, base_ms: float | None, reason: str, sure: float | None, verdict: str) -> str:
        if time_ms is not None:
            ratio = times(time_ms / base_ms) if base_ms is not None else ""
            return ", ".join(filter(None, (f"{time_ms:.4g} ms{spread(sure)}", verdict or ratio)))
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
    """The bounds of best and default, line by line."""
    both: list[Limiting | None] = [result.bounds["best"], result.bounds["default"]]

    def line(text: Any) -> list[str]:
        return [text(bounds) if bounds is not None else "" for bounds in both]

    return {
        "registers": line(lambda b: _count(b.figures.registers)),
        "spills, bytes": line(lambda b: _count(b.figures.spills)),
        "shared memory, bytes": line(lambda b: _count(b.figures.shared_memory)),
        "threads per block": line(lambda b: f"{b.threads:,}"),
        "blocks": line(lambda b: f"{b.grid:,}"),
        "occupancy": line(lambda b: "" if b.occupancy is None else f"{b.occupancy:.1%}"),
        "limited by": line(lambda b: b.limiter),
        "waves": line(lambda b: "" if b.waves is None else f"{b.waves:.2f}"),
    }


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
