"""Other option values than the problem's own, for verification.

A kernel that ignores or rounds an option may be right with its default value.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.space.chosen_types import dtype

if TYPE_CHECKING:
    from tuner.space.dtypes import Kind
    from tuner.space.model import Operation
    from tuner.space.scope import Scope


def varied(op: Operation, scope: Scope, known: Collection[str]) -> Scope | None:
    """`scope` with other values of all options that may differ; None if none may.

    An option may differ if it is in `known`, the options that the reference takes into account; if no shape depends on
    it; and if the kernel's argument can hold the other value.
    """
    types = {a.name: dtype(a, scope) for a in op.scalars}
    in_shapes = {name for a in op.arrays for extent in a.shape or () for name in extent.names}
    options: dict[str, float] = {}
    for name, value in scope.options.items():
        argument_type = types.get(name)
        other = _other(value, argument_type.kind if argument_type else None)
        if name in known and name not in in_shapes and (argument_type is None or argument_type.holds(other)):
            options[name] = other
    return replace(scope, options={**scope.options, **options}) if options else None


def _other(option: float, kind: Kind | None) -> float:
    """Another value than `option`, of the same sign and similar size, that float32 cannot represent exactly."""
    if kind == "boolean":
        return 1 - option
    if option in (0, 1):  # values with which a kernel may ignore the option
        return option + (2 if kind == "integer" else 0.3)
    return option + 1 if kind == "integer" else option * 1.3
