"""`tune run`: launch, verify and time the best known configuration."""

from dataclasses import asdict
from typing import Any

import click

from tuner.cli import numbers, output
from tuner.cli.options import DEVICE, JSON, KERNEL, RESULTS, SET, SIZE, TYPES, with_kept_files
from tuner.errors import OptionError
from tuner.store.verdicts import Interval


@click.command()
@KERNEL
@SIZE
@DEVICE
@SET
@TYPES
@RESULTS
@click.option(
    "--fail-above",
    "allowed",
    type=numbers.RATIO,
    metavar="RATIO",
    help="Fail if the time is certainly more than this many times that of its record.",
)
@JSON
@with_kept_files
def command(kernel: str, size: str | None, allowed: float | None, as_json: bool, **request: Any) -> int:
    """Launch, verify and time the best known configuration of KERNEL at SIZE.

    The inputs are random. A kernel that hangs is stopped after ten minutes. If the configuration has a record, its time
    is told beside it; `tune check` compares the two in the same runs.

    Example: tune run sgemm/07_tiled_1xn 4096 --set alpha=2
    """
    from tuner.catalog import catalog
    from tuner.space import chosen
    from tuner.space.texts import config_text, size_text, types_text
    from tuner.tuning import rerun

    space = catalog.load(kernel)
    result = rerun.run(kernel, size, **request, noted=output.say)
    best = result.candidate
    output.warn(best.notes)
    if result.difference:
        output.warn([f"{result.kernel}: {result.difference}"])
    fields = {name: value for name, value in asdict(result).items() if name != "candidate"}
    fields["recorded_ms"] = result.recorded.time_ms if result.recorded is not None else None
    against = result.vs_record
    fields["vs_record"] = None if against is None else against._asdict()
    if allowed is not None and result.reason is None and against is None:
        raise OptionError(
            f"{allowed:g}: {result.kernel} has no record of this configuration for this size and device and this "
            "version of the kernel; tune it first",
            "fail-above",
        )
    text = ""
    if result.reason is None:
        verdict = f"verified, largest error {result.error:.2g}" if result.verified else "unverified: `reference: none`"
        shown_size = size or size_text(chosen.size_of(None, space.operation, result.types))
        text = (
            f"{result.kernel} at {shown_size}{types_text(result.types)} on {result.device}: {config_text(best.config)} "
            f"({best.match})\n"
            f"{output.timing(result)}; {verdict}{output.compared(space)}{output.wrong(result.wrong)}"
            f"{_beside(against)}"
        )
    output.answer(as_json, {"config": best.config, "match": best.match, "stale": best.stale, **fields}, text)
    if result.reason is not None:
        output.say(f"{result.kernel}: {output.first_lines(result.reason or '')}")
    if allowed is not None and against is not None and against.low > allowed:
        output.say(
            f"{result.kernel}: takes at least {against.low:.3f} x as long as in its record; allowed: {allowed:g} x"
        )
        return 1
    return 0 if result.reason is None else 1


def _beside(against: Interval | None) -> str:
    """How the time stands to the record's; empty without a record."""
    return "" if against is None else f"; {against.middle:.3f} x its record ({against.low:.3f} to {against.high:.3f})"
