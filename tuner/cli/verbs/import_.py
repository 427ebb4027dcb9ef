"""`tune import`: recordings and spaces of other tuners."""

from pathlib import Path
from typing import Any

import click

from tuner.cli import output
from tuner.cli.options import JSON, RESULTS, TYPES, output_option
from tuner.languages import KINDS


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--kernel", metavar="NAME", help="Kernel that was measured, if the files do not name it.")
@click.option("--size", metavar="SIZE", help="Size that was measured, if the files do not give it.")
@click.option("--device", metavar="NAME", help="Device that was measured, as its maker writes it, if not in the files.")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    help="Kind of that device, if not in the files; that of the kernel's first language if omitted.",
)
@output_option("FILE", "Space file to write for a T1 file; named after it if omitted.")
@TYPES
@RESULTS
@JSON
def command(files: tuple[Path, ...], as_json: bool, **statements: Any) -> None:
    """Import FILES of other tuners into the store.

    Kernel Tuner's caches and results, and T4 files, become records: the best valid configuration of each, unverified.
    A T1 file becomes a space file, which lacks only the reference.

    Example: tune import cache.json --kernel sgemm/07_tiled_1xn --size 4096
    """
    from tuner.exchange.interop import imports
    from tuner.exchange.interop.provenance import Statements

    results = imports.import_all(files, Statements(**statements))
    output.answer(as_json, [result.to_json() for result in results], "\n".join(map(str, results)))
