"""How the code of a kernel depends on sizes: what is compiled once may serve many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.errors import ExpressionError
from tuner.space.config import Config
from tuner.space.expressions import braces
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import rendering

MOST_KEPT = 4096
FACTOR = 1009  # sizes times a prime are odd, even, or multiples of a tile as they were, and are no others

Code = tuple[Any, ...]


class SizedCode:
    """The macros of a kernel whose values depend on sizes, and what names and options of the compiler take of these:
    equal ones make the same code."""

    def __init__(self, space: Space) -> None:
        self._space = space
        options = [option for options in space.compile_options.values() for option in options]
        in_braces = {name for text in (*options, *(step.kernel for step in space.steps)) for name in braces.names(text)}
        self._names = sorted((space.sized_names & space.derived.keys()) - (rendering.unused(space) - in_braces))
        self.parameters = space.parameters_behind(self._names)  # that they depend on
        self._kept: dict[tuple[Any, ...], Code] = {}

    def at(self, config: Config, scope: Scope, sizes: Sequence[int] | None = None) -> Code:
        """Their values in a configuration at a size: that of `scope`, or another one, in the same order."""
        if not self._names:
            return ()
        key = (*(scope.sizes.values() if sizes is None else sizes), *(config[name] for name in self.parameters))
        code = self._kept.get(key)
        if code is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            elsewhere = {} if sizes is None else dict(zip(scope.sizes, sizes, strict=True))
            code = self._kept[key] = self._evaluated({**elsewhere, **config}, scope)
        return code

    def is_for_one_size(self, config: Config, scope: Scope) -> bool:
        """Whether the code holds a size itself, and not only what kind of size it is."""
        if not self._names:
            return False
        return self.at(config, scope) != self.at(config, scope, [FACTOR * size for size in scope.sizes.values()])

    def _evaluated(self, config: Config, scope: Scope) -> Code:
        names = self._space.names(config, scope)
        try:
            return tuple([names[name] for name in self._names])
        except ExpressionError:
            return (object(),)  # equal to none
