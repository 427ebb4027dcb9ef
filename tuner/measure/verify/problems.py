"""Whether kernels of two spaces may be measured on the same arrays."""

from __future__ import annotations

from dataclasses import replace

from tuner.space.computation import Operation
from tuner.space.model import Space
from tuner.space.values.forms import ExpressionReference


def are_equal(own: Space, other: Space) -> bool:
    """Whether two spaces solve the same problem: everything but scratch agrees, and neither shapes nor answers depend
    on a configuration."""
    return not _is_varied(own) and not _is_varied(other) and _problem(own) == _problem(other)


def _is_varied(space: Space) -> bool:
    """Whether shapes of arrays, or answers, may depend on the configuration."""
    arrays = {argument.name for argument in space.operation.arrays}
    return bool(space.varying & arrays) or not isinstance(space.operation.reference, ExpressionReference)


def _problem(space: Space) -> Operation:
    """The operation without what may differ between its kernels: scratch, arguments of special kinds, and extent."""
    op = space.operation
    arrays = tuple(a for a in op.arguments if a.role != "scratch" and (a.is_array or (a.shape is None and not a.kind)))
    return replace(op, arguments=arrays, extent=())
