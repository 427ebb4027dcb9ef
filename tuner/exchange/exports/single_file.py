"""Export of one configuration's source as a file that compiles on its own."""

import re

from tuner import devices
from tuner.devices.cuda.common import STANDARD
from tuner.devices.host.compiler import OPTIONS
from tuner.errors import DeviceError, RequestError, TrialError
from tuner.exchange.exports import loop_lines
from tuner.exchange.exports.names import comment
from tuner.exchange.exports.request import Export, ExportRequest, write
from tuner.exchange.exports.target import CUBINS, Target, choose_target, targets_of
from tuner.languages import LANGUAGES
from tuner.quoting import shown
from tuner.space import kinds, structs
from tuner.space.argument import Argument
from tuner.space.chosen_types import dtype
from tuner.space.instance import Instance
from tuner.space.sources import rendering as sources
from tuner.space.sources.source import StepSource
from tuner.space.step import Geometry
from tuner.space.texts import config_text

# Without these, the compiler would build a different program from the measured one: single-threaded, for any CPU.
_FLAGS = {
    "c": ("cc", *(option for option in OPTIONS if option not in ("-shared", "-fPIC"))),
    "nvcc": ("nvcc", STANDARD),
}
_MAIN = re.compile(r"^\s*(?:int|void)\s+main\s*\(", re.MULTILINE)


def export(request: ExportRequest) -> Export:
    """Write the file for one device, or one architecture. Raises RequestError if there is no such device, several
    architectures are given, or the steps differ in source."""
    target = _target(request)
    suffix = LANGUAGES[target.scope.language].suffix
    return Export.of_targets([write(request.path(suffix), text(target))], [target])


def _target(request: ExportRequest) -> Target:
    if request.architectures is None:
        return choose_target(request.problem, request.device)
    about = f"--architecture {shown(request.architectures)}"
    if request.device is not None:
        raise RequestError(f"{about}: --to cu writes one file; give an architecture, or --device")
    if CUBINS not in devices.kinds_of(request.problem.space):
        raise RequestError(f"{about}: {request.problem.space.name} is not written in CUDA; give --device")
    (target, *more) = targets_of(request.problem, request.architectures)
    if more:
        raise RequestError(f"{about}: --to cu writes one file; give one architecture")
    return target


def text(target: Target) -> str:
    """The source that tuner and launcher compile, byte for byte, below a comment that says how to launch it."""
    problem, best, language = target.problem, target.best, LANGUAGES[target.scope.language]
    instance = Instance(problem.space, best.config, target.scope)
    steps = sources.render(instance)
    rendered = list(dict.fromkeys(step.source for step in steps))
    if len(rendered) > 1:
        files = ", ".join(path.name for path in problem.space.sources)
        raise RequestError(
            f"{problem.space.name}: its steps come from {files}; --to cu writes one file; use --to cubin"
        )
    device = target.device.name or target.device.architecture
    lines = [
        f"{problem.space.name} at {problem.code_text} for {device}: {best.match}.",
        config_text(best.config),
        *([f"The record is {best.record.doubt}."] if best.record and best.record.doubt else []),
    ]
    for step in steps:
        taken = [instance.argument(name) for name in step.arguments]
        described = [_described(argument, instance) for argument in taken if _is_parameter(argument, instance)]
        lines += [
            f"Entry point: {step.kernel}({', '.join(described)})",
            *_name_in_binary(target, step),
        ]
        if language.has_grid:
            geometry = step.geometry
            shared = f"{geometry.shared_memory} bytes of dynamic shared memory"
            most = "at most " if problem.space.order else ""
            lines.append(f"Launch: grid {most}{geometry.grid}, block {geometry.block}, {shared}{_special(geometry)}")
    lines += [
        f"Before each launch, copy {argument.name} ({_type(argument, instance)}) to the variable of this name"
        for argument in problem.space.operation.arguments
        if not _is_parameter(argument, instance)
    ]
    lines += loop_lines.lines(instance)
    compiler = rendered[0].compiler or target.scope.language
    if options := [*_FLAGS.get(compiler, ()), *rendered[0].options]:
        lines.append(f"Compile with: {' '.join(options)}{'' if language.has_grid else '; link with: -fopenmp -lm'}")
    if not language.has_grid and _MAIN.search(rendered[0].text):
        lines.append("The file has a main(): to link it with another program, add -Dmain=unused")
    return comment(*lines, "Written by `tune export --to cu`.") + rendered[0].text


def _is_parameter(argument: Argument, instance: Instance) -> bool:
    return argument.kind is None or argument.kind.is_taken(instance.scope)


def _described(argument: Argument, instance: Instance) -> str:
    name = argument.name
    if argument.kind is not None and not argument.kind.is_plain(instance.scope):
        settings = [f"{key} {value}" for key, value in kinds.settings(argument.kind, instance.scope).items()]
        kind = f"{argument.kind.name} {name}"
        return f"{kind} ({', '.join(settings)})" if settings else kind
    if argument.fields and not argument.dtype:
        return f"struct {name} of {structs.described(argument, instance.problem.language, instance.problem.types)}"
    if argument.role != "scratch":
        size = f" ({instance.nbytes(name)} bytes)" if name in instance.space.varying else ""
        return f"{_type(argument, instance)} {name}{size}"
    zeroed = {"never": "", "once": ", zero before the first launch", "each": ", zero before each launch"}
    size = f"{instance.nbytes(name)} bytes"
    return f"{_type(argument, instance)} {name} (scratch of {size}{zeroed[argument.zeroed]})"


def _type(argument: Argument, instance: Instance) -> str:
    if argument.fields:
        return argument.dtype or "struct"
    return f"{dtype(argument, instance.scope).name}{'' if argument.shape is None else ' *'}"


def _special(geometry: Geometry) -> str:
    cluster = f", cluster {geometry.cluster}" if geometry.cluster != (1, 1, 1) else ""
    words = [name for name in ("cooperative", "programmatic") if getattr(geometry, name)]
    return "".join([cluster, *(f", {word}" for word in words)])


def _name_in_binary(target: Target, step: StepSource) -> list[str]:
    """A line with the kernel's mangled C++ name; none if it is not mangled, or the source does not compile here."""
    backend = devices.BACKENDS[target.device.kind]
    if not backend.binaries or 'extern "C"' in step.source.text:
        return []
    try:
        build = devices.compiler_for(target.device.kind, target.device.architecture).build(step.source)
    except (TrialError, DeviceError):
        return []
    entry = build.entry(step.kernel)
    return [] if entry == step.kernel else [f"Its name in the binary: {entry}"]
