"""`tune report`: show the store as tables, or one kernel's trials as a page."""

from pathlib import Path
from typing import Any

import click

from tuner.cli import output
from tuner.cli.options import (
    COMPLETE_DEVICE,
    COMPLETE_KERNEL,
    JSON,
    RESULTS,
    SET,
    TYPES,
    output_option,
    storage_option,
    with_kept_files,
)
from tuner.errors import RequestError


@click.command()
@click.argument("kernel", required=False, shell_complete=COMPLETE_KERNEL)
@click.argument("size", required=False)
@click.option(
    "--device",
    metavar="NAME",
    shell_complete=COMPLETE_DEVICE,
    help="Only devices of this kind, or whose name contains this; with KERNEL, also a device of this machine.",
)
@click.option(
    "--write",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Write the tables into FILE, between lines such as <!-- results: begin --> and <!-- results: end -->; may be "
    "given more than once.",
)
@output_option(
    "FILE",
    "Page (.html) or charts (.svg, .png) to write for KERNEL; a page named after kernel and size if omitted.",
    "output_",
)
@click.option(
    "--recording", type=click.Path(path_type=Path), metavar="FILE", help="Report on this recording, in place of KERNEL."
)
@click.option("--measure", is_flag=True, help="Measure, on this device, the neighbours of the best that have no time.")
@storage_option("Database written by `tune --storage`; only its trials are reported.")
@SET
@TYPES
@RESULTS
@JSON
@with_kept_files
def command(
    kernel: str | None,
    device: str | None,
    write: tuple[Path, ...],
    output_: Path | None,
    recording: Path | None,
    results: Path | None,
    as_json: bool,
    **request: Any,
) -> None:
    """Show the store as Markdown tables, or the trials of KERNEL at SIZE as a page.

    The tables show the best of each kernel on each device, its gain over the default, and both at size 4096. The
    kernels of the gallery have a separate table.

    With KERNEL, a page shows the trials of its largest ledger, or of a recording if there is no ledger: convergence,
    importance of parameters, neighbours of the best, roofline, and more. With --json, a page is written only if
    --output is given.

    Example: tune report --device H200 --write docs/results.md
    """
    if kernel is not None or recording is not None:
        if write:
            raise RequestError("--write: only for the tables of the store; leave out --write or KERNEL")
        from tuner.cli import study_report

        study_report.write(kernel, recording, device, output_, results, as_json, **request)
        return
    from tuner.report import store_tables

    page_options = {"--output": output_, "--measure": request["measure"], "--storage": request["storage"]}
    page_options |= {"--set": request["options"], "--type": request["types"]}
    if any(page_options.values()):
        wrong = next(name for name, value in page_options.items() if value)
        raise RequestError(f"{wrong}: only for the page of one kernel; write `tune report KERNEL SIZE {wrong} ...`")
    rows = store_tables.rows(device or "", results, lambda problem: output.warn([problem]))
    tables = store_tables.tables(rows)
    for file in write:
        store_tables.put_into(file, tables)
    if as_json or not write:
        records = [{"kernel": row.kernel, "record": row.record.to_json()} for row in rows] if as_json else None
        output.answer(as_json, records, "\n\n".join(filter(None, tables.values())))
