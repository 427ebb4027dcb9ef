"""`tune import`: import results and spaces of other tuners."""

from pathlib import Path
from typing import Any

import click

from tuner.cli import output
from tuner.cli.options import JSON, RESULTS, TYPES, output_option
from tuner.languages import KINDS


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--kernel", metavar="NAME", help="Measured kernel, if the files do not name it.")
@click.option("--size", metavar="SIZE", help="Measured size, if the files do not give it.")
@click.option("--device", metavar="NAME", help="Full name of the measured device, if not in the files.")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    help="Kind of that device, if not in the files; if omitted, that of the kernel's first language.",
)
@output_option("FILE", "Space file to write for a T1 file; named after it if omitted.")
@TYPES
@RESULTS
@JSON
def command(files: tuple[Path, ...], as_json: bool, **statements: Any) -> None:
    """Import FILES of other tuners into the store.

    The best valid configuration of each Kernel Tuner cache or result, each T4 file and each JSON file of KTT becomes an
    unverified record. A T1 file becomes a space file without a reference.

    Example: tune import cache.json --kernel sgemm/07_tiled_1xn --size 4096
    """
    from tuner.exchange.interop import imports
    from tuner.exchange.interop.provenance import Statements

    results = imports.import_all(files, Statements(**statements), lambda note: output.warn([note]))
    output.answer(as_json, [result.to_json() for result in results], "\n".join(map(str, results)))
