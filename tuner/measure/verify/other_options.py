"""Other options than a problem's own: a kernel that ignores one, or rounds it, is right with its default."""

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
    """`scope` with other values of all options that may differ; None where none may.

    They are among `known`, whose effect the reference knows; no shape depends on them; and the kernel's arguments hold
    the other values.
    """
    types = {a.name: dtype(a, scope) for a in op.scalars}
    in_shapes = {name for a in op.arrays for extent in a.shape or () for name in extent.names}
    options: dict[str, float] = {}
    for name, value in scope.options.items():
        held = types.get(name)
        other = _other(value, held.kind if held else None)
        if name in known and name not in in_shapes and (held is None or held.holds(other)):
            options[name] = other
    return replace(scope, options={**scope.options, **options}) if options else None


def _other(option: float, kind: Kind | None) -> float:
    """Another value than `option`, of its sign and size where it has one; one that float32 rounds."""
    if kind == "boolean":
        return 1 - option
    if option in (0, 1):  # at which a kernel may leave it out
        return option + (2 if kind == "integer" else 0.3)
    return option + 1 if kind == "integer" else option * 1.3
