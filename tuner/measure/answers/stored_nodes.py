"""The nodes of formulas that kernels of their own compute: matrix products, reductions, filters and running sums."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from tuner.measure.answers.formula_nodes import Node, NoFormula, Operands, Stored, Values, places_of, strides_of

if TYPE_CHECKING:
    from tuner.devices.base import Array


class StoredProduct(Stored):
    """The product of two matrices, or of two batches of as many matrices."""

    def __init__(self, left: Node, right: Node) -> None:
        if len(left.shape) != len(right.shape) or len(left.shape) not in (2, 3):
            raise NoFormula
        (*batch, self.rows, self.inner), (*other, depth, self.columns) = left.shape, right.shape
        if (batch, self.inner) != (other, depth):
            raise NoFormula
        self.parts, self.batch, self.shape = (left, right), math.prod(batch), (*batch, self.rows, self.columns)
        self.bounded(_most_of_sum(self.inner, left, right))

    @property
    def work(self) -> int:
        """The number of multiplications."""
        return self.size * self.inner

    def factors(self, number: int, values: Values) -> tuple[Array, Array]:
        """The factors of whose products element `number` is the sum."""
        left, right = self.parts
        row, column = divmod(number, self.columns)
        steps = np.arange(self.inner)
        batch = row // self.rows
        return left.at(row * self.inner + steps, values), right.at(
            (batch * self.inner + steps) * self.columns + column, values
        )


class Fold(Stored, ABC):
    """Each element combines `extent` terms: it is their sum, or the largest or smallest of them.

    `kind` is "sum", "max" or "min".
    """

    kind: str
    extent: int

    @abstractmethod
    def term(self, output: str, number: str, operands: Operands) -> str:
        """The C text of a term, given the numbers of the element and of the term."""

    @abstractmethod
    def terms_at(self, output: Array, number: Array, values: Values) -> Array:
        """The same terms, computed on the host."""


class Reduced(Fold):
    """A reduction of one dimension, or of all."""

    def __init__(self, kind: str, node: Node, axis: int | None, keepdims: bool) -> None:
        extents = node.shape
        if axis is None:
            self._inner, self.extent = 1, node.size
            self.shape = (1,) * len(extents) if keepdims else ()
        else:
            axis = range(len(extents))[axis]
            self._inner, self.extent = math.prod(extents[axis + 1 :]), extents[axis]
            self.shape = (*extents[:axis], *([1] * keepdims), *extents[axis + 1 :])
        if not self.extent:
            raise NoFormula
        self.kind, self.parts = kind, (node,)
        self.bounded(_most_of_sum(self.extent, node) if kind == "sum" else node.most)

    def term(self, output: str, number: str, operands: Operands) -> str:
        place = f"({output} * {self.extent}l + {number})"
        if self._inner > 1:
            inner = f"{self._inner}l"
            place = f"(({output} / {inner} * {self.extent}l + {number}) * {inner} + {output} % {inner})"
        return self.parts[0].text(place, operands)

    def terms_at(self, output: Array, number: Array, values: Values) -> Array:
        row, column = np.divmod(output, self._inner)
        return self.parts[0].at((row * self.extent + number) * self._inner + column, values)


class Correlated(Fold):
    """The correlation of an array with a smaller one, where that lies inside; the convolution if it `is_flipped`."""

    kind = "sum"

    def __init__(self, array: Node, other: Node, is_flipped: bool) -> None:
        pairs = list(zip(array.shape, other.shape, strict=False))
        if not array.shape or len(array.shape) != len(other.shape) or any(not 0 < o <= a for a, o in pairs):
            raise NoFormula
        self.parts, self._is_flipped = (array, other), is_flipped
        self.shape, self.extent = tuple(a - o + 1 for a, o in pairs), other.size
        self.bounded(_most_of_sum(self.extent, array, other))

    def term(self, output: str, number: str, operands: Operands) -> str:
        array, other = self.parts
        strides = zip(
            places_of(output, self.shape), places_of(number, other.shape), strides_of(array.shape), strict=True
        )
        place = " + ".join(f"({first} + {further}) * {stride}l" for first, further, stride in strides)
        factor = f"({self.extent - 1}l - {number})" if self._is_flipped else number
        return f"TIMES({array.text(f'({place})', operands)}, {other.text(factor, operands)})"

    def terms_at(self, output: Array, number: Array, values: Values) -> Array:
        array, other = self.parts
        firsts, steps = np.unravel_index(output, self.shape), np.unravel_index(number, other.shape)
        place = sum((f + s) * stride for f, s, stride in zip(firsts, steps, strides_of(array.shape), strict=True))
        factor = self.extent - 1 - number if self._is_flipped else number
        return array.at(np.asarray(place), values) * other.at(factor, values)


class Bins(Fold):
    """How many elements of an array are 0, 1, and so on, below `length`. No element may be another number."""

    kind = "sum"

    def __init__(self, array: Node, length: int) -> None:
        least, most = getattr(array, "least", -1), array.most
        if most is None or not 0 <= least <= most < length or not array.size:
            raise NoFormula
        self.parts, self.extent, self.shape = (array,), array.size, (length,)
        self.bounded(array.size)

    def term(self, output: str, number: str, operands: Operands) -> str:
        return f"({self.parts[0].text(number, operands)} == (double){output} ? 1.0 : 0.0)"

    def terms_at(self, output: Array, number: Array, values: Values) -> Array:
        return np.where(self.parts[0].at(number, values) == output, 1.0, 0.0)


class Chunks(Fold):
    """The sums of `extent` neighbours each of a vector."""

    kind = "sum"

    def __init__(self, node: Node, extent: int) -> None:
        self.parts, self.extent, self.shape = (node,), extent, (-(-node.size // extent),)

    def term(self, output: str, number: str, operands: Operands) -> str:
        place, (node,) = f"({output} * {self.extent}l + {number})", self.parts
        return f"({place} < {node.size}l ? {node.text(place, operands)} : 0.0)"

    def terms_at(self, output: Array, number: Array, values: Values) -> Array:
        place, (node,) = output * self.extent + number, self.parts
        return np.where(place < node.size, node.at(np.minimum(place, node.size - 1), values), 0.0)


class Partial(Fold):
    """Combines what a fold's kernel has stored: `extent` values for each of its elements."""

    def __init__(self, fold: Fold, extent: int) -> None:
        self.kind, self.extent, self.shape = fold.kind, extent, fold.shape
        self.stored = _Part((fold.size * extent,))
        self.parts = (self.stored,)

    def term(self, output: str, number: str, operands: Operands) -> str:
        return self.stored.text(f"{output} * {self.extent}l + {number}", operands)

    def terms_at(self, output: Array, number: Array, values: Values) -> Array:
        return self.stored.at(output * self.extent + number, values)


class _Part(Stored):
    """The values that a kernel has stored for a `Partial`."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class Cumulated(Stored):
    """The running sums of a vector, which `chunks` divides."""

    CHUNK = 256

    def __init__(self, node: Node) -> None:
        if len(node.shape) != 1 or not node.size:
            raise NoFormula
        self.shape, self.chunks = node.shape, Chunks(node, self.CHUNK)
        self.bounded(_most_of_sum(node.size, node))
        self.parts = (node, self.chunks)


def _most_of_sum(count: int, *factors: Node) -> float | None:
    """The greatest magnitude of a sum of `count` products of whole numbers; None if a factor is not whole."""
    most = [node.most for node in factors if node.most is not None]
    return count * math.prod(most) if len(most) == len(factors) else None
