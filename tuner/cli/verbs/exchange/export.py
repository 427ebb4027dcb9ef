"""`tune export`: write configurations and trials for other programs."""

from pathlib import Path
from typing import Any

import click

from tuner.cli import output
from tuner.cli.options import JSON, KERNEL, RESULTS, SET, SIZE, TARGET_DEVICE, TYPES, output_option, storage_option
from tuner.errors import RequestError
from tuner.exchange.exports.request import ExportRequest
from tuner.exchange.formats import FORMATS, export
from tuner.quoting import quoted


@click.command()
@KERNEL
@SIZE
@click.option(
    "--to",
    required=True,
    type=click.Choice(list(FORMATS)),
    help="; ".join(f"{form.name}: {form.description}" for form in FORMATS.values()),
)
@output_option("PATH", "File to write, or the bundle's folder; named after the kernel and size if omitted.")
@TARGET_DEVICE
@click.option(
    "--architecture",
    "architectures",
    metavar="NAMES",
    help="Architectures of a bundle, such as sm_80,sm_90a, or that of a source; the device's if omitted.",
)
@storage_option("Database written by `tune --storage`; only its trials are exported.")
@SET
@TYPES
@RESULTS
@JSON
def command(
    kernel: str,
    size: str | None,
    to: str,
    options: dict[str, float],
    types: dict[str, str],
    results: Path | None,
    as_json: bool,
    **request: Any,
) -> None:
    """Export the results of KERNEL at SIZE for other programs.

    A format (--to) holds either the best configuration for a device, ready to build or launch without tuner, or all
    trials, for other tuners and for analysis. `dispatch` and `times` export a whole family, named in place of KERNEL,
    at any size.

    Example: tune export sgemm/12_warptiled 4096 --to cubin --device H200
    """
    from tuner.catalog import catalog
    from tuner.exchange.exports.target import Problem
    from tuner.families import family

    about: dict[str, Any]
    if FORMATS[to].holds_family:
        if size is not None:
            raise RequestError(f"--to {to}: it serves every size; leave out {quoted(size)}")
        exported = family.find(kernel)
        problem = Problem.sizeless(exported.spaces[0], options, types, results)
        export_request = ExportRequest(problem, spaces=exported.spaces, name=exported.name, **request)
        about = {"family": exported.name, "types": problem.types}
    else:
        problem = Problem.parse(catalog.load(kernel), size, options, types, results)
        export_request = ExportRequest(problem, **request)
        about = {"kernel": problem.space.name, "size": problem.sizes, "types": problem.types}
    result = export(to, export_request)
    output.warn(result.notes)
    files = [str(file) for file in result.files]
    data = {**about, "to": to, "files": files, **result.summary}
    lines = [*files]
    if "builds" in result.summary:
        folder = result.files[-1].parent
        kernels = ", ".join(result.summary["kernels"])
        lines = [
            lines[-1],
            f"{result.summary['builds']} builds of {kernels}",
            f'tuner.dispatch("{kernel}", binaries="{folder}") uses them on machines with these kernels, under any name',
        ]
    if "from" in result.summary:
        lines.append("{trials} trials on {device}, from a {from}".format(**result.summary))
    output.answer(as_json, data, "\n".join(lines))
