"""Stacks of matrices, and how they lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.devices.product import Matrices

CONTIGUOUS, TRANSPOSED, APART, OTHER = "contiguous", "transposed", "rows apart", "other"


@dataclass(frozen=True)
class Stack:
    """A stack of matrices as the product reads them: rows times columns, with strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    @property
    def lies(self) -> str:
        """How it lies in memory: `contiguous`, `transposed` (as contiguous stacks of the transposes), `rows apart` in
        either, or `other`."""
        _, rows, columns = self.shape
        if self._is_packed((rows * columns, columns, 1)):
            return CONTIGUOUS
        if self._is_packed((rows * columns, 1, rows)):
            return TRANSPOSED
        return APART if self.is_row_major or self._is_column_major else OTHER

    @property
    def is_row_major(self) -> bool:
        """Whether elements of a row lie together, and rows do not overlap."""
        _, rows, columns = self.shape
        _, row, column = self.strides
        return (column == 1 or columns == 1) and (rows == 1 or row >= columns)

    @property
    def is_apart(self) -> bool:
        """Whether no two elements share memory: along each axis a step leads beyond all that the axes with smaller
        steps reach."""
        reach = 0
        for step, extent in sorted((abs(step), n) for step, n in zip(self.strides, self.shape, strict=True) if n > 1):
            if step <= reach:
                return False
            reach += step * (extent - 1)
        return True

    @property
    def runs_forward(self) -> bool:
        """Whether each matrix begins behind the one before, or where that does."""
        return self.shape[0] == 1 or self.strides[0] >= 0

    @property
    def _is_column_major(self) -> bool:
        _, rows, columns = self.shape
        _, row, column = self.strides
        return (row == 1 or rows == 1) and (columns == 1 or column >= rows)

    @property
    def matrices(self) -> Matrices:
        """The same as rows in memory, which a library may take transposed."""
        _, rows, columns = self.shape
        stride, row, column = self.strides
        if self.is_row_major:
            return Matrices(row if rows > 1 else columns, stride)
        return Matrices(column if columns > 1 else rows, stride, is_transposed=True)

    def _is_packed(self, strides: tuple[int, ...]) -> bool:
        return all(n == 1 or own == needed for n, own, needed in zip(self.shape, self.strides, strides, strict=True))
