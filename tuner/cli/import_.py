"""`tune import`: recordings and spaces of others."""

from __future__ import annotations

from pathlib import Path

import click

from tuner import paths
from tuner.cli import output
from tuner.cli.options import JSON, RESULTS, output_option
from tuner.devices import KINDS


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--kernel", metavar="NAME", help="The kernel that the files are of, where they do not say it.")
@click.option("--size", metavar="SIZE", help="Its size, likewise.")
@click.option("--device", metavar="NAME", help="The device's name as its maker writes it, likewise.")
@click.option("--kind", type=click.Choice(KINDS), help="The kernel's first language if omitted.")
@output_option("FILE", "Where a T1 file's space goes.")
@RESULTS
@JSON
def command(
    files: tuple[Path, ...],
    kernel: str | None,
    size: str | None,
    device: str | None,
    kind: str | None,
    path: Path | None,
    results: Path | None,
    as_json: bool,
) -> int:
    """Read FILES of others: Kernel Tuner's caches and results and T4 files into the store, T1 files into space files.

    Example: tune import cache.json --kernel sgemm/07_tiled_1xn --size 4096
    """
    from tuner.exchange import imports
    from tuner.exchange.provenance import Statements

    done = imports.import_all(files, Statements(kernel, size, device, kind, path, results))
    if as_json:
        output.document([one.to_json() for one in done])
        return 0
    for one in done:
        click.echo(paths.plain(one))
    return 0
