"""The verbs that speak with other programs and machines: export, import, merge."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli import output
from tuner.cli.options import JSON, KERNEL, RESULTS, SET, SIZE, cli
from tuner.errors import RequestError


def _output(_ctx: click.Context, _param: click.Parameter, given: str | None) -> Path | None:
    """A path that names something. Raises RequestError for others: a Path of "" would be this folder."""
    if given in ("", "-"):
        raise RequestError(f"--output {given!r}: names no file, and standard output is for the report; write a path")
    return None if given is None else Path(given)


@cli.command()
@KERNEL
@SIZE
@click.option(
    "--to",
    required=True,
    type=click.Choice(["header", "cubin", "cu", "kernel-tuner", "t4", "csv"]),
    help="A C header of macros; a folder of cubins with a C example; the source; files of all trials.",
)
@click.option("--output", "path", callback=_output, metavar="PATH", help="The file, or the bundle's folder.")
@click.option("--device", metavar="NAME", help="cuda, opencl or host, or part of the name of one in the store.")
@click.option("--architecture", metavar="NAMES", help="Of a bundle: sm_80,sm_90a; that of the device if omitted.")
@click.option("--storage", metavar="URL", help="The shared ledger to take all trials from.")
@SET
@RESULTS
@JSON
def export(
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
    """Write what is known of KERNEL at SIZE for other programs; see the README for the formats.

    Example: tune export sgemm/12_warptiled 4096 --to cubin --architecture sm_80,sm_90a
    """
    from tuner.exchange import exporting
    from tuner.exchange.target import Problem
    from tuner.space import catalog

    problem = Problem.parse(catalog.load(kernel), size, options, results)
    done = exporting.export(to, exporting.Request(problem, device, path, architecture, storage))
    for note in done.notes:
        output.say(f"warning: {note}")
    files = [str(file) for file in done.files]
    if as_json:
        output.document({"kernel": problem.space.name, "size": problem.sizes, "to": to, "files": files, **done.about})
        return 0
    for file in files:
        click.echo(output.plain(file))
    if "from" in done.about:
        click.echo(output.plain("{trials} trials on {device}, from a {from}".format(**done.about)))
    return 0


@cli.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--kernel", metavar="NAME", help="The kernel that the files are of, where they do not say it.")
@click.option("--size", metavar="SIZE", help="Its size, likewise.")
@click.option("--device", metavar="NAME", help="The device's name as its maker writes it, likewise.")
@click.option("--kind", type=click.Choice(["cuda", "opencl", "host"]), help="The kernel's first language if omitted.")
@click.option("--output", "path", callback=_output, metavar="FILE", help="Where a T1 file's space goes.")
@RESULTS
@JSON
def import_(
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
    from tuner.exchange import importing
    from tuner.exchange.identity import Hints

    hints = Hints(kernel, size, device, kind, path, results)
    done = importing.import_all(files, hints)
    if as_json:
        output.document([one.to_json() for one in done])
        return 0
    for one in done:
        click.echo(output.plain(one))
    return 0


@cli.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@RESULTS
@JSON
def merge(sources: tuple[Path, ...], results: Path | None, as_json: bool) -> int:
    """Put the records of other stores, folders or files, into yours; of two about one thing the better stays.

    Example: tune merge node1/results node2/results --results results
    """
    from tuner.store import merge

    done = merge.merge(sources, results)
    for problem in done.problems:
        output.say(f"warning: {problem}")
    if as_json:
        output.document({"files": done.files, "records": done.records, "written": done.written})
        return 0
    click.echo(str(done))
    return 0
