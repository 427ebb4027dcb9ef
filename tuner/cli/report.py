"""`tune report`: the store as tables."""

from __future__ import annotations

from pathlib import Path

import click

from tuner import paths
from tuner.cli import output
from tuner.cli.options import JSON, RESULTS, warn


@click.command()
@click.option("--device", metavar="NAME", help="Records of devices whose name contains this.")
@click.option(
    "--write",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Put them between FILE's markers.",
)
@RESULTS
@JSON
def command(device: str | None, write: Path | None, results: Path | None, as_json: bool) -> int:
    """Markdown tables of what the store holds. Example: tune report --device H200 --write README.md"""
    from tuner.store import report as reports

    rows = reports.rows(device or "", results, lambda problem: warn([problem]))
    if as_json:
        output.document([{"kernel": row.kernel, "record": row.record.to_json()} for row in rows])
    elif write is None:
        click.echo(paths.plain("\n\n".join(reports.tables(rows).values())))
    else:
        reports.put_into(write, reports.tables(rows))
    return 0
