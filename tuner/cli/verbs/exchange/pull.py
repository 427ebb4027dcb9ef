"""`tune pull`: take records and logs from a shared store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.cli import numbers, output
from tuner.cli.options import COMPLETE_KERNEL, JSON, RESULTS, TARGET_DEVICE

if TYPE_CHECKING:
    from tuner.exchange.sharing.pulled import Pull

MEGABYTE = 1_000_000
MOST = 64  # megabytes that are read by default


@click.command()
@click.argument("source", metavar="URL|FOLDER")
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=COMPLETE_KERNEL)
@TARGET_DEVICE
@click.option(
    "--most",
    type=numbers.Whole(1, 100_000),
    metavar="MB",
    default=MOST,
    show_default=True,
    help="Most megabytes to read.",
)
@click.option("--again", is_flag=True, help="Read files that an earlier pull has read, too.")
@RESULTS
@JSON
def command(
    source: str,
    kernels: tuple[str, ...],
    device: str | None,
    most: int,
    again: bool,
    results: Path | None,
    as_json: bool,
) -> int:
    """Take records and logs from a shared store, which is a folder or an https:// address.

    They are those of your kernels on the devices of this machine, and on a few devices like them. Each record becomes
    an imported one: it never replaces a record that was measured here, and `tune verify` reruns it. Logs only tell
    searches where to begin. KERNEL is a name, a family, a pattern or the path of a space file. Without KERNEL, all
    kernels of `tune list` are asked for.

    Exit status: 1 if files were passed over because they are not what the index says.

    Example: tune pull https://example.org/tuned sgemm
    """
    from tuner.exchange.sharing import pulled

    done = pulled.pull(source, kernels, device, results, most * MEGABYTE, again)
    output.warn(done.problems)
    if done.unknown and not kernels:
        output.say(
            f"{output.counted(done.unknown, 'other kernel')} left there: no kernel of `tune list` has this code; "
            "to pull for kernels of your own, name their space files"
        )
    if done.left:
        output.warn([f"{output.counted(done.left, 'file')} left out: --most {most} allows no more bytes"])
    output.answer(as_json, vars(done), _text(done))
    return 1 if done.passed_over else 0


def _text(done: Pull) -> str:
    """What the user reads of a pull."""
    total = sum(done.records.values())
    where = f" on {', '.join(done.devices)}" if done.devices else ""
    kernels = f" of {output.counted(len(done.records), 'kernel')}" if total else ""
    verify = "; `tune verify` reruns them" if total else ""
    read = f"{output.counted(done.files, 'file')}, {done.bytes:,} bytes, read; {done.unchanged} unchanged"
    return (
        f"{output.counted(total, 'record')}{kernels}{where}, as imported, and {output.counted(done.logs, 'log')} are "
        f"new or better{verify}\n{done.source}: {read}"
    )
