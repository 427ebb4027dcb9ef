"""`tune report`: the store as tables; of one kernel, a page."""

from pathlib import Path
from typing import Any

import click

from tuner.cli import output
from tuner.cli.options import COMPLETE_DEVICE, COMPLETE_KERNEL, JSON, RESULTS, SET, TYPES, figure_option, storage_option
from tuner.errors import RequestError


@click.command()
@click.argument("kernel", required=False, shell_complete=COMPLETE_KERNEL)
@click.argument("size", required=False)
@click.option(
    "--device",
    metavar="NAME",
    shell_complete=COMPLETE_DEVICE,
    help="Only devices of this kind, or whose name contains this; of one kernel, a device of this machine, too.",
)
@click.option(
    "--write",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Write the tables into FILE, between lines such as <!-- results: begin --> and <!-- results: end -->; may be "
    "given more than once.",
)
@figure_option("Page to write for KERNEL, .html, or its charts, .svg or .png; named after kernel and size if omitted.")
@click.option(
    "--recording", type=click.Path(path_type=Path), metavar="FILE", help="Recording to report on, in place of KERNEL."
)
@click.option("--measure", is_flag=True, help="Measure the neighbours of the best that have no time, on this device.")
@storage_option("Database that `tune --storage` wrote; its trials alone are reported on.")
@SET
@TYPES
@RESULTS
@JSON
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
    """Show the store as Markdown tables, or the study of KERNEL at SIZE as a page.

    One table has what each kernel reaches on each device, one what tuning gains over the default, and one both at 4096.
    The kernels of the gallery have a table of their own.

    With KERNEL, a page shows the trials of its largest ledger, else of a recording: convergence, importance of
    parameters, neighbours of the best, roofline, and more. With --json, a page is written only where --output names it.

    Example: tune report --device H200 --write docs/results.md
    """
    if kernel is not None or recording is not None:
        if write:
            raise RequestError("--write: is for the tables of the store; leave it out, or leave out KERNEL")
        from tuner.cli import study_report

        study_report.write(kernel, recording, device, output_, results, as_json, **request)
        return
    from tuner.report import store_tables

    given = {"--output": output_, "--measure": request["measure"], "--storage": request["storage"]}
    given |= {"--set": request["options"], "--type": request["types"]}
    if any(given.values()):
        wrong = next(name for name, value in given.items() if value)
        raise RequestError(f"{wrong}: is for the page of one kernel; write `tune report KERNEL SIZE {wrong} ...`")
    rows = store_tables.rows(device or "", results, lambda problem: output.warn([problem]))
    tables = store_tables.tables(rows)
    for file in write:
        store_tables.put_into(file, tables)
    if as_json or not write:
        records = [{"kernel": row.kernel, "record": row.record.to_json()} for row in rows] if as_json else None
        output.answer(as_json, records, "\n\n".join(filter(None, tables.values())))
