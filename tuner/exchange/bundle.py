"""A folder that launches without tuner: cubins, their launches in C and in JSON, and an example in C."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuner import devices, paths
from tuner.devices.build_cache import BUNDLE
from tuner.devices.compiler import Build
from tuner.devices.cuda.architectures import compute_capability, is_architecture
from tuner.devices.program import Built, build
from tuner.errors import DeviceError, RequestError, TrialError
from tuner.exchange.formats import Export, ExportRequest
from tuner.exchange.names import comment, identifier
from tuner.exchange.target import Problem, Target, TargetDevice, best_fit, choose_target, stored_devices
from tuner.space import operation
from tuner.space import source as sources
from tuner.space.chosen_types import dtype
from tuner.space.scope import Scope
from tuner.space.source import StepSource
from tuner.space.texts import problem_text
from tuner.store.lookup import Candidate
from tuner.version import VERSION

EXAMPLE = Path(__file__).with_name("example.c")  # launches through CUDA, as launch.h says
KIND = next((kind for kind, backend in devices.BACKENDS.items() if backend.binaries == ".cubin"), "")


@dataclass(frozen=True)
class Binary:
    """One binary of a bundle: the first candidate of the target that builds."""

    target: Target
    candidate: Candidate
    built: Built

    @property
    def file(self) -> str:
        return f"{self.target.device.architecture}{devices.BACKENDS[self.target.device.kind].binaries}"

    @property
    def entry(self) -> str:
        return self.build.entry(self.step.kernel)

    @property
    def step(self) -> StepSource:
        (step,) = self.built.steps
        return step

    @property
    def build(self) -> Build:
        return self.built.builds[self.step.source]


def export(request: ExportRequest) -> Export:
    """Write the bundle into a folder. Raises RequestError where a device is not a CUDA device, or nothing compiles."""
    problem, folder = request.problem, request.path("")
    targets = _targets(request)
    binaries = [_build(target) for target in targets]
    prefix = identifier(problem.space.name)
    contents = {binary.file: binary.build.binary for binary in binaries}
    contents["launch.json"] = (json.dumps(_json(problem, binaries), indent=1) + "\n").encode()
    contents["launch.h"] = _header(problem, binaries, prefix).encode()
    contents["example.c"] = EXAMPLE.read_text(encoding="utf-8").replace("PREFIX", prefix).encode()
    for name, data in contents.items():
        paths.replace(folder / name, data)
    return Export.of_targets([folder / name for name in contents], targets)


def _targets(request: ExportRequest) -> list[Target]:
    """One target per architecture of the request, else the one of its device. Raises RequestError."""
    problem, device, architectures = request.problem, request.device, request.architectures
    if KIND not in devices.kinds_of(problem.space):
        raise RequestError(f"{problem.space.name} is written in {', '.join(problem.space.languages)}: it has no cubins")
    targets = [choose_target(problem, device, (KIND,))] if device is not None or architectures is None else []
    if any(target.device.kind != KIND for target in targets):
        where = f"--device {paths.shown(device or '')}"
        raise RequestError(f"{where}: --to cubin is for CUDA devices; name one with --device, or --architecture sm_90a")
    if architectures is None:
        return targets
    names = list(dict.fromkeys(name.strip() for name in architectures.split(",")))
    for name in names:
        if not is_architecture(name):
            raise RequestError(f"--architecture {paths.shown(name)!r}: write names such as sm_80 or sm_90a")
    candidates = [*(target.device for target in targets), *stored_devices(problem)]
    return [_target(problem, name, candidates) for name in names]


def _target(problem: Problem, architecture: str, candidates: Sequence[TargetDevice]) -> Target:
    """The target for an architecture: the best fit of the candidates that have it, else the architecture alone."""
    same = [device for device in candidates if (device.kind, device.architecture) == (KIND, architecture)]
    return best_fit(Target.of(problem, device) for device in same or [TargetDevice.remote(KIND, architecture)])


def _build(target: Target) -> Binary:
    """The best configuration that compiles and fits. Raises RequestError where there is none."""
    space, compiler = target.problem.space, devices.compiler_for(KIND, target.device.architecture)
    first: TrialError | None = None
    for candidate in target.candidates:
        try:
            return Binary(target, candidate, build(compiler, space, candidate.config, target.scope))
        except TrialError as error:
            first = first or error
    log = str(first).strip().splitlines()[0] if first and str(first).strip() else "no configuration"
    raise RequestError(f"{space.name}: nothing compiles for {target.device.architecture}: {log}")


def _scalars(problem: Problem, scope: Scope) -> dict[str, np.generic]:
    """The values of the scalar arguments by name."""
    names = [argument.name for argument in problem.space.operation.arguments if argument.shape is None]
    return dict(zip(names, operation.scalars(problem.space.operation, scope), strict=True))


def _json(problem: Problem, binaries: Sequence[Binary]) -> dict[str, Any]:
    """The contents of launch.json."""
    space, scope = problem.space, binaries[0].target.scope
    scalars, constants = _scalars(problem, scope), operation.constants(space.operation, scope)
    arguments: list[dict[str, Any]] = []
    for a in space.operation.arguments:
        description: dict[str, Any] = {"name": a.name, "dtype": dtype(a, scope).name}
        if a.shape is None:
            description["value"] = _json_value(scalars[a.name])
        else:
            description |= {"shape": list(operation.shape(a, scope)), "role": a.role}
        if a.name in constants:
            description["value"] = [_json_value(value) for value in constants[a.name].ravel()]
        arguments.append(description)
    return {
        "format": BUNDLE[0],
        "version": BUNDLE[1],
        "tuner": VERSION,
        "kernel": space.name,
        "signature": sources.signature(space),
        "size": dict(problem.sizes),
        "options": dict(problem.options),
        "types": dict(problem.types),
        "arguments": arguments,
        "builds": [_binary_json(binary) for binary in binaries],
    }


def _binary_json(binary: Binary) -> dict[str, Any]:
    candidate, geometry = binary.candidate, binary.step.geometry
    record = candidate.record
    return {
        "file": binary.file,
        "entry": binary.entry,
        "architecture": binary.target.device.architecture,
        "config": candidate.config,
        "match": candidate.match,
        "stale": candidate.stale,
        "device": record.device if record else None,
        "time_ms": record.time_ms if record and candidate.rank == 0 else None,
        "verified": record.is_verified if record else None,
        "grid": list(geometry.grid),
        "block": list(geometry.block),
        "shared_memory": geometry.shared_memory,
        "entries": dict(binary.build.entries),
        "registers": binary.build.figures_of(binary.step.kernel).registers,
        "static_shared_memory": binary.build.figures_of(binary.step.kernel).shared_memory,
        # The launcher finds a cubin by this digest: equal sources and options make equal cubins.
        "source": binary.step.source.digest,
    }


_TYPES = """\
#ifndef TUNED_BUNDLE
#define TUNED_BUNDLE
/* A build runs on devices of its major compute capability, if their minor one is equal or, unless `exact`, higher. */
struct tuned_build {
    const char *file, *kernel;
    int major, minor, exact;
    unsigned grid[3], block[3], shared_memory; /* blocks; threads; bytes of dynamic shared memory */
};
/* `bytes` is the size of an array, and 0 for a scalar. `value` is that of a scalar, or 1 in the type of an array.
 * `contents` are the bytes of a constant array, else NULL. `type` is NumPy's character. */
