"""Find out how a kernel's code depends on sizes, since one build may serve many sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tuner.errors import SpaceError, TrialError
from tuner.space.config import Config
from tuner.space.expressions import braces
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import rendering, source_text

MOST_CACHED = 4096
FACTOR = 1009  # a prime: sizes times it have the same parity and divisibility by tiles, but other values

Code = tuple[Any, ...]


class SizedCode:
    """The size-dependent macro values of a kernel, including those in kernel names and compiler options; of a kernel in
    a Python file, the digests of its sources.

    Two sizes with equal values share one build.
    """

    def __init__(self, space: Space) -> None:
        self._space, self._cache = space, dict[tuple[Any, ...], Code]()
        if space.python_language is not None:  # its code depends on whatever a compiler may assume of its arguments
            self._names, self.parameters = sorted(space.operation.sizes), list(space.parameters)
            return
        options = [option for options in space.compile_options.values() for option in options]
        in_braces = {name for text in (*options, *(step.kernel for step in space.steps)) for name in braces.names(text)}
        derived = (space.sized_names & space.derived.keys()) - (rendering.unused(space) - in_braces)
        self._names = sorted(derived | source_text.defined_sizes(space))
        self.parameters = space.parameters_behind(self._names)  # the parameters on which the values depend

    def values_at(self, config: Config, scope: Scope, sizes: Sequence[int] | None = None) -> Code:
        """The macro values of a configuration. `sizes`, in the operation's order, default to those of `scope`."""
        if not self._names:
            return ()
        key = (*(scope.sizes.values() if sizes is None else sizes), *(config[name] for name in self.parameters))
        code = self._cache.get(key)
        if code is None:
            if len(self._cache) >= MOST_CACHED:
                self._cache.clear()
            others = {} if sizes is None else dict(zip(scope.sizes, sizes, strict=True))
            code = self._cache[key] = self._evaluated({**others, **config}, scope)
        return code

    def is_for_one_size(self, config: Config, scope: Scope) -> bool:
        """Whether the code contains a size itself, and not only a property of it such as its parity."""
        if not self._names:
            return False
        multiplied = [FACTOR * size for size in scope.sizes.values()]
        return self.values_at(config, scope) != self.values_at(config, scope, multiplied)

    def _evaluated(self, config: Config, scope: Scope) -> Code:
        try:
            if self._space.python_language is not None:
                from tuner.space.instance import Instance  # other spaces need no instance

                own = {name: config[name] for name in self._space.parameters}
                sizes = {name: int(config.get(name, size)) for name, size in scope.sizes.items()}
                instance = Instance(self._space, own, replace(scope, sizes=sizes))
                return tuple(step.source.digest for step in rendering.render(instance))
            names = self._space.names(config, scope)
            return tuple([names[name] for name in self._names])
        except (SpaceError, TrialError):
            return (object(),)  # equal to no other
