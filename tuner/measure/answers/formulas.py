"""Reference expressions as formulas: `formula` translates a syntax tree into nodes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import ExpressionError
from tuner.measure.answers.formula_nodes import (
    Elementwise,
    Input,
    Node,
    NoFormula,
    Number,
    Operands,
    Padded,
    Reshaped,
    View,
    strides_of,
)
from tuner.measure.answers.stored_nodes import Bins, Correlated, Cumulated, Reduced, StoredProduct
from tuner.space.expressions import array_expressions
from tuner.space.expressions.array_functions import ARRAY_FUNCTIONS, whole
from tuner.space.expressions.evaluator import names_in
from tuner.space.values.elements import Elements

if TYPE_CHECKING:
    from tuner.space.scope import Scope

# By the name in a reference, the C function of doubles.
_FUNCTIONS = {
    "abs": "fabs", "arccos": "acos", "arcsin": "asin", "arctan": "atan",
    **{name: name for name in (
        "cbrt", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor", "log", "log10", "log1p", "log2",
        "rint", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    )},
}  # fmt: skip
# By the operator, the C text, NumPy's function, and the greatest magnitude of the result for whole operands.
_OPERATORS: Mapping[type[ast.operator], tuple[str, Callable[..., Any], Callable[..., float] | None]] = {
    ast.Add: ("PLUS({}, {})", np.add, operator.add),
    ast.Sub: ("PLUS({}, -({}))", np.subtract, operator.add),
    ast.Mult: ("TIMES({}, {})", np.multiply, operator.mul),
    ast.Div: ("({} / {})", np.divide, None),
    ast.Pow: ("pow({}, {})", np.power, None),
    ast.FloorDiv: ("floor({} / {})", np.floor_divide, lambda left, _: left),
}


def formula(tree: ast.expr, name: str, scope: Scope, contents: Mapping[str, Elements]) -> Node:
    """The formula of the answer for `name`. Raises NoFormula if there is none."""
    output = contents.get(name)
    if output is None:
        raise NoFormula
    try:
        node = _Translation(scope, contents).translate(tree)
        node.text("i", Operands())
    except (ExpressionError, ArithmeticError, TypeError, ValueError, LookupError, RecursionError):
        raise NoFormula from None
    if node.shape == () and output.size == 1:
        node = Reshaped(node, output.shape)
    if output.element.kind != "real" and (output.element.kind != "integer" or node.most is None):
        raise NoFormula
    if node.shape != output.shape or not any(isinstance(each, Input) for each in node.all()):
        raise NoFormula
    return node


class _Translation:
    """Translates the syntax tree of a reference. Equal subtrees become one node."""

    def __init__(self, scope: Scope, contents: Mapping[str, Elements]) -> None:
        self._scope, self._contents = scope, contents
        self._nodes: dict[str, Node] = {}

    def translate(self, tree: ast.expr) -> Node:
        """The node of a subtree. Raises NoFormula."""
        key = ast.unparse(tree)
        if key not in self._nodes:
            self._nodes[key] = self._translated(tree)
        return self._nodes[key]

    def _value(self, tree: ast.expr) -> Any:
        """The value of a subtree that reads no array."""
        if names_in(tree) & self._contents.keys():
            raise NoFormula
        return array_expressions.walk(tree, self._scope.answer_names)

    def _translated(self, tree: ast.expr) -> Node:
        if not names_in(tree) & self._contents.keys():
            return _number(self._value(tree))
        match tree:
            case ast.Name(id=name):
                return Input(name, self._contents[name])
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.translate(body if self._value(test) else other)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Elementwise("(-({}))", np.negative, self.translate(operand), whole=abs)
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                return StoredProduct(self.translate(left), self.translate(right))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _binary(op, self.translate(left), self.translate(right))
            case ast.Subscript(value=value, slice=index):
                return self._sliced(self.translate(value), index.elts if isinstance(index, ast.Tuple) else [index])
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                return self._call(name, args, {str(k.arg): whole(self._value(k.value)) for k in keywords})
        raise NoFormula

    def _sliced(self, node: Node, parts: Sequence[ast.expr]) -> Node:
        shape, strides, offset = list[int](), list[int](), 0
        rest = zip(node.shape, strides_of(node.shape), strict=True)
        for part, (extent, stride) in zip(parts, rest, strict=False):
            if isinstance(part, ast.Slice):
                bounds = (whole(self._value(b)) if b is not None else None for b in (part.lower, part.upper, part.step))
                chosen = range(extent)[slice(*bounds)]
                shape.append(len(chosen))
                strides.append(chosen.step * stride)
                offset += chosen.start * stride if chosen else 0
            else:
                offset += range(extent)[whole(self._value(part))] * stride
        if len(parts) > len(node.shape):
            raise NoFormula
        count = len(parts)
        return View(node, (*shape, *node.shape[count:]), (*strides, *strides_of(node.shape)[count:]), offset)

    def _call(self, name: str, args: Sequence[ast.expr], keywords: Mapping[str, Any]) -> Node:
        """The node of a function's call."""
        first = self.translate(args[0])
        if name == "bincount" and len(args) == 1 and keywords.keys() == {"minlength"}:
            return Bins(first, keywords["minlength"])
        if name in _FUNCTIONS and len(args) == 1 and not keywords:
            whole_result = abs if name in ("abs", "ceil", "floor", "rint", "trunc") else None  # of integers
            return Elementwise(f"{_FUNCTIONS[name]}({{}})", ARRAY_FUNCTIONS[name].call, first, whole=whole_result)
        if name in _SHAPED:
            return _SHAPED[name](first, *map(self._value, args[1:]), **keywords)
        if name in ("correlate", "convolve") and keywords == {"mode": "valid"}:
            return Correlated(first, self.translate(args[1]), name == "convolve")
        if name in _REDUCTIONS and len(args) == 1:
            return _REDUCTIONS[name](first, **keywords)
        if keywords:
            raise NoFormula
        others = [self.translate(each) for each in args[1:]]
        if name == "clip":
            return _smaller(_larger(first, others[0]), others[1])
        if name in ("max", "min"):
            for other in others:
                first = _larger(first, other) if name == "max" else _smaller(first, other)
            return first
        raise NoFormula


