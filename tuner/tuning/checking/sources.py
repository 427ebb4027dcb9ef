"""Two sources of a kernel: the earlier one as it can take part beside the present one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.space.config import Config
from tuner.space.default import declared_or_first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tuner.space.argument import Argument
    from tuner.space.model import Space
    from tuner.space.scope import Scope
    from tuner.store.record import Record


class Incomparable(Exception):
    """Two sources cannot run on the same arrays; `str()` says why."""


def adapted(earlier: Space, now: Space) -> Space:
    """The earlier source with the inputs, the reference and the tolerance of `now`, so that both do the same work.

    Raises Incomparable if its arrays, sizes, options or types are others.
    """
    old, new = earlier.operation, now.operation
    for what, one, other in (
        ("sizes", [*old.sizes], [*new.sizes]),
        ("options", sorted(old.options), sorted(new.options)),
        ("types", dict(old.types), dict(new.types)),
        ("arrays", [*map(_declared, old.arrays)], [*map(_declared, new.arrays)]),
        ("constants", old.constants, new.constants),
        ("languages", sorted(earlier.languages), sorted(now.languages)),
    ):
        if one != other:
            raise Incomparable(f"its {what} were others")
    depends = (earlier.varying | now.varying) & {a.name for a in new.arrays}
    if depends and (earlier.parameters, earlier.derived) != (now.parameters, now.derived):
        raise Incomparable("its arrays depend on parameters, which have changed")
    arrays = {argument.name: argument for argument in new.arrays}
    arguments = tuple(arrays.get(argument.name, argument) for argument in old.arguments)
    operation = replace(new, extent=old.extent, arguments=arguments, loop_names=old.loop_names)
    return replace(earlier, operation=operation)


def _declared(argument: Argument) -> tuple[object, ...]:
    """What a launch passes for an array, whatever it holds."""
    return argument.name, argument.dtype, argument.shape, argument.role, argument.strides, argument.kind


def chosen(space: Space, scope: Scope, records: Iterable[Record]) -> Config:
    """The configuration that records of one problem give a source: the first that is valid, of their best and
    runners-up; if none is, the default, or the first valid one. Raises NoConfiguration."""
    for record in records:
        for config in record.configs:
            if space.valid(config, scope):
                return config
    return declared_or_first(space, scope)
