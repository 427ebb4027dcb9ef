"""The source of one configuration as a file that compiles alone."""

from __future__ import annotations

from tuner.exchange.formats import Export, ExportRequest, write
from tuner.exchange.names import comment
from tuner.exchange.target import Target, choose
from tuner.languages import LANGUAGES
from tuner.space import source
from tuner.space.model import config_text, size_text


def export(request: ExportRequest) -> Export:
    """Write the file for one device. Raises RequestError."""
    target = choose(request.problem, request.device)
    suffix = LANGUAGES[target.scope.language].suffix
    return Export.of_targets([write(request.path(suffix), text(target))], [target])


def text(target: Target) -> str:
    """What tuner and launcher compile, byte for byte, under a comment that says how to launch it."""
    problem, found, scope = target.problem, target.found, target.scope
    made = source.render(problem.space, found.config, scope)
    geometry = made.geometry
    arguments = ", ".join(
        f"{a.dtype}{'' if a.shape is None else ' *'} {a.name}" for a in problem.space.operation.arguments
    )
    launch = [
        f"{problem.space.name} at {size_text(problem.sizes)} for {target.device.name}: {found.match}.",
        config_text(found.config),
        f"Entry point: {made.kernel}({arguments})",
    ]
    if LANGUAGES[scope.language].has_grid:
        shared = f"{geometry.shared_memory} bytes of dynamic shared memory"
        launch.append(f"Launch: grid {geometry.grid}, block {geometry.block}, {shared}")
    if made.options:
        launch.append(f"Compile with: {' '.join(made.options)}")
    return comment(*launch, "Written by `tune export --to cu`.") + made.text
