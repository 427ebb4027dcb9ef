"""`tune validate`: check a space file."""

from __future__ import annotations

import math
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
@click.option(
    "--answers", is_flag=True, help="Also fill the inputs and compute the expected outputs, by Python functions too."
)
@click.option("--show-source", is_flag=True, help="Also print the text that is compiled for the default configuration.")
@TYPES
@JSON
def command(
    file: Path, size: str | None, types: dict[str, str], compiles: bool, answers: bool, show_source: bool, as_json: bool
) -> None:
    """Check a space file, and name the line and key of its first error.

    FILE may also be the name of a kernel. Its expressions are evaluated at SIZE (1024 if omitted), for all
    configurations of a small space or a sample of a large one. The device is the first of several common GPUs for which
    a configuration is valid.

    With --compile, the default configuration is built for each kind of device that has a compiler on this machine. CUDA
    needs none: without one, it builds for the first of sm_80, sm_90a, sm_100a and sm_120a that `requires:` allows.

    With --answers, the inputs are filled and the expected outputs computed as `tune` does it, at SIZE, within 600 s.
    This runs the Python functions of the file, and needs a C compiler, but no device.

    With --show-source, the text that the compiler gets follows: without host code, and with the configuration's values
    in place of those that the file defines. Its lines have the numbers of the file's lines after each #line.

    Example: tune validate my_kernel.yaml
    """
    from tuner import devices
    from tuner.catalog import catalog
    from tuner.space.file import reader
    from tuner.space.scope import COMMON_GPU
    from tuner.space.sources.checks import agreement, surplus_threads

    if not file.suffix and not os.path.exists(file):  # unlike Path.exists, of any name
        file, _ = catalog.find(str(file))
    gpus = (COMMON_GPU, *devices.common_limits())
    space, scope, evaluation = reader.evaluate(file, size, types, gpus)
    data, lines = _evaluated(file, space, scope, evaluation.configurations)
    scopes = [replace(scope, language=language) for language in space.languages]
    data["warnings"] = [*dict.fromkeys((*agreement.missing_headers(space), *surplus_threads.warnings(space, *scopes)))]
    output.warn(data["warnings"])
    if compiles:
        lines += _compiled(file, space, scope, data)
    if answers:
        lines.append(_answers(space, scope, size, data))
    if show_source:
        data["sources"] = _sources(space, scope)
        lines += data["sources"]
    output.answer(as_json, data, "\n".join(lines))


def _evaluated(file: Path, space: Space, scope: Scope, tried: int) -> tuple[dict[str, Any], list[str]]:
    """What was evaluated, as data and as lines. `tried` counts the configurations."""
    from tuner.catalog import kernel_names
    from tuner.space.scope import COMMON_GPU
    from tuner.space.texts import problem_text

    count, capability = len(space.parameters), scope.limits.compute_capability
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
    return data, lines


def _compiled(file: Path, space: Space, scope: Scope, data: dict[str, Any]) -> list[str]:
    """Build the default configuration, add the builds to `data`, and return them as lines. Prints warnings."""
    from tuner.devices import sample_build

    samples = sample_build.samples(space, scope)
    data["builds"] = [asdict(sample) for sample in samples]
    doubts = [f"{file}: {message} ({sample.kind})" for sample in samples for message in sample.doubts]
    data["warnings"] += doubts
    output.warn(doubts)
    return [*map(str, samples)]


def _answers(space: Space, scope: Scope, size: str | None, data: dict[str, Any]) -> str:
    """Fill the inputs and compute the answers, add them to `data`, and return them as a table. Prints warnings."""
    from tuner.measure.process import answering
    from tuner.measure.process.task import announce
    from tuner.space.chosen import size_of

    scope = replace(scope, sizes=size_of(size, space.operation, scope.types))  # at no common size, which may be large
    announce(space, output.say)
    found = answering.computed(space, scope)
    data["contents"] = [asdict(each) for each in found.contents]
    data["warnings"] += found.warnings
    output.warn(found.warnings)
    rows = []
    for each in found.contents:
        numbers = "" if each.least is None else f"{each.least:.7g} to {each.largest:.7g}"
        strange = f"{each.strange:,} of {math.prod(each.shape):,} NaN or infinite" if each.strange else ""
        held = ", ".join(filter(None, [numbers, strange]))
        shape = " x ".join(map(str, each.shape or (1,)))
        rows.append([each.name, "expected" if each.is_answer else "input", each.dtype, shape, held])
    device = "; the expected outputs take the kernel's device" * (
        space.operation.reference.kind in ("kernel", "config")
    )
    return (
        f"{output.table(['array', '', 'dtype', 'shape', 'numbers'], rows)}\ncomputed in {found.seconds:.3g} s{device}"
    )


def _sources(space: Space, scope: Scope) -> list[str]:
    """The texts that are compiled for the default configuration."""
    from tuner.space.default import first_valid
    from tuner.space.instance import Instance
    from tuner.space.sources import rendering

    steps = rendering.render(Instance(space, first_valid(space, scope), scope))
    return list(dict.fromkeys(step.source.text for step in steps))
