"""The source of one configuration, as a file that compiles alone."""

from tuner import devices
from tuner.errors import DeviceError, TrialError
from tuner.exchange.formats import Export, ExportRequest, write
from tuner.exchange.names import comment
from tuner.exchange.target import Target, choose_target
from tuner.languages import LANGUAGES
from tuner.space import source as sources
from tuner.space.chosen_types import dtype
from tuner.space.source import Source
from tuner.space.texts import config_text, problem_text


def export(request: ExportRequest) -> Export:
    """Write the file for one device. Raises RequestError."""
    target = choose_target(request.problem, request.device)
    suffix = LANGUAGES[target.scope.language].suffix
    return Export.of_targets([write(request.path(suffix), text(target))], [target])


def text(target: Target) -> str:
    """The text that tuner and launcher compile, byte for byte, under a comment that says how to launch it."""
    problem, best, language = target.problem, target.best, LANGUAGES[target.scope.language]
    rendered = sources.render(problem.space, best.config, target.scope)
    operation, scope = problem.space.operation, target.scope
    arguments = (f"{dtype(a, scope).name}{'' if a.shape is None else ' *'} {a.name}" for a in operation.arguments)
    lines = [
        f"{problem.space.name} at {problem_text(problem.sizes, problem.types)} for {target.device.name}: {best.match}.",
        config_text(best.config),
        *([f"The record is {best.record.doubt}."] if best.record and best.record.doubt else []),
        f"Entry point: {rendered.kernel}({', '.join(arguments)})",
        *_name_in_binary(target, rendered),
    ]
    if language.has_grid:
        geometry = rendered.geometry
        shared = f"{geometry.shared_memory} bytes of dynamic shared memory"
        lines.append(f"Launch: grid {geometry.grid}, block {geometry.block}, {shared}")
    if rendered.options:
        lines.append(f"Compile with: {' '.join(rendered.options)}")
    return comment(*lines, "Written by `tune export --to cu`.") + rendered.text


def _name_in_binary(target: Target, source: Source) -> list[str]:
    """A line with the name that C++ gives the kernel, where there is one and the build is there or can be made."""
    backend = devices.BACKENDS[target.device.kind]
    if not backend.binaries or 'extern "C"' in source.text:
        return []
    try:
        entry = devices.compiler_for(target.device.kind, target.device.architecture).build(source).entry
    except (TrialError, DeviceError):
        return []
    return [f"Its name in the binary: {entry}"] if entry else []
