"""The steps of a space, each a kernel launch, and their launch geometry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.quoting import shown
from tuner.space.expressions import Expression


@dataclass(frozen=True)
class Geometry:
    """The launch geometry of a step.

    grid: blocks (x, y, z).
    block: threads per block (x, y, z).
    shared_memory: dynamic shared memory per block, in bytes.
    cluster: blocks per cluster (x, y, z).
    cooperative: whether all blocks must be resident at once.
    programmatic: whether it may begin before the launch before it has ended.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_memory: int
    cluster: tuple[int, int, int] = (1, 1, 1)
    cooperative: bool = False
    programmatic: bool = False


Extents = tuple[Expression, Expression, Expression]


@dataclass(frozen=True)
class Step:
    """One kernel launch of a configuration.

    `arguments` are names, in the kernel's order. `kernel` may contain names in braces; see `braces`. If `when` is not
    true, the step is skipped.
    """

    kernel: str
    source: Path
    arguments: tuple[str, ...]
    grid: Extents
    block: Extents
    shared_memory: Expression
    cluster: Extents | None = None
    cooperative: bool = False
    programmatic: bool = False
    when: Expression | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of its geometry."""
        return (*self.grid, *self.block, self.shared_memory, *(self.cluster or ()))

    def blocks(self, names: Mapping[str, Any]) -> tuple[int, int, int]:
        """Its grid for these values of names. Raises ExpressionError if it cannot be launched."""
        if min(grid := _extents(self.grid, names)) < 1:
            raise ExpressionError(self._fault(names))
        return grid

    def geometry(self, names: Mapping[str, Any], grid: tuple[int, int, int] | None = None) -> Geometry:
        """Its geometry for these values of names. Raises ExpressionError if it cannot be launched at all.

        grid: the grid, if it follows from more than these names.
        """
        grid = grid or _extents(self.grid, names)
        block, cluster = (_extents(extents, names) for extents in (self.block, self.cluster or ()))
        shared = self.shared_memory.integer(names)
        if min(grid + block + cluster) < 1 or shared < 0:
            raise ExpressionError(self._fault(names))
        return Geometry(grid, block, shared, cluster, self.cooperative, self.programmatic)

    def _fault(self, names: Mapping[str, Any]) -> str:
        """What is too small in a geometry that cannot be launched."""
        return next(fault for extent in self.extents if (fault := extent.fault(names)) is not None)

    @property
    def extents(self) -> list[Extent]:
        """The numbers of its geometry."""
        fields = {"grid": self.grid, "block": self.block, "cluster": self.cluster or ()}
        named = {f"{field}.{axis}": each for field, extents in fields.items() for axis, each in enumerate(extents)}
        sizes = [Extent(f"{self.kernel}: {where}", expression, 1) for where, expression in named.items()]
        return [*sizes, Extent(f"{self.kernel}: shared_memory", self.shared_memory, 0)]


@dataclass(frozen=True)
class Extent:
    """A number of a geometry, which must be at least `least`. `where` names its step and key."""

    where: str
    expression: Expression
    least: int

    def fault(self, names: Mapping[str, Any]) -> str | None:
        """Why no kernel can be launched with its value; None if one can. Raises ExpressionError if it has no value."""
        value = self.expression.integer(names)
        if value >= self.least:
            return None
        return f"{self.where}: `{shown(self.expression.text)}` is {value}; at least {self.least} is needed"


def _extents(expressions: tuple[Expression, ...], names: Mapping[str, Any]) -> tuple[int, int, int]:
    x, y, z = (e.integer(names) for e in expressions) if expressions else (1, 1, 1)
    return x, y, z
