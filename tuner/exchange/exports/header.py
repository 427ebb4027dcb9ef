"""Export as a C header: the macros of the best configuration for each device, and of the default configuration."""

import re
from collections.abc import Sequence
from dataclasses import replace

from tuner import devices
from tuner.errors import NoConfiguration, RequestError
from tuner.exchange.exports import loop_macros
from tuner.exchange.exports.names import comment, identifier, literal
from tuner.exchange.exports.request import Export, ExportRequest, write
from tuner.exchange.exports.target import Problem, Target, TargetDevice, stored_devices
from tuner.quoting import shown
from tuner.space.default import first_valid
from tuner.space.expressions import braces
from tuner.space.instance import Instance
from tuner.space.scope import COMMON_GPU
from tuner.space.sources import rendering, source_text
from tuner.space.step import Geometry
from tuner.space.texts import config_text

_DEFINE = re.compile(r"^#define (\w+) (.*)$", re.MULTILINE)


def export(request: ExportRequest) -> Export:
    """Write the header, with a section for the requested device, else for each device in the store. Raises RequestError
    if there is no such device, or if a kernel file defines a parameter."""
    for path in request.problem.space.sources:
        if (found := source_text.defined_in(request.problem.space, path)) and found.names:
            names = shown(", ".join(sorted(found.names)))
            raise RequestError(
                f"--to header: {shown(path.name)} defines {names} itself, in place of the header's value; write "
                "#ifndef around each, or use --to patch"
            )
    problem, name = request.problem, request.device
    if name is not None and devices.is_name(name):
        target_devices = [TargetDevice.local(problem.space, name)]
    else:
        target_devices = stored_devices(problem, name)
    targets = [Target.of(problem, device) for device in target_devices]
    export = Export.of_targets([write(request.path(".h"), text(problem, targets))], targets)
    untuned = f"{problem.space.name} has no records in the store: the header has the default configuration alone"
    return export if targets else replace(export, notes=(f"{untuned}; tune it first, or name its store by --results",))


def text(problem: Problem, targets: Sequence[Target]) -> str:
    """The header, to be included before the kernel's source. Defining a device's macro selects its section; without
    one, the default applies."""
    space = problem.space
    prefix = identifier(space.name)
    macros: list[str] = []
    for target in targets:
        macros.append(identifier(f"TUNED FOR {target.device.kind} {target.device.name}".upper(), macros))
    parts = [
        comment(
            f"{space.name} at {problem.code_text}: {space.title}.",
            "Written by `tune export --to header`: macros and launch for this size.",
            f"Include it before the kernel's source{', with at most one of these macros defined:' if macros else '.'}",
            *macros,
            f"{prefix.upper()}_VALUE_name is the value of the macro `name`, which the kernel's source reads. The macro",
            "is not defined in C++, except by nvcc and NVRTC, because it may be the name of anything there. Define",
            f"{prefix.upper()}_MACROS as 1 or 0 to decide it.",
        ),
        f"#ifndef {prefix.upper()}_H\n#define {prefix.upper()}_H\n\n",
        f"#ifdef __cplusplus\n#ifndef __CUDACC__\n{_default(prefix, 0)}#endif\n#endif\n{_default(prefix, 1)}\n",
    ]
    for number, (macro, target) in enumerate(zip(macros, targets, strict=True)):
        parts.append(f"#{'elif' if number else 'if'} defined({macro})\n{_section(target)}\n")
    scope = problem.scope(space.languages[0], COMMON_GPU)
    try:
        default = first_valid(space, scope)
        section = comment(f"the default: {config_text(default)}") + _device(prefix)
        section += _macros(Instance(problem.space, default, scope))
    except NoConfiguration:  # the kernel needs more than COMMON_GPU's limits
        if not targets:
            raise
        section = '#error "define the macro of a device"\n'
    parts.append(f"#else\n{section}\n#endif\n\n#endif\n" if targets else f"{section}\n#endif\n")
    return "".join(parts)


def _default(prefix: str, value: int) -> str:
    """The choice of whether the kernel's macros are defined, if nothing has chosen before."""
    return f"#ifndef {prefix.upper()}_MACROS\n#define {prefix.upper()}_MACROS {value}\n#endif\n"


def _section(target: Target) -> str:
    record, best, origin = target.best.record, target.best, "never tuned"
    if record is not None:
        measured = replace(target.problem, sizes=record.sizes, options=record.options, types=record.types)
        origin = f"measured on {record.device} at {measured.code_text}"
    title = f"{target.device.name} ({target.device.kind}): {best.match}, {origin}"
    notes = [note.partition(": ")[2] for note in best.notes if best.stale or (record and not record.is_verified)]
    device = _device(identifier(target.problem.space.name), target.device.name, target.device.architecture)
    return comment(title, *notes) + device + _macros(Instance(target.problem.space, best.config, target.scope))


def _device(prefix: str, name: str = "", architecture: str = "") -> str:
    """The device of a section as strings, by which a program chooses between versions; empty ones for the default."""
    texts = {"DEVICE": name, "ARCHITECTURE": architecture}
    return "".join(f"#define {prefix.upper()}_{key} {literal(text)}\n" for key, text in texts.items())


def _macros(instance: Instance) -> str:
    """The macros that the kernel reads, under safe names and as they are; then its launch: grid, block, and bytes of
    dynamic shared memory; then the bytes of arrays whose size depends on the configuration, and of scratch arrays."""
    space, prefix = instance.space, identifier(instance.space.name).upper()
    defines, kernels = rendering.defines(instance), rendering.kernels_of(instance)
    text = "".join(f"#define {prefix}_VALUE_{name} {value}\n" for name, value in _DEFINE.findall(defines))
    if defines:
        text += f"#if {prefix}_MACROS\n{defines}#endif\n"
    steps = zip(space.steps, kernels, instance.geometries, strict=True)
    for number, (step, kernel, geometry) in enumerate(steps, start=1):
        own = prefix if len(space.steps) == 1 else f"{prefix}_STEP_{number}"
        if len(space.steps) > 1 or braces.names(step.kernel):
            text += f"#define {own}_KERNEL {kernel}\n"
        text += "".join(f"#define {own}_{name} {value}\n" for name, value in _launch(geometry).items())
    text += loop_macros.text(instance, prefix)
    for argument in space.operation.arguments:
        if argument.name in space.varying or argument.role == "scratch":
            text += f"#define {prefix}_BYTES_{argument.name} {instance.nbytes(argument.name)}\n"
    return text


def _launch(geometry: Geometry) -> dict[str, int]:
    values = {f"GRID_{axis}": extent for axis, extent in zip("XYZ", geometry.grid, strict=True)}
    values |= {f"BLOCK_{axis}": extent for axis, extent in zip("XYZ", geometry.block, strict=True)}
    values["SHARED_MEMORY"] = geometry.shared_memory
    if geometry.cluster != (1, 1, 1):
        values |= {f"CLUSTER_{axis}": extent for axis, extent in zip("XYZ", geometry.cluster, strict=True)}
    return values
