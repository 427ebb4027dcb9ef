"""A folder that launches without us: cubins, how to launch them as C and as JSON, and an example in C."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuner import devices, paths
from tuner.devices.architectures import compute_capability, is_architecture
from tuner.devices.build import build
from tuner.devices.build_cache import BUNDLE
from tuner.devices.compiler import Build
from tuner.errors import DeviceError, RequestError, TrialError
from tuner.exchange import target as targets
from tuner.exchange.formats import Export, ExportRequest
from tuner.exchange.names import comment, identifier
from tuner.exchange.target import Problem, Target, TargetDevice
from tuner.space import operation
from tuner.space import source as sources
from tuner.space.model import Geometry, size_text
from tuner.space.source import Source
from tuner.store.lookup import MATCHES, Found
from tuner.version import VERSION

EXAMPLE = Path(__file__).with_name("example.c")  # drives CUDA, as launch.h describes it
KIND = next(kind for kind, backend in devices.BACKENDS.items() if backend.binaries)


@dataclass(frozen=True)
class Binary:
    """One binary of a bundle."""

    target: Target
    found: Found
    source: Source
    build: Build

    @property
    def file(self) -> str:
        return f"{self.target.device.architecture}{devices.BACKENDS[self.target.device.kind].binaries}"


def export(request: ExportRequest) -> Export:
    """Write the bundle, in a folder. Raises RequestError."""
    targets = choose(request.problem, request.device, request.architectures)
    return Export.of_targets(write(request.problem, targets, request.path("")), targets)


def write(problem: Problem, targets: Sequence[Target], folder: Path) -> list[Path]:
    """Write the bundle of these targets; the files. Raises RequestError where no configuration compiles for one."""
    builds = [_build(target) for target in targets]
    prefix = identifier(problem.space.name)
    contents = {binary.file: binary.build.binary for binary in builds}
    contents["launch.json"] = (json.dumps(_json(problem, builds), indent=1) + "\n").encode()
    contents["launch.h"] = _header(problem, builds, prefix).encode()
    contents["example.c"] = EXAMPLE.read_text(encoding="utf-8").replace("PREFIX", prefix).encode()
    for name, data in contents.items():
        paths.replace(folder / name, data)
    return [folder / name for name in contents]


def choose(problem: Problem, device: str | None, architectures: str | None) -> list[Target]:
    """The targets of a bundle: an architecture each, those named (`sm_80,sm_90a`) or the one of the device. Raises
    RequestError."""
    if KIND not in devices.kinds_of(problem.space):
        raise RequestError(f"{problem.space.name} is written in {', '.join(problem.space.languages)}: it has no cubins")
    named = [targets.choose(problem, device, (KIND,))] if device is not None or architectures is None else []
    if any(target.device.kind != KIND for target in named):
        asked = f"--device {paths.shown(device or '')}"
        raise RequestError(f"{asked}: --to cubin is for CUDA devices; name one with --device, or --architecture sm_90a")
    if architectures is None:
        return named
    names = list(dict.fromkeys(name.strip() for name in architectures.split(",")))
    for name in names:
        if not is_architecture(name):
            raise RequestError(f"--architecture {paths.shown(name)!r}: write names such as sm_80 or sm_90a")
    known = [*(target.device for target in named), *targets.stored(problem)]
    return [_for(problem, name, known) for name in names]


def _for(problem: Problem, architecture: str, known: Sequence[TargetDevice]) -> Target:
    """The target of an architecture: of the devices that have it the one whose record fits best, or none of them."""
    same = [d for d in known if (d.kind, d.architecture) == (KIND, architecture)]
    candidates = [targets.of(problem, device) for device in same or [targets.of_architecture(KIND, architecture)]]
    return min(candidates, key=lambda target: MATCHES.index(target.found.match))


def _build(target: Target) -> Binary:
    """The best configuration that compiles and fits."""
    space, compiler = target.problem.space, devices.compiler(KIND, target.device.architecture)
    first: TrialError | None = None
    for found in target.candidates:
        try:
            source, binary = build(compiler, space, found.config, target.scope)
        except TrialError as error:
            first = first or error
        else:
            return Binary(target, found, source, binary)
    log = str(first).strip().splitlines()[0] if first and str(first).strip() else "no configuration"
    raise RequestError(f"{space.name}: nothing compiles for {target.device.architecture}: {log}")


def _json(problem: Problem, builds: Sequence[Binary]) -> dict[str, Any]:
    space, scope = problem.space, builds[0].target.scope
    scalars = iter(operation.scalars(space.operation, scope))
    constants = operation.constants(space.operation, scope)
    arguments: list[dict[str, Any]] = []
    for a in space.operation.arguments:
        if a.shape is None:
            about: dict[str, Any] = {"value": next(scalars).item()}
        else:
            about = {"shape": list(operation.shape(a, scope)), "role": a.role}
            about |= {"value": constants[a.name].ravel().tolist()} if a.name in constants else {}
        arguments.append({"name": a.name, "dtype": a.dtype, **about})
    return {
        "format": BUNDLE[0],
        "version": BUNDLE[1],
        "tuner": VERSION,
        "kernel": space.name,
        "entry": space.kernel,
        "signature": sources.signature(space),
        "size": dict(problem.sizes),
        "options": dict(problem.options),
        "arguments": arguments,
        "builds": [_binary_json(binary) for binary in builds],
    }


def _binary_json(binary: Binary) -> dict[str, Any]:
    device, found, geometry = binary.target.device, binary.found, binary.source.geometry
    return {
        "file": binary.file,
        "architecture": device.architecture,
        "config": found.config,
        "match": found.match,
        "stale": found.stale,
        "device": found.record.device if found.record else None,
        "time_ms": found.record.time_ms if found.record and found.rank == 0 else None,
        "grid": list(geometry.grid),
        "block": list(geometry.block),
        "shared_memory": geometry.shared_memory,
        "registers": binary.build.figures.registers,
        "static_shared_memory": binary.build.figures.shared_memory,
        # Names what was compiled: equal texts and options make equal cubins.
        "source": binary.source.digest,
    }


_TYPES = """\
#ifndef TUNED_BUNDLE
#define TUNED_BUNDLE
/* A build runs on devices of its major compute capability, from its minor one on; where `exact`, on that one alone. */
struct tuned_build {
    const char *file;
    int major, minor, exact;
    unsigned grid[3], block[3], shared_memory; /* blocks; threads; bytes of dynamic shared memory */
};
/* `bytes` is 0 for a scalar. `value` is a scalar's, or 1 in an array's type; `contents` is what an array holds that the
 * kernel is always given, else NULL. `type` is NumPy's character. */