def _binary(op: ast.operator, left: Node, right: Node) -> Node:
    text, function, whole_result = _OPERATORS[type(op)]
    if isinstance(op, ast.FloorDiv):  # of reals, a quotient just below an integer may be rounded to it
        is_exact = left.most is not None and right.most is not None
        if not is_exact or not isinstance(right, Number) or not right.value:
            raise NoFormula
    if isinstance(op, ast.Pow) and left.most is not None:  # NumPy's powers of integers are integers
        raise NoFormula
    return Elementwise(text, function, left, right, whole=whole_result)


def _number(value: Any) -> Number:
    if not isinstance(value, int | float | np.integer | np.floating):
        raise NoFormula
    return Number(value)


def _larger(left: Node, right: Node) -> Node:
    return Elementwise("larger({}, {})", np.maximum, left, right, whole=max)


def _smaller(left: Node, right: Node) -> Node:
    return Elementwise("(-larger(-({}), -({})))", np.minimum, left, right, whole=max)


def _reduced(kind: str, node: Node, axis: int | None = None, keepdims: int = 0) -> Node:
    return Reduced(kind, node, axis, bool(keepdims))


def _mean(node: Node, axis: int | None = None, keepdims: int = 0) -> Node:
    count = node.size if axis is None else node.shape[axis]
    return Elementwise("({} / {})", np.divide, _reduced("sum", node, axis, keepdims), Number(count))


def _variance(node: Node, axis: int | None = None, keepdims: int = 0) -> Node:
    distance = Elementwise("PLUS({}, -({}))", np.subtract, node, _mean(node, axis, 1))
    return _mean(Elementwise("square({})", np.square, distance), axis, keepdims)


def _deviation(node: Node, axis: int | None = None, keepdims: int = 0) -> Node:
    return Elementwise("sqrt({})", np.sqrt, _variance(node, axis, keepdims))


_REDUCTIONS: Mapping[str, Callable[..., Node]] = {
    "sum": partial(_reduced, "sum"),
    "mean": _mean,
    "var": _variance,
    "std": _deviation,
    "max": partial(_reduced, "max"),
    "min": partial(_reduced, "min"),
    "cumsum": Cumulated,
}


def _transposed(node: Node, axes: Sequence[int] | None = None) -> Node:
    order = [*range(len(node.shape))][::-1] if axes is None else [range(len(node.shape))[whole(axis)] for axis in axes]
    if sorted(order) != [*range(len(node.shape))]:
        raise NoFormula
    strides = strides_of(node.shape)
    return View(node, [node.shape[axis] for axis in order], [strides[axis] for axis in order])


def _expanded(node: Node, axis: int) -> Node:
    axis = range(len(node.shape) + 1)[axis]
    return Reshaped(node, (*node.shape[:axis], 1, *node.shape[axis:]))


def _reshaped(node: Node, shape: Any) -> Node:
    extents = [*map(whole, shape)] if isinstance(shape, tuple | list) else [whole(shape)]
    return Reshaped(node, extents)


def _padded(node: Node, width: Any, mode: str = "constant", value: float = 0.0) -> Node:
    if mode != "constant":
        raise NoFormula
    widths = np.broadcast_to(np.asarray(whole(width), dtype=np.int64), (len(node.shape), 2)).tolist()
    return Padded(node, [before for before, _ in widths], [after for _, after in widths], float(value))


# The functions that choose elements; all but the first argument are numbers.
_SHAPED: Mapping[str, Callable[..., Node]] = {
    "transpose": _transposed,
    "expand_dims": _expanded,
    "reshape": _reshaped,
    "pad": _padded,
}
