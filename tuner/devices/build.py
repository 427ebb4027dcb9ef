"""One configuration built: its source rendered, compiled or found in the cache, and held against the limits."""

from __future__ import annotations

from tuner.devices import figures
from tuner.devices.compiler import Build, Compiler
from tuner.space import source
from tuner.space.model import Config, Scope, Space
from tuner.space.source import Source


def build(compiler: Compiler, space: Space, config: Config, scope: Scope) -> tuple[Source, Build]:
    """Source and build of one configuration.

    Raises GeometryError, BuildError, or ResourceError where the device could not launch it; no device is asked.
    """
    text = source.render(space, config, scope)
    binary = compiler.build(text)
    figures.check(binary.figures, text.geometry, scope.limits)
    return text, binary
