"""The source of one configuration, as a file that compiles alone."""

from tuner import devices
from tuner.errors import DeviceError, RequestError, TrialError
from tuner.exchange.formats import Export, ExportRequest, write
from tuner.exchange.names import comment
from tuner.exchange.target import Target, choose_target
from tuner.languages import LANGUAGES
from tuner.space import source as sources
from tuner.space.chosen_types import dtype
from tuner.space.model import Argument, Geometry
from tuner.space.scope import Scope
from tuner.space.source import StepSource
from tuner.space.texts import config_text, problem_text


def export(request: ExportRequest) -> Export:
    """Write the file for one device. Raises RequestError."""
    target = choose_target(request.problem, request.device)
    suffix = LANGUAGES[target.scope.language].suffix
    return Export.of_targets([write(request.path(suffix), text(target))], [target])


def text(target: Target) -> str:
    """The text that tuner and launcher compile, byte for byte, under a comment that says how to launch it."""
    problem, best, language = target.problem, target.best, LANGUAGES[target.scope.language]
    steps = sources.render(problem.space, best.config, target.scope)
    rendered = list(dict.fromkeys(step.source for step in steps))
    if len(rendered) > 1:
        files = ", ".join(path.name for path in problem.space.sources)
        raise RequestError(
            f"{problem.space.name}: its steps come from {files}; --to cu writes one file; use --to cubin"
        )
    scope = problem.space.at(best.config, target.scope)
    lines = [
        f"{problem.space.name} at {problem_text(problem.sizes, problem.types)} for {target.device.name}: {best.match}.",
        config_text(best.config),
        *([f"The record is {best.record.doubt}."] if best.record and best.record.doubt else []),
    ]
    arguments = {argument.name: argument for argument in problem.space.operation.arguments}
    for step in steps:
        taken = [arguments[name] for name in step.arguments]
        lines += [
            f"Entry point: {step.kernel}({', '.join(_described(argument, scope) for argument in taken)})",
            *_name_in_binary(target, step),
        ]
        if language.has_grid:
            geometry = step.geometry
            shared = f"{geometry.shared_memory} bytes of dynamic shared memory"
            lines.append(f"Launch: grid {geometry.grid}, block {geometry.block}, {shared}{_special(geometry)}")
    if rendered[0].options:
        lines.append(f"Compile with: {' '.join(rendered[0].options)}")
    return comment(*lines, "Written by `tune export --to cu`.") + rendered[0].text


def _described(argument: Argument, scope: Scope) -> str:
    if argument.kind is not None:
        return f"{argument.kind.name} {argument.name}"
    scratch = " (scratch)" if argument.role == "scratch" else ""
    return f"{dtype(argument, scope).name}{'' if argument.shape is None else ' *'} {argument.name}{scratch}"


def _special(geometry: Geometry) -> str:
    cluster = f", cluster {geometry.cluster}" if geometry.cluster != (1, 1, 1) else ""
    return cluster + (", cooperative" if geometry.cooperative else "")


def _name_in_binary(target: Target, step: StepSource) -> list[str]:
    """A line with the name that C++ gives the kernel, where there is one and the build is there or can be made."""
    backend = devices.BACKENDS[target.device.kind]
    if not backend.binaries or 'extern "C"' in step.source.text:
        return []
    try:
        build = devices.compiler_for(target.device.kind, target.device.architecture).build(step.source)
    except (TrialError, DeviceError):
        return []
    entry = build.entry(step.kernel)
    return [] if entry == step.kernel else [f"Its name in the binary: {entry}"]
