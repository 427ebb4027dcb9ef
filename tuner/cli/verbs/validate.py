"""`tune validate`: check a space file."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import output
from tuner.cli.options import JSON, TYPES

if TYPE_CHECKING:
    from tuner.space.model import Space
    from tuner.space.scope import Scope


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("size", required=False)
@click.option(
    "--compile", "compiles", is_flag=True, help="Also compile the default configuration with each compiler found."
)
@click.option("--show-source", is_flag=True, help="Also print the text that is compiled for the default configuration.")
@TYPES
@JSON
def command(
    file: Path, size: str | None, types: dict[str, str], compiles: bool, show_source: bool, as_json: bool
) -> None:
    """Check a space file, and name the line and key of its first error.

    FILE may also be the name of a kernel. Its expressions are evaluated at SIZE (1024 if omitted), for all
    configurations of a small space or a sample of a large one. The device is the first of several common GPUs for which
    a configuration is valid.

    With --compile, the default configuration is built for each kind of device that has a compiler on this machine. CUDA
    needs no device for that.

    With --show-source, the text that the compiler gets follows: without host code, and with the configuration's values
    in place of those that the file defines. Its lines have the numbers of the file's lines after each #line.

    Example: tune validate my_kernel.yaml
    """
    from tuner import devices
    from tuner.catalog import catalog, kernel_names
    from tuner.space.file import reader
    from tuner.space.scope import COMMON_GPU
    from tuner.space.texts import problem_text

    if not file.suffix and not os.path.exists(file):  # unlike Path.exists, of any name
        file, _ = catalog.find(str(file))
    gpus = (COMMON_GPU, *devices.common_limits())
    space, scope, evaluation = reader.evaluate(file, size, types, gpus)
    count, tried, capability = len(space.parameters), evaluation.configurations, scope.limits.compute_capability
    data: dict[str, Any] = {
        "file": str(file),
        "valid": True,
        "kernel": kernel_names.of(file),
        "parameters": count,
        "tried": tried,
        "size": scope.sizes,
        "types": scope.types,
        "compute_capability": capability,
        "reference": space.operation.reference.kind,
    }
    evaluated = "none of the configurations tried is valid"
    if tried:
        evaluated = f"evaluated for {output.counted(tried, 'configuration')}"
    parameters = output.counted(count, "parameter")
    on = "" if scope.limits == COMMON_GPU else f", on a GPU of compute capability {capability}"
    lines = [f"{file}: valid, {parameters}; {evaluated} at {problem_text(scope.sizes, scope.types)}{on}"]
    if space.operation.reference.kind == "none":
        lines.append(output.UNVERIFIED)
    from tuner.space.sources.checks import agreement, surplus_threads

    scopes = [replace(scope, language=language) for language in space.languages]
    data["warnings"] = [*dict.fromkeys((*agreement.missing_headers(space), *surplus_threads.warnings(space, *scopes)))]
    output.warn(data["warnings"])
    if compiles:
        from tuner.devices import sample_build

        samples = sample_build.samples(space, scope)
        data["builds"] = [asdict(sample) for sample in samples]
        lines += map(str, samples)
        doubts = [f"{file}: {message} ({sample.kind})" for sample in samples for message in sample.doubts]
        data["warnings"] += doubts
        output.warn(doubts)
    if show_source:
        data["sources"] = _sources(space, scope)
        lines += data["sources"]
    output.answer(as_json, data, "\n".join(lines))


def _sources(space: Space, scope: Scope) -> list[str]:
    """The texts that are compiled for the default configuration."""
    from tuner.space.default import first_valid
    from tuner.space.instance import Instance
    from tuner.space.sources import rendering

    steps = rendering.render(Instance(space, first_valid(space, scope), scope))
    return list(dict.fromkeys(step.source.text for step in steps))
