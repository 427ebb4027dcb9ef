"""`tune report`: the store as tables."""

from pathlib import Path

import click

from tuner.cli import output
from tuner.cli.options import JSON, RESULTS, warn


@click.command()
@click.option("--device", metavar="NAME", help="Only devices of this kind, or whose name contains this.")
@click.option(
    "--write",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Write the tables into FILE, between lines such as <!-- results: begin --> and <!-- results: end -->; may be "
    "given more than once.",
)
@RESULTS
@JSON
def command(device: str | None, write: tuple[Path, ...], results: Path | None, as_json: bool) -> None:
    """Show the store as Markdown tables.

    One table has what each kernel reaches on each device, one what tuning gains over the default, and one both at 4096.
    The kernels of the gallery have a table of their own.

    Example: tune report --device H200 --write README.md --write docs/results.md
    """
    from tuner.store import report

    rows = report.rows(device or "", results, lambda problem: warn([problem]))
    tables = report.tables(rows)
    if write and not as_json:
        for file in write:
            report.put_into(file, tables)
    else:
        records = [{"kernel": row.kernel, "record": row.record.to_json()} for row in rows]
        output.answer(as_json, records, "\n\n".join(filter(None, tables.values())))
