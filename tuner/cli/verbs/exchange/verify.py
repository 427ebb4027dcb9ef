"""`tune verify`: rerun imported records, which become verified ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.cli import output
from tuner.cli.options import COMPLETE_KERNEL, DEVICE, JSON, RESULTS, VERBOSE
from tuner.space.texts import config_text

if TYPE_CHECKING:
    from tuner.tuning.verifying import Verification


@click.command()
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=COMPLETE_KERNEL)
@DEVICE
@RESULTS
@VERBOSE
@JSON
def command(kernels: tuple[str, ...], device: str | None, results: Path | None, verbose: bool, as_json: bool) -> int:
    """Verify and measure imported records on the devices of this machine.

    The best configuration of each imported record and its runners-up run here as in the final round of a search. The
    fastest that gives right results becomes a verified record, which replaces the imported one. KERNEL is a name, a
    part of one, the path of a space file, a family such as `sgemm`, or a pattern such as 'sgemm/1*'. Without KERNEL,
    all kernels of your store are verified.

    Exit status: 1 if the best configuration of a record gives wrong results or does not run.

    Example: tune verify sgemm
    """
    from tuner.cli.screen import logs, progress
    from tuner.tuning import verifying
    from tuner.tuning.checking import cases
    from tuner.tuning.progress import Quiet

    found = cases.found(kernels, results, device, output.say, lambda record: record.is_imported)
    if left_out := found.left_out:
        output.say(f"imported records that are not verified: {left_out}")
    done: list[Verification] = []
    with progress.displayed(results) as listener, logs.printed(verbose, listener.noted):
        for each in verifying.verified(found, results, Quiet(listener.noted)):
            done.append(each)
            listener.noted(_line(each))
    totals = ", ".join(
        f"{number} {status}" for status in _STATUSES if (number := sum(d.status == status for d in done))
    )
    output.answer(as_json, [each.to_json() for each in done], totals or "there is no imported record to verify")
    return 1 if any(each.status == "failed" for each in done) else 0


_STATUSES = ("verified", "failed", "not verified")


def _line(each: Verification) -> str:
    at = f" at {each.problem}" if each.problem else ""
    where = f"{each.kernel}{at} on {each.device}"
    record = each.record
    is_other = record is not None and record.config != each.config
    now = f"; recorded: {config_text(record.config)}, {record.time_ms:.4g} ms" if record and is_other else ""
    if each.status != "verified":
        return f"{where}: {each.status}: {config_text(each.config)}: {output.first_lines(each.reason)}{now}"
    beside = f"{each.time_ms:.4g} ms here, imported as {each.imported_ms:.4g} ms"
    return f"{where}: verified: {config_text(each.config)}: {beside}{now}"
