"""Times at another size: what a configuration that was measured at one size probably takes at this one.

Blocks run in waves: as many at once as the device's multiprocessors hold. The last wave may be nearly empty, but takes
nearly as long as a full one. At another size, other configurations have the fullest last wave, so the order of the
measured times is a poor guide, although the time of a whole wave hardly changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tuner.errors import ExpressionError, SpaceError
from tuner.prediction.grids import parameters_of, work_of
from tuner.space.config import Config, Value
from tuner.space.instance import Instance
from tuner.space.scope import Scope

if TYPE_CHECKING:
    from tuner.space.model import Space

# The part of a multiprocessor's time per wave that does not depend on how many of the blocks that it can hold it has:
# each of fewer resident blocks runs faster, but together they hide less latency. Chosen on recordings of four kernels;
# from 0.05 to 0.3, it hardly matters.
FIXED = 0.25
LARGE = 64  # times both sizes: there, the rounding up of grids hardly matters, and products are still below 2**63


@dataclass(frozen=True)
class Shape:
    """The launch of a configuration's largest step: its number of blocks, and the threads of each."""

    blocks: int
    threads: int


@dataclass
class Conversion:
    """Converts times of one size, `measured`, to those of another one, `asked`, on the same device.

    units: the device's number of multiprocessors or cores.
    """

    space: Space
    measured: Scope
    asked: Scope
    units: int
    _shapes: dict[tuple[Value, ...], tuple[Shape, Shape, float] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        blocks = (name for step in self.space.steps for extent in step.block for name in extent.names)
        self._parameters = sorted({*parameters_of(self.space), *self.space.parameters_behind(blocks)})
        before, after = (work_of(self.space, scope)[0] for scope in (self.measured, self.asked))
        self._work = after / before if before > 0 and after > 0 else 1.0

    def time_ms(self, config: Config, time_ms: float, occupancy: float | None) -> float:
        """The probable time in ms; that at the measured size if the grids are unknown at one of the sizes.

        occupancy: the share of a multiprocessor's threads that the configuration can fill; None if it is unknown, which
            counts as one block.
        """
        key = tuple(config[name] for name in self._parameters)
        if key not in self._shapes:
            self._shapes[key] = self._computed(config)
        if (shapes := self._shapes[key]) is None:
            return time_ms
        measured, asked, growth = shapes
        resident = self._resident(measured, occupancy)
        waves = _waves(asked.blocks / self.units, resident) / _waves(measured.blocks / self.units, resident)
        return time_ms * waves * self._work / growth

    def _computed(self, config: Config) -> tuple[Shape, Shape, float] | None:
        """The shapes at both sizes, and the ratio of their numbers of blocks as it would be without rounding."""
        if self.space.order:  # of launches in a loop, which may be many
            return None
        try:
            measured, asked = self._shape(config, self.measured, 1), self._shape(config, self.asked, 1)
            growth = self._shape(config, self.asked, LARGE).blocks / self._shape(config, self.measured, LARGE).blocks
        except (ExpressionError, SpaceError, ArithmeticError, ValueError):
            return None
        return measured, asked, growth

    def _shape(self, config: Config, scope: Scope, times: int) -> Shape:
        sizes = {name: size * times for name, size in scope.sizes.items()}
        geometries = Instance(self.space, config, scope.at(sizes)).geometries
        shapes = [Shape(math.prod(each.grid), math.prod(each.block)) for each in geometries]
        return max(shapes, key=lambda shape: shape.blocks * shape.threads)

    def _resident(self, shape: Shape, occupancy: float | None) -> int:
        """How many blocks a multiprocessor holds."""
        limits = self.asked.limits
        warps = math.ceil(shape.threads / limits.warp_size)
        return max(1, round((occupancy or 0.0) * limits.multiprocessor_threads / (warps * limits.warp_size)))


def _waves(blocks: float, resident: int) -> float:
    """The time of a multiprocessor with so many blocks, of which it holds `resident` at once, in times of a full wave.

    The blocks are a mean over all multiprocessors; the slowest one has them rounded up.
    """
    full = math.floor(blocks / resident + 1e-9)
    rest = math.ceil(blocks - full * resident - 1e-9)
    return full + (FIXED + (1 - FIXED) * rest / resident if rest else 0.0)
