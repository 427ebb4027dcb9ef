"""Export of a bundle, which runs without tuner: cubins, their launches as C tables and JSON, and an example in C."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tuner import devices, paths
from tuner.devices.builds.bundles import BUNDLE, binary_json
from tuner.errors import RequestError
from tuner.exchange.exports import launch_header, loop_tables
from tuner.exchange.exports.bundled import BundledArgument, BundledBuild
from tuner.exchange.exports.names import identifier
from tuner.exchange.exports.request import Export, ExportRequest
from tuner.exchange.exports.target import CUBINS, Problem, Target, choose_target, targets_of
from tuner.quoting import shown
from tuner.space import kinds
from tuner.space.sources import rendering as sources
from tuner.space.sources.source import StepSource
from tuner.version import VERSION

EXAMPLE = Path(__file__).with_name("example.c")  # launches the builds of launch.h through the CUDA driver API


def export(request: ExportRequest) -> Export:
    """Write the bundle into a folder. Raises RequestError if kernel or device are not CUDA, or nothing compiles."""
    problem, folder = request.problem, request.path("")
    targets = _targets(request)
    builds = [BundledBuild.of(target) for target in targets]
    prefix = identifier(problem.space.name)
    contents = {file: build.built.builds[source].binary for build in builds for source, file in build.files.items()}
    contents["launch.json"] = (json.dumps(_json(problem, builds), indent=1) + "\n").encode()
    contents["launch.h"] = launch_header.text(problem, builds, prefix).encode()
    contents["example.c"] = EXAMPLE.read_text(encoding="utf-8").replace("PREFIX", prefix).encode()
    for name, data in contents.items():
        paths.replace(folder / name, data)
    return Export.of_targets([folder / name for name in contents], targets)


def _targets(request: ExportRequest) -> list[Target]:
    """One target per requested architecture; without any, the target for the device. Raises RequestError if either is
    not CUDA."""
    problem, device, architectures = request.problem, request.device, request.architectures
    if CUBINS not in devices.kinds_of(problem.space):
        written = ", ".join(problem.space.written_in)
        raise RequestError(
            f"{problem.space.name} is written in {written}, which has no cubins; use --to dispatch for its builds, or "
            "--to cu for its source"
        )
    targets = [choose_target(problem, device, (CUBINS,))] if device is not None or architectures is None else []
    if any(target.device.kind != CUBINS for target in targets):
        where = f"--device {shown(device or '')}"
        raise RequestError(
            f"{where}: --to cubin is for CUDA devices; name one with --device, or an architecture such as "
            "--architecture sm_90a; for other devices use --to dispatch"
        )
    if architectures is None:
        return targets
    return targets_of(problem, architectures, [target.device for target in targets])


def _json(problem: Problem, builds: Sequence[BundledBuild]) -> dict[str, Any]:
    """The contents of launch.json."""
    return {
        "format": BUNDLE[0],
        "version": BUNDLE[1],
        "tuner": VERSION,
        "kernel": problem.space.name,
        "signature": sources.signature(problem.space),
        "size": dict(problem.sizes),
        "options": dict(problem.options),
        "types": dict(problem.types),
        "builds": [_build_json(build) for build in builds],
    }


def _build_json(build: BundledBuild) -> dict[str, Any]:
    candidate, record = build.candidate, build.candidate.record
    return {
        "architecture": build.architecture,
        "config": candidate.config,
        "match": candidate.match,
        "stale": candidate.stale,
        "device": record.device if record else None,
        "time_ms": record.time_ms if record and candidate.rank == 0 else None,
        "verified": record.is_verified if record else None,
        "cubins": [
            # The launcher finds a cubin by the digest of its source: equal sources and options give equal cubins.
            binary_json(build.files[source], source.digest, made)
            for source, made in build.built.builds.items()
        ],
        "arguments": [_argument_json(argument, build) for argument in build.arguments],
        "steps": [_step_json(build, step) for step in build.steps],
        **loop_tables.json(build, _plain),
    }


def _argument_json(a: BundledArgument, build: BundledBuild) -> dict[str, Any]:
    description, scope = dict[str, Any](name=a.name), build.scope
    if a.argument.kind is not None and not a.argument.kind.is_plain(scope):
        description |= {"kind": a.argument.kind.name, **kinds.settings(a.argument.kind, scope)}
    if a.dtype is not None:
        description["dtype"] = a.dtype.name
    if a.shape is not None:
        description |= {"shape": list(a.shape), "bytes": a.nbytes, "role": a.argument.role}
    if a.argument.role == "scratch":
        description["zeroed"] = a.argument.zeroed
    if a.value is not None:
        description["value"] = _plain(a.value)
    if a.exported is not None and a.exported.symbol is not None:
        description["symbol"] = a.exported.symbol
    if a.exported is not None and a.exported.of is not None:
        description |= {"of": a.exported.of, "encoded": a.exported.nbytes}
    if alignment := build.alignment(a):
        description["alignment"] = alignment
    return description


def _step_json(build: BundledBuild, step: StepSource) -> dict[str, Any]:
    geometry, figures = step.geometry, build.build(step).figures_of(step.kernel)
    return {
        "file": build.files[step.source],
        "entry": build.entry(step),
        "arguments": list(build.taken(step)),
        **loop_tables.pointers_json(build.pointers(step)),
        "grid": list(geometry.grid),
        "block": list(geometry.block),
        "shared_memory": geometry.shared_memory,
        "cluster": list(geometry.cluster),
        "cooperative": geometry.cooperative,
        "programmatic": geometry.programmatic,
        "registers": figures.registers,
        "static_shared_memory": figures.shared_memory,
    }


def _plain(value: Any) -> Any:
    """`value` in JSON: a number, [real, imaginary], the list of an array, or the object of a struct."""
    if isinstance(value, np.ndarray):
        return [_plain(element) for element in value.ravel()]
    if isinstance(value, np.void):
        return {name: _plain(value[name]) for name in value.dtype.names or ()}
    number = value.item()
    return [number.real, number.imag] if isinstance(number, complex) else number
