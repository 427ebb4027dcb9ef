"""The nodes of formulas: the C text of any element, and its value on the host.

The elements of most nodes have a C text, so that one kernel computes a whole tree of them. An `Operand` is read from
memory. All nodes hold doubles. A whole node holds integers, as NumPy would; doubles hold them exactly.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.measure.kernels.element_text import value_text
from tuner.space.dtypes import DTYPES, DType
from tuner.space.values.drawing import Drawn
from tuner.space.values.elements import Elements, Held
from tuner.space.values.rounded import Rounded

if TYPE_CHECKING:
    from tuner.devices.base import Array

Values = Callable[["Node", "Array"], "Array"]  # the elements of a stored node that have these numbers
MOST_TEXT = 1 << 15  # characters of a formula
MOST_WHOLE = 2.0**53  # magnitude below which doubles hold all integers


class NoFormula(Exception):
    """An expression does not have the form that a device can evaluate."""


@dataclass
class Operands:
    """The arrays and numbers that the text of a kernel reads: a0, a1, ... and s0, s1, ...

    `elsewhere` are the arrays of which the text of element i may read other elements than element i.
    """

    arrays: list[Input | Stored] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    elsewhere: set[Input | Stored] = field(default_factory=set)

    def element(self, array: Input | Stored, index: str) -> str:
        """The C text of an element of an array."""
        if array not in self.arrays:
            self.arrays.append(array)
        if index != "i":
            self.elsewhere.add(array)
        return f"a{self.arrays.index(array)}[{index}]"

    def number(self, value: float) -> str:
        """The C text of a number."""
        texts = [*map(repr, self.numbers)]  # 0.0 and -0.0 are equal
        if repr(value) not in texts:
            self.numbers.append(value)
            texts.append(repr(value))
        return f"s{texts.index(repr(value))}"


class Node(ABC):
    """The elements of an array of doubles."""

    shape: tuple[int, ...]
    parts: tuple[Node, ...] = ()
    most: float | None = None  # of a whole node, a magnitude that no element exceeds

    def bounded(self, most: float | None) -> None:
        """Set `most`. Raises NoFormula if doubles do not hold all integers up to it."""
        if most is not None and not most < MOST_WHOLE:
            raise NoFormula
        self.most = most

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @abstractmethod
    def text(self, index: str, operands: Operands) -> str:
        """The C text of an element, given that of its number in row-major order."""

    @abstractmethod
    def at(self, index: Array, values: Values) -> Array:
        """The elements with the numbers `index`, computed on the host."""

    def all(self) -> list[Node]:
        """This node and all that it is computed from, each once."""
        return list(dict.fromkeys([node for part in self.parts for node in part.all()] + [self]))


class Input(Node):
    """An array of the problem. `least`: no element of an array of integers is less."""

    least: float = -math.inf

    def __init__(self, name: str, elements: Elements) -> None:
        self.name, self.elements, self.shape = name, elements, elements.shape
        if self.dtype.kind not in ("real", "integer"):
            raise NoFormula
        if self.dtype.is_exact:
            self.least, greatest = _ends(elements)
            self.bounded(max(-self.least, greatest))

    @property
    def dtype(self) -> DType:
        """The type of its elements in memory."""
        return self.elements.element

    @property
    def placed(self) -> Elements:
        """The elements that are placed on the device, where the text rounds them."""
        return self.elements.base if isinstance(self.elements, Rounded) else self.elements

    def text(self, index: str, operands: Operands) -> str:
        value = value_text(self.dtype, operands.element(self, index))
        return f"rounded_to({value}, {self.elements.digits})" if isinstance(self.elements, Rounded) else value

    def at(self, index: Array, values: Values) -> Array:
        return self.elements.at(index.reshape(-1)).astype(np.float64).reshape(index.shape)


class Stored(Node):
    """A node that is computed by a kernel of its own, and then read from memory."""

    dtype = DTYPES["float64"]

    def text(self, index: str, operands: Operands) -> str:
        return f"{self.dtype.name}_value({operands.element(self, index)})"

    def at(self, index: Array, values: Values) -> Array:
        return values(self, index)


class Number(Node):
    """A number that follows from sizes and options."""

    def __init__(self, value: float | np.integer[Any] | np.floating[Any]) -> None:
        self.value, self.shape = float(value), ()
        self.bounded(abs(float(value)) if isinstance(value, int | np.integer) else None)

    def text(self, index: str, operands: Operands) -> str:
        return operands.number(self.value)

    def at(self, index: Array, values: Values) -> Array:
        return np.full(index.shape, self.value)


class Elementwise(Node):
    """A function of elements of the same number. `form` is its C text with {} for each of them.

    `whole` is the greatest magnitude of a result, given those of whole operands; None if the result is not whole.
    """

    def __init__(
        self, form: str, function: Callable[..., Any], *nodes: Node, whole: Callable[..., float] | None = None
    ) -> None:
        try:
            self.shape = np.broadcast_shapes(*(node.shape for node in nodes))
        except ValueError:
            raise NoFormula from None
        self._form, self._function = form, function
        most = [node.most for node in nodes]
        self.bounded(whole(*most) if whole is not None and None not in most else None)
        self.parts = tuple(_broadcast(node, self.shape) for node in nodes)

    def text(self, index: str, operands: Operands) -> str:
        text = self._form.format(*(part.text(index, operands) for part in self.parts))
        if len(text) > MOST_TEXT:
            raise NoFormula
        return text

    def at(self, index: Array, values: Values) -> Array:
        with np.errstate(all="ignore"):
            value: Array = self._function(*(part.at(index, values) for part in self.parts))
        return value


class View(Node):
    """Elements of another node: their numbers there are affine functions of the indices here.

    strides: for each dimension, the distance between neighbours, in elements of the other node.
    offset: the number of the first element there.
    """

    def __init__(self, node: Node, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> None:
        self.parts, self.shape, self.most = (node,), tuple(shape), node.most
        self._strides, self._offset = tuple(strides), offset

    def text(self, index: str, operands: Operands) -> str:
        (node,) = self.parts
        moved = [(place, stride) for place, stride in zip(places_of(index, self.shape), self._strides, strict=True)]
        terms = [f"{place} * {stride}l" for place, stride in moved if place != "0l" and stride]
        return node.text(f"({' + '.join([f'{self._offset}l', *terms])})", operands)

    def at(self, index: Array, values: Values) -> Array:
        (node,) = self.parts
        places = np.unravel_index(index, self.shape) if self.shape else ()
        return node.at(
            sum((p * s for p, s in zip(places, self._strides, strict=True)), index * 0 + self._offset), values
        )


class Reshaped(Node):
    """The same elements in another shape."""

    def __init__(self, node: Node, shape: Sequence[int]) -> None:
        self.parts, self.shape, self.most = (node,), tuple(shape), node.most
        if self.size != node.size:
            raise NoFormula

    def text(self, index: str, operands: Operands) -> str:
        return self.parts[0].text(index, operands)

    def at(self, index: Array, values: Values) -> Array:
        return self.parts[0].at(index, values)


class Padded(Node):
    """An array with a border that holds a value; `before` and `after` are its widths in each dimension."""

    def __init__(self, node: Node, before: Sequence[int], after: Sequence[int], value: float) -> None:
        self.parts, self._before, self._value = (node,), before, value
        self.shape = tuple(b + extent + a for b, extent, a in zip(before, node.shape, after, strict=True))
        if node.most is not None:
            if not value.is_integer():  # NumPy would cut it off
                raise NoFormula
            self.bounded(max(node.most, abs(value)))

    def text(self, index: str, operands: Operands) -> str:
        (node,) = self.parts
        places = [f"({p} - {b}l)" for p, b in zip(places_of(index, self.shape), self._before, strict=True)]
        inside = [f"{place} >= 0 && {place} < {extent}l" for place, extent in zip(places, node.shape, strict=True)]
        number = " + ".join(f"{p} * {s}l" for p, s in zip(places, strides_of(node.shape), strict=True))
        return f"({' && '.join(inside)} ? {node.text(f'({number})', operands)} : {operands.number(self._value)})"

    def at(self, index: Array, values: Values) -> Array:
        (node,) = self.parts
        places = [p - b for p, b in zip(np.unravel_index(index, self.shape), self._before, strict=True)]
        inside = np.logical_and.reduce([(p >= 0) & (p < e) for p, e in zip(places, node.shape, strict=True)])
        number = sum(np.where(inside, p, 0) * s for p, s in zip(places, strides_of(node.shape), strict=True))
        return np.where(inside, node.at(np.asarray(number), values), self._value)


def _ends(integers: Elements) -> tuple[float, float]:
    """Numbers between which all elements of an array of integers lie."""
    if isinstance(integers, Drawn):
        return integers.draw.ends(integers.element)
    if isinstance(integers, Held) and integers.size:
        return int(integers.array().min()), int(integers.array().max())
    return integers.element.low, integers.element.high


def _broadcast(node: Node, shape: tuple[int, ...]) -> Node:
    if node.shape == shape or node.size == 1:
        return node if node.shape == shape or isinstance(node, Number) else View(node, shape, (0,) * len(shape))
    own = (1,) * (len(shape) - len(node.shape)) + node.shape
    return View(node, shape, [s if extent > 1 else 0 for extent, s in zip(own, strides_of(own), strict=True)])


def strides_of(shape: Sequence[int]) -> list[int]:
    """The distances between neighbours in each dimension, in elements, in row-major order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def places_of(index: str, shape: Sequence[int]) -> list[str]:
    """The C texts of the indices in each dimension, given that of an element's number."""
    places = list[str]()
    for axis, (extent, stride) in enumerate(zip(shape, strides_of(shape), strict=True)):
        place = index if stride == 1 else f"{index} / {stride}l"
        places.append("0l" if extent == 1 else f"({place})" if axis == 0 else f"({place} % {extent}l)")
    return places