struct tuned_argument {
    const char *name;
    size_t bytes, element;
    unsigned char value[16];
    const unsigned char *contents;
    char type;
    int output;
};
#endif
"""


def _header(problem: Problem, binaries: Sequence[Binary], prefix: str) -> str:
    """The contents of launch.h."""
    space, scope = problem.space, binaries[0].target.scope
    scalars, constants = _scalars(problem, scope), operation.constants(space.operation, scope)
    arrays = [f"static const unsigned char {prefix}_{n}[] = {{{_bytes(v)}}};\n" for n, v in constants.items()]
    rows = []
    for a in space.operation.arguments:
        value = scalars[a.name] if a.shape is None else dtype(a, scope).scalar(1)
        nbytes = 0 if a.shape is None else operation.nbytes(a, scope)
        contents = f"{prefix}_{a.name}" if a.name in constants else "NULL"
        kind = f"'{value.dtype.char}', {int(a.role in ('out', 'inout'))}"
        rows.append(f'    {{"{a.name}", {nbytes}u, {value.itemsize}, {{{_bytes(value)}}}, {contents}, {kind}}},\n')
    builds = [f"    {{{_row(binary)}}},\n" for binary in binaries]
    return (
        comment(f"{space.name} at {problem_text(problem.sizes, problem.types)}. Written by `tune export --to cubin`.")
        + f"#ifndef {prefix.upper()}_LAUNCH_H\n#define {prefix.upper()}_LAUNCH_H\n\n#include <stddef.h>\n\n{_TYPES}\n"
        + "".join(arrays)
        + f"static const struct tuned_argument {prefix}_arguments[] = {{\n{''.join(rows)}}};\n\n"
        + f"static const struct tuned_build {prefix}_builds[] = {{\n{''.join(builds)}}};\n\n#endif\n"
    )


def _json_value(value: np.generic) -> Any:
    """A number; the two parts of a complex one."""
    number = value.item()
    return [number.real, number.imag] if isinstance(number, complex) else number


def _bytes(value: np.generic | np.ndarray[Any, Any]) -> str:
    return ", ".join(f"0x{byte:02x}" for byte in value.tobytes())


def _row(binary: Binary) -> str:
    architecture, geometry = binary.target.device.architecture, binary.step.geometry
    capability = compute_capability(architecture)
    if capability is None:
        raise DeviceError(f"{architecture}: not an architecture of NVIDIA's")
    major, minor = capability
    grid, block = (", ".join(map(str, extents)) for extents in (geometry.grid, geometry.block))
    exact = int(architecture.endswith("a"))  # sm_100f runs on later minor versions too
    names = f'"{binary.file}", "{binary.entry}"'
    return f"{names}, {major}, {minor}, {exact}, {{{grid}}}, {{{block}}}, {geometry.shared_memory}"
