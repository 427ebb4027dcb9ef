"""Layouts: how the elements of an array lie in memory, one after the other, or in rows with padding behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.classes import dataclass
from tuner.measure.answers.poison import INPUT_GUARD, OUTPUT_GUARD
from tuner.space import operation, strides
from tuner.space.chosen_types import dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.devices.base import Array
    from tuner.space.argument import Argument
    from tuner.space.scope import Scope


@dataclass(frozen=True)
class RowLayout:
    """The layout of one array: `steps` are its strides in bytes, `nbytes` includes the padding, `guard` is the byte of
    which padding consists."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    element: np.dtype[Any]
    nbytes: int
    guard: int

    @staticmethod
    def of(argument: Argument, scope: Scope, leading: Mapping[str, int]) -> RowLayout:
        """The layout of an array with these leading dimensions. Without any, it is contiguous."""
        shape, element = operation.shape(argument, scope), dtype(argument, scope)
        steps = strides.contiguous(shape)
        if leading and argument.strides:
            steps = strides.of(argument, {**scope.sizes, **leading})
        elements = max(strides.span(shape, steps), shape[0] * steps[0]) if shape else 1
        guard = OUTPUT_GUARD if argument.role != "in" else INPUT_GUARD
        return RowLayout(
            shape, tuple(step * element.itemsize for step in steps), element.numpy, elements * element.itemsize, guard
        )

    @property
    def is_contiguous(self) -> bool:
        return self.nbytes == int(np.prod(self.shape, dtype=np.int64)) * self.element.itemsize

    def spread(self, elements: Array) -> Array:
        """The bytes of memory that holds these elements, with the guard between its rows."""
        contiguous = np.ascontiguousarray(elements).reshape(-1)
        if self.is_contiguous:
            return contiguous.view(np.uint8)
        memory = np.full(self.nbytes, self.guard, np.uint8)
        self._rows(memory)[...] = contiguous.view(self._bits).reshape(self.shape)
        return memory

    def gathered(self, memory: Array) -> Array:
        """The elements in memory, one after the other: the memory itself if they lie so."""
        if not self.is_contiguous:
            memory = np.ascontiguousarray(self._rows(memory)).reshape(-1)
        return memory.view(self.element).reshape(self.shape)

    def is_damaged(self, memory: Array) -> bool:
        """Whether something was written between the rows."""
        if self.is_contiguous:
            return False
        padding = memory.copy()
        self._rows(padding)[...] = np.full(self.element.itemsize, self.guard, np.uint8).view(self._bits)[0]
        return not (padding == self.guard).all()

    @property
    def _bits(self) -> np.dtype[Any]:
        return np.dtype(f"V{self.element.itemsize}")  # which moves bits, whatever they mean

    def _rows(self, memory: Array) -> Array:
        return np.ndarray(self.shape, self._bits, memory, strides=self.steps)
