"""`tune export`: what is known of a kernel, for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from tuner import paths
from tuner.cli import output
from tuner.cli.options import JSON, KERNEL, KNOWN_DEVICE, RESULTS, SET, SIZE, output_option, warn
from tuner.exchange.formats import FORMATS


@click.command()
@KERNEL
@SIZE
@click.option(
    "--to",
    required=True,
    type=click.Choice(list(FORMATS)),
    help="; ".join(f"{f.name}: {f.about}" for f in FORMATS.values()),
)
@output_option("PATH", "The file, or the bundle's folder.")
@KNOWN_DEVICE
@click.option("--architecture", metavar="NAMES", help="Of a bundle: sm_80,sm_90a; that of the device if omitted.")
@click.option("--storage", metavar="URL", help="The shared ledger to take all trials from.")
@SET
@RESULTS
@JSON
def command(
    kernel: str,
    size: str,
    to: str,
    path: Path | None,
    device: str | None,
    architecture: str | None,
    storage: str | None,
    options: dict[str, float],
    results: Path | None,
    as_json: bool,
) -> int:
    """Write what is known of KERNEL at SIZE for other programs; see docs/exchange.md for the formats.

    Example: tune export sgemm/12_warptiled 4096 --to cubin --architecture sm_80,sm_90a
    """
    from tuner.exchange import formats
    from tuner.exchange.target import Problem
    from tuner.space import catalog

    problem = Problem.parse(catalog.load(kernel), size, options, results)
    done = formats.export(to, formats.ExportRequest(problem, device, path, architecture, storage))
    warn(done.notes)
    files = [str(file) for file in done.files]
    if as_json:
        output.document({"kernel": problem.space.name, "size": problem.sizes, "to": to, "files": files, **done.about})
        return 0
    for file in files:
        click.echo(paths.plain(file))
    if "from" in done.about:
        click.echo(paths.plain("{trials} trials on {device}, from a {from}".format(**done.about)))
    return 0
