"""Format a run's result as JSON data and as the last lines on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.cli import output

if TYPE_CHECKING:
    from tuner.tuning.driver import Result


WRONG_HINT = "fix the kernel or its reference"
ROUNDING_HINT = (
    "; if they differ only by rounding, compute a Python reference in float64, or write `tolerance:` in the space file"
)
KNOB_HINT = "; if a parameter changes what is computed, such as a number of rounds, give it the source's value alone"


def document(result: Result) -> dict[str, Any]:
    """A result as JSON data."""
    from tuner.tuning.finals import conclusions

    record = result.record
    keys = (
        "config", "time_ms", "spread", "gflops", "peak", "vs_peak", "gbytes", "memory", "vs_memory", "vs_library",
        "vs_best_library", "sustained", "verified", "bits", "class_size", "interval", "decided_by",
    )  # fmt: skip
    best = record and {key: getattr(record, key) for key in keys}
    return {
        "kernel": result.kernel,
        "device": result.device.name,
        "size": result.sizes,
        "types": result.types,
        "conditions": dict(result.device.conditions.values),
        "configurations": result.configurations,
        "evaluated": result.evaluated,
        "failed": {reason: number for reason, (number, _) in result.failed.items()},
        "failures": [output.failure(trial) for trial in result.failures],
        "best": best,
        "search_ms": record and result.selection.finalists[0].searched.time_ms,
        "ties": [
            {"config": tied.trial.config, "time_ms": tied.final.time_ms, "spread": tied.final.spread}
            for tied in conclusions.ties(result.selection)
        ],
        **({"front": [{"config": p.config, **p.values} for p in result.front]} if result.front else {}),
        "launch_ms": result.selection.finals.launch_ms,
        "warnings": result.warnings,
        "stored": result.stored,
        "kept": result.kept and {"config": result.kept.config, "time_ms": result.kept.time_ms},
    }


def lines(result: Result) -> list[str]:
    """The last lines of a run: its best configuration, and the stored one if that is another. The last is the gain.

    Failures are printed at once, on standard error.
    """
    from tuner.catalog import catalog
    from tuner.space.chosen_types import dtype_of
    from tuner.space.parsing import problem_words
    from tuner.space.texts import config_text
    from tuner.tuning.crew import futility

    space = catalog.load(result.kernel)
    for reason, (number, trial) in result.failed.items():
        example = ("" if number == 1 else "for example ") + config_text(trial.config)
        output.say(f"{number} failed: {reason}, {example}: {output.first_lines(trial.outcome.log)}")
    if len(result.failures) > 1:
        problem = problem_words(space.operation, result.sizes, result.types, result.options)
        output.say(f"`tune failures {result.kernel} {problem}` shows more")
    if result.accused is not None:
        output.say(f"{result.kernel}: {result.accused}")
        return []
    wrong = [trial.outcome.log for trial in result.failures if trial.outcome.rejection is not None]
    rounds = any(not dtype_of(written, result.types).is_exact for written in space.operation.outputs)
    explained = futility.allowance(wrong[0], space.operation.arguments) if wrong else ""
    hint = f"; {explained}{WRONG_HINT}" + ROUNDING_HINT * rounds + KNOB_HINT * (result.evaluated > 1)
    if result.record is None:
        advice = hint if len(wrong) == len(result.failures) else ""
        output.say(f"{result.kernel}: none of {result.evaluated} configurations is valid{advice}")
        return []
    if 2 * len(wrong) > result.evaluated:
        output.say(f"{len(wrong)} of {result.evaluated} configurations give wrong results{hint}")
    front, best = [output.front(result.front)] if result.front else [], output.best(result.record, space)
    if not result.kept:
        return [*front, best]
    best = best.replace("best:", "best of this run:", 1)
    return [*front, best, "the store already has a better record and keeps it:", output.best(result.kept, space)]
