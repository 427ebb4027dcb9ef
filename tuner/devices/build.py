"""The build of one configuration: render its source, compile it or read the cache, check it against the limits."""

from tuner.devices import figures
from tuner.devices.compiler import Build, Compiler
from tuner.space.model import Config, Space
from tuner.space.scope import Scope
from tuner.space.source import Source, render


def build(compiler: Compiler, space: Space, config: Config, scope: Scope) -> tuple[Source, Build]:
    """Source and build of one configuration. Needs no device.

    Raises GeometryError, BuildError, or ResourceError if the device could not launch it.
    """
    source = render(space, config, scope)
    build = compiler.build(source)
    figures.check(build.figures, source.geometry, scope.limits)
    return source, build
