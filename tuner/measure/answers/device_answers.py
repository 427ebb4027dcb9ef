"""Answers of expressions, computed on the device.

Sums, differences, products and quotients of elements become one of our own kernels, in double precision. A matrix
product is the vendor library's, of copies in double precision: another implementation than the kernel under test. The
host recomputes a random sample of elements; if it disagrees, its answers are used.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tuner.devices.base import Device
from tuner.errors import DeviceError, ExpressionError, TunerError
from tuner.measure.answers.placing import Placed, Placer
from tuner.space.answers import reference
from tuner.space.dtypes import DTYPES, DType
from tuner.space.expressions import array_expressions
from tuner.space.expressions.evaluator import names_in
from tuner.space.values.elements import ON_DEVICE_BYTES, Elements
from tuner.space.values.rounded import Rounded

if TYPE_CHECKING:
    from tuner.devices.base import Array, Buffer
    from tuner.space.scope import Scope
    from tuner.space.values.forms import ExpressionReference

EXPENSIVE = 1 << 27  # multiplications in matrix products that take a host longer than a GPU takes to load its library
_SAMPLES = 16  # elements that the host recomputes
_CLOSE = 1e-12  # relative tolerance of these elements, which use the same operations, given the matrix products
_DIFFERENT = "computes other answers than the host"
_DOUBLE = DTYPES["float64"]


class _NoFormula(Exception):
    """An expression does not have the form that a device can evaluate."""


def answers(
    form: ExpressionReference, scope: Scope, contents: Mapping[str, Elements], placer: Placer
) -> tuple[dict[str, Elements], frozenset[str]] | None:
    """The answers of all outputs, and the names of the arrays that they depend on, as `reference.answers` returns them.

    None if the host must compute them: if arrays and work are small, if an expression does not have the required form,
    or if they do not fit on the device.
    """
    outputs = form.outputs
    if not placer.device.has_doubles:
        return None
    results: dict[str, Elements] = {}
    read: set[str] = set()
    try:
        formulas = {name: _formula(expression.tree, name, scope, contents) for name, expression in outputs.items()}
        is_expensive = sum(f.work for f in formulas.values()) >= EXPENSIVE or any(
            e.nbytes >= ON_DEVICE_BYTES for e in contents.values()
        )
        if not any(contents[name].nbytes >= ON_DEVICE_BYTES for name in formulas) and (
            placer.device.on_processor or not is_expensive
        ):
            return None
        for name, expression in outputs.items():
            formula = formulas[name]
            answer = _Answer(expression.tree, formula, contents, placer)
            results[name] = Placed(placer, contents[name].shape, answer.compute)
            read |= answer.read
    except (_NoFormula, TunerError, MemoryError):  # the host reports an error of the space file
        return None
    return results, frozenset(read)


@dataclass(frozen=True)
class _Matrix:
    """A matrix or batch of matrices; its last two dimensions are swapped if it `is_transposed`."""

    name: str
    elements: Elements
    is_transposed: bool

    @property
    def shape(self) -> tuple[int, ...]:
        *batch, rows, columns = self.elements.shape
        return (*batch, columns, rows) if self.is_transposed else self.elements.shape

    def at(self, batch: int, row: Array | int, column: Array | int) -> Array:
        """Elements as doubles."""
        rows, columns = self.elements.shape[-2:]
        first, second = (column, row) if self.is_transposed else (row, column)
        return self.elements.at((batch * rows + np.asarray(first)) * columns + second).astype(np.float64)


@dataclass(frozen=True)
class _Product:
    """A product of two matrices; `text` is its expression in the space file."""

    text: str
    left: _Matrix
    right: _Matrix


@dataclass
class _Formula:
    """A C formula over arrays, matrix products and scalars.

    It uses `operands` as a0, a1, ... and `scalars` as s0, s1, ...
    """

    scope: Scope
    contents: Mapping[str, Elements]
    shape: tuple[int, ...]
    text: str = ""
    operands: list[str | _Product] = field(default_factory=list)  # arrays by name, and products
    scalars: list[float] = field(default_factory=list)

    @property
    def work(self) -> int:
        """The number of multiplications in matrix products."""
        products = [operand for operand in self.operands if isinstance(operand, _Product)]
        return sum(math.prod(product.left.shape) * product.right.shape[-1] for product in products)

    def translate(self, node: ast.expr) -> str:
        """The C text of a node. Raises _NoFormula if it has none."""
        if not names_in(node) & self.contents.keys():
            return self._scalar(node)
        match node:
            case ast.Name(id=name):
                return self._array(name)
            case ast.IfExp(test=test, body=body, orelse=other) if not names_in(test) & self.contents.keys():
                return self.translate(body if array_expressions.walk(test, self.scope.answer_names) else other)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"(-{self.translate(operand)})"
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                return self._product(ast.unparse(node), self._matrix(left), self._matrix(right))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return f"PLUS({self.translate(left)}, {self.translate(right)})"
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return f"PLUS({self.translate(left)}, -{self.translate(right)})"
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return f"TIMES({self.translate(left)}, {self.translate(right)})"
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return f"({self.translate(left)} / {self.translate(right)})"
        raise _NoFormula

    def _scalar(self, node: ast.expr) -> str:
        value = array_expressions.walk(node, self.scope.answer_names)
        if not isinstance(value, int | float):
            raise _NoFormula
        self.scalars.append(float(value))
        return f"s{len(self.scalars) - 1}"

    def _array(self, name: str) -> str:
        elements = self.contents[name]
        if elements.shape != self.shape or elements.element.kind != "real":
            raise _NoFormula
        return _rounded(f"(double){elements.element.name}_value({self._operand(name)})", elements)

    def _matrix(self, node: ast.expr) -> _Matrix:
        match node:
            case ast.Name(id=name) if name in self.contents:
                matrix = _Matrix(name, self.contents[name], False)
            case ast.Call(func=ast.Name(id="transpose"), args=[ast.Name(id=name), axes], keywords=[]):
                matrix = _Matrix(name, self.contents[name], True)
                *first, last, last_but_one = array_expressions.walk(axes, self.scope.answer_names)
                count = len(matrix.elements.shape)
                if (*first, last_but_one, last) != tuple(range(count)):
                    raise _NoFormula
            case _:
                raise _NoFormula
        if len(matrix.elements.shape) not in (2, 3) or matrix.elements.element.kind != "real":
            raise _NoFormula
        return matrix

    def _product(self, text: str, left: _Matrix, right: _Matrix) -> str:
        (*batch, rows, inner), (*other, depth, columns) = left.shape, right.shape
        if (batch, inner) != (other, depth) or (*batch, rows, columns) != self.shape:
            raise _NoFormula
        return f"float64_value({self._operand(_Product(text, left, right))})"

    def _operand(self, operand: str | _Product) -> str:
        if operand not in self.operands:
            self.operands.append(operand)
        return f"a{self.operands.index(operand)}[i]"


def _formula(tree: ast.expr, name: str, scope: Scope, contents: Mapping[str, Elements]) -> _Formula:
    """The formula of the answer for `name`. Raises _NoFormula if there is none."""
    if name not in contents or contents[name].element.kind != "real":
        raise _NoFormula
    formula = _Formula(scope, contents, contents[name].shape)
    try:
        formula.text = formula.translate(tree)
    except (ExpressionError, ArithmeticError, TypeError, ValueError, LookupError, RecursionError):
        raise _NoFormula from None
    if not formula.operands:
        raise _NoFormula
    return formula


def _unrounded(elements: Elements) -> Elements:
    """The elements that are placed on the device, which rounds them itself if necessary."""
    return elements.base if isinstance(elements, Rounded) else elements


def _rounded(value: str, elements: Elements) -> str:
    """The C text of an element of `elements`, given that of an unrounded one, which is a double: floats would be added
    as floats."""
    return f"rounded_to({value}, {elements.digits})" if isinstance(elements, Rounded) else value


class _Answer:
    """One answer, which `compute` writes into memory, repeatedly if necessary."""

    def __init__(self, tree: ast.expr, formula: _Formula, contents: Mapping[str, Elements], placer: Placer) -> None:
        self._formula, self._contents, self._placer = formula, contents, placer
        self._tree = reference.products_by_name(tree, contents.keys())
        self._first_product = next((operand for operand in formula.operands if isinstance(operand, _Product)), None)
        operands = formula.operands
        self.read = {name for o in operands for name in ([o] if isinstance(o, str) else [o.left.name, o.right.name])}

    def compute(self, memory: Buffer) -> None:
        """Raises DeviceError if the device has no matrix product, or computes other elements than the host."""
        count = memory.nbytes // _DOUBLE.itemsize
        sample = np.append(np.random.default_rng().integers(0, count, _SAMPLES), count - 1)
        names: dict[str, object] = dict(self._formula.scope.answer_names)
        arrays: list[tuple[Buffer, DType]] = []
        for operand in self._formula.operands:
            if isinstance(operand, str):
                elements = self._contents[operand]
                arrays.append((self._placer.placed(_unrounded(elements)), elements.element))
                names[operand] = elements.at(sample).astype(np.float64)
            else:
                is_first = operand == self._first_product  # computed in the answer's memory
                product = memory if is_first else self._placer.device.allocate(memory.nbytes, guard=0)
                self._multiply(operand, product)
                arrays.append((product, _DOUBLE))
                names[operand.text] = values = self._placer.doubles(product, sample)
                self._check_product(operand, sample, values)
        self._placer.evaluate(self._formula.text, arrays, self._formula.scalars, memory)
        with np.errstate(all="ignore"):
            expected = array_expressions.walk(self._tree, names)
        if not np.allclose(self._placer.doubles(memory, sample), expected, _CLOSE, 0.0, equal_nan=True):
            raise DeviceError(f"{self._placer.device.id}: {_DIFFERENT}")

    def _multiply(self, product: _Product, memory: Buffer) -> None:
        """Fill `memory` with a matrix product. Raises DeviceError if the host is faster."""
        device, (*batch, rows, inner), columns = self._placer.device, product.left.shape, product.right.shape[-1]
        has_library = type(device).library is not Device.library
        if device.on_processor and not has_library:
            raise DeviceError(f"{device.id}: a library on the host multiplies faster")
        a, b = self._as_doubles(product.left), self._as_doubles(product.right)
        handles = {"A": a.handle, "B": b.handle, "C": memory.handle}
        sizes = {"M": rows, "N": columns, "K": inner, "batch": math.prod(batch), "alpha": 1.0, "beta": 0.0}
        call = device.library("gemm", {**handles, **sizes}, dict.fromkeys("ABC", _DOUBLE.name))
        if call is None:
            self._placer.multiply(a, b, (rows, columns, inner), memory)
            return
        try:
            self._placer.run(call)
        except Exception as error:  # the library has its own exception types
            raise DeviceError(f"{device.id}: {call.name}: {error}") from None

    def _as_doubles(self, matrix: _Matrix) -> Buffer:
        """A matrix as doubles, in row-major order."""
        elements, element = matrix.elements, matrix.elements.element
        arrays = [(self._placer.placed(_unrounded(elements)), element)]
        memory = self._placer.device.allocate(_DOUBLE.itemsize * elements.size, guard=0)
        place = "i"
        if matrix.is_transposed:  # a1 holds the rows and columns before transposition
            arrays.append((self._placer.device.upload(np.array(elements.shape[-2:], np.int64)), DTYPES["int64"]))
            place = "i / (a1[0] * a1[1]) * (a1[0] * a1[1]) + i % a1[0] * a1[1] + i / a1[0] % a1[1]"
        self._placer.evaluate(_rounded(f"{element.name}_value(a0[{place}])", elements), arrays, [], memory)
        return memory

    def _check_product(self, product: _Product, sample: Array, values: Array) -> None:
        """Raise DeviceError if these elements of a product differ from the host's by more than rounding."""
        (rows, inner), columns = product.left.shape[-2:], product.right.shape[-1]
        steps = np.arange(inner)
        for number, value in zip(map(int, sample), values, strict=True):
            batch, place = divmod(number, rows * columns)
            row, column = divmod(place, columns)
            products = product.left.at(batch, row, steps) * product.right.at(batch, steps, column)
            if not abs(value - math.fsum(products)) <= inner * 2.0**-52 * np.abs(products).sum():
                raise DeviceError(f"{self._placer.device.id}: {_DIFFERENT}")
