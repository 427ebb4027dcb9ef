"""A C header with the macros of the best configuration on each device, and a default."""

from __future__ import annotations

from collections.abc import Sequence

from tuner import devices
from tuner.exchange import target
from tuner.exchange.formats import Export, ExportRequest, write
from tuner.exchange.names import comment, identifier
from tuner.exchange.target import Problem, Target
from tuner.space import source
from tuner.space.default import first_valid
from tuner.space.model import Config, Geometry, Limits, Scope, config_text, size_text


def export(request: ExportRequest) -> Export:
    """Write the header, with a section for the device that was named, or for each in the store. Raises RequestError."""
    problem, name = request.problem, request.device
    if name is None:
        known = target.stored(problem)
    elif devices.is_name(name):
        known = [target.at_hand(devices.for_space(problem.space, name))]
    else:
        known = target.named(problem, name)
    targets = [target.of(problem, device) for device in known]
    return Export.of_targets([write(request.path(".h"), text(problem, targets))], targets)


def text(problem: Problem, targets: Sequence[Target]) -> str:
    """The header. Whoever includes it before the kernel's source defines the macro of one device, or none."""
    space = problem.space
    prefix = identifier(space.name)
    taken: list[str] = []
    for one in targets:
        taken.append(identifier(f"TUNED FOR {one.device.kind} {one.device.name}".upper(), taken))
    parts = [
        comment(
            f"{space.name} at {size_text(problem.sizes)}: {space.title}.",
            "Written by `tune export --to header`: macros and launch for this size.",
            "Include it before the kernel's source, with one of these defined, or none:",
            *taken,
        ),
        f"#ifndef {prefix.upper()}_H\n#define {prefix.upper()}_H\n\n",
    ]
    for number, (macro, one) in enumerate(zip(taken, targets, strict=True)):
        parts.append(f"#{'elif' if number else 'if'} defined({macro})\n{_section(one)}\n")
    scope = Scope(problem.sizes, problem.options, space.languages[0], Limits(compute_capability=8.0))
    default = first_valid(space, scope)
    section = comment(f"the default: {config_text(default)}") + _macros(problem, default, scope)
    parts.append(f"#else\n{section}\n#endif\n\n#endif\n" if targets else f"{section}\n#endif\n")
    return "".join(parts)


def _section(target: Target) -> str:
    record, found = target.found.record, target.found
    of = f"measured on {record.device} at {size_text(record.sizes)}" if record else "never tuned"
    about = f"{target.device.name} ({target.device.kind}): {found.match}, {of}"
    notes = [note.partition(": ")[2] for note in found.notes if found.stale or (record and not record.is_verified)]
    return comment(about, *notes) + _macros(target.problem, found.config, target.scope)


def _macros(problem: Problem, config: Config, scope: Scope) -> str:
    """The kernel's macros, and how it is launched."""
    made = problem.space.geometry(config, scope)
    return source.defines(problem.space, config, scope) + geometry(identifier(problem.space.name).upper(), made)


def geometry(prefix: str, made: Geometry) -> str:
    """Blocks, threads a block, and bytes of dynamic shared memory, as macros."""
    values = {f"GRID_{axis}": made.grid[i] for i, axis in enumerate("XYZ")}
    values |= {f"BLOCK_{axis}": made.block[i] for i, axis in enumerate("XYZ")}
    values["SHARED_MEMORY"] = made.shared_memory
    return "".join(f"#define {prefix}_{name} {value}\n" for name, value in values.items())
