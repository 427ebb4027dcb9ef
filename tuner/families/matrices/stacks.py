"""Stacks of matrices, and their layout in memory."""

from __future__ import annotations

from tuner.classes import dataclass
from tuner.devices.product import Matrices

CONTIGUOUS, TRANSPOSED, STRIDED, OTHER = "contiguous", "transposed", "strided rows", "other strides"


@dataclass(frozen=True)
class Stack:
    """A stack of matrices as the product reads it: `shape` is [batch, rows, columns], `strides` are in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    @property
    def order(self) -> str:
        """Its layout: CONTIGUOUS; TRANSPOSED, a contiguous stack of the transposes; STRIDED, either one with padded
        rows or matrices; or OTHER."""
        _, rows, columns = self.shape
        if self._is_packed((rows * columns, columns, 1)):
            return CONTIGUOUS
        if self._is_packed((rows * columns, 1, rows)):
            return TRANSPOSED
        return STRIDED if self.is_row_major or self._is_column_major else OTHER

    @property
    def is_row_major(self) -> bool:
        """Whether each row is contiguous, and rows do not overlap."""
        _, rows, columns = self.shape
        _, row, column = self.strides
        return (column == 1 or columns == 1) and (rows == 1 or row >= columns)

    @property
    def is_disjoint(self) -> bool:
        """Whether no two elements share memory: the stride of each axis exceeds the extent of all axes with smaller
        strides."""
        reach = 0
        for step, extent in sorted((abs(step), n) for step, n in zip(self.strides, self.shape, strict=True) if n > 1):
            if step <= reach:
                return False
            reach += step * (extent - 1)
        return True

    @property
    def runs_forward(self) -> bool:
        """Whether no matrix begins before the previous one."""
        return self.shape[0] == 1 or self.strides[0] >= 0

    @property
    def _is_column_major(self) -> bool:
        _, rows, columns = self.shape
        _, row, column = self.strides
        return (row == 1 or rows == 1) and (columns == 1 or column >= rows)

    @property
    def matrices(self) -> Matrices:
        """The stack as row-major matrices, perhaps transposed, for the vendor library."""
        _, rows, columns = self.shape
        stride, row, column = self.strides
        if self.is_row_major:
            return Matrices(row if rows > 1 else columns, stride)
        return Matrices(column if columns > 1 else rows, stride, is_transposed=True)

    def _is_packed(self, strides: tuple[int, ...]) -> bool:
        """Whether the strides are these; those of axes of extent 1 do not matter."""
        return all(n == 1 or own == packed for n, own, packed in zip(self.shape, self.strides, strides, strict=True))