struct tuned_argument {
    const char *name;
    size_t bytes, element;
    unsigned char value[8];
    const unsigned char *contents;
    char type;
    int output;
};
#endif
"""


def _header(problem: Problem, builds: Sequence[Binary], prefix: str) -> str:
    space, scope = problem.space, builds[0].target.scope
    scalars = iter(operation.scalars(space.operation, scope))
    constants = operation.constants(space.operation, scope)
    arrays = [f"static const unsigned char {prefix}_{n}[] = {{{_bytes(v)}}};\n" for n, v in constants.items()]
    rows = []
    for a in space.operation.arguments:
        value = next(scalars) if a.shape is None else np.ones((), a.dtype)[()]
        nbytes = operation.nbytes(a, scope) if a.shape is not None else 0
        contents = f"{prefix}_{a.name}" if a.name in constants else "NULL"
        kind = f"'{value.dtype.char}', {int(a.role in ('out', 'inout'))}"
        rows.append(f'    {{"{a.name}", {nbytes}u, {value.itemsize}, {{{_bytes(value)}}}, {contents}, {kind}}},\n')
    entries = [f"    {{{_row(b.file, b.target.device.architecture, b.source.geometry)}}},\n" for b in builds]
    return (
        comment(f"{space.name} at {size_text(problem.sizes)}. Written by `tune export --to cubin`.")
        + f"#ifndef {prefix.upper()}_LAUNCH_H\n#define {prefix.upper()}_LAUNCH_H\n\n#include <stddef.h>\n\n{_TYPES}\n"
        + f'#define {prefix}_kernel "{space.kernel}"\n\n'
        + "".join(arrays)
        + f"static const struct tuned_argument {prefix}_arguments[] = {{\n{''.join(rows)}}};\n\n"
        + f"static const struct tuned_build {prefix}_builds[] = {{\n{''.join(entries)}}};\n\n#endif\n"
    )


def _bytes(value: np.generic | np.ndarray[Any, Any]) -> str:
    return ", ".join(f"0x{byte:02x}" for byte in value.tobytes())


def _row(file: str, architecture: str, geometry: Geometry) -> str:
    capability = compute_capability(architecture)
    if capability is None:
        raise DeviceError(f"{architecture}: not an architecture of NVIDIA's")
    grid, block = (", ".join(map(str, three)) for three in (geometry.grid, geometry.block))
    exact = int(architecture.endswith("a"))  # sm_100f runs on later minor versions too
    return f'"{file}", {capability[0]}, {capability[1]}, {exact}, {{{grid}}}, {{{block}}}, {geometry.shared_memory}'
