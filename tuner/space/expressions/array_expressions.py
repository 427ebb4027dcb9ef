"""Expressions over arrays, in which references are written: scalar expressions plus NumPy's functions, slices and
masks.

They are checked and evaluated like all expressions: nothing in them is run as Python. In addition to what `expressions`
allows, a call may name a function of `ARRAY_FUNCTIONS` and pass keywords, an array may be sliced (`x[1:-1, ::2]`) or
indexed by an array, `x.T` is transpose(x), and `& | ^ ~` combine masks. Arithmetic and comparisons are element-wise.
"""

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tuner.errors import ExpressionError
from tuner.quoting import shown
from tuner.space.expressions import arithmetic, cases, evaluator
from tuner.space.expressions.array_functions import ARRAY_FUNCTIONS, joint_size, matrix_product, whole
from tuner.space.expressions.bounds import OutOfBounds, check_elements
from tuner.space.expressions.evaluator import MAX_DEPTH

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    **arithmetic.OPERATORS,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {**arithmetic.UNARY, ast.Invert: operator.invert}
_ELEMENTWISE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    kind: function for kind, function in arithmetic.COMPARE.items() if kind not in (ast.In, ast.NotIn)
}


@lru_cache(maxsize=256)
def tree_of(text: str) -> ast.expr:
    """The syntax tree of `text`. Raises ExpressionError if it is not allowed."""
    tree: ast.expr = _Transposes().visit(evaluator.checked(text, _check))
    return tree


class _Transposes(ast.NodeTransformer):
    """Replaces `x.T`, the only attribute that is allowed, by `transpose(x)`."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.Call:
        return ast.Call(func=ast.Name("transpose"), args=[self.visit(node.value)], keywords=[])


def _check(node: ast.expr, depth: int) -> None:
    """Raise ExpressionError unless `node` and all its descendants are on the whitelist."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"nested more than {MAX_DEPTH} deep")
    match node:
        case ast.Constant(value=None):
            pass
        case ast.BinOp(op=op) if type(op) in _BINARY:
            pass
        case ast.UnaryOp(op=unary) if type(unary) in _UNARY:
            pass
        case ast.Attribute(attr="T"):
            pass
        case ast.Call(func=ast.Name(id=name)):
            if name not in ARRAY_FUNCTIONS and name not in arithmetic.FUNCTIONS:
                raise ExpressionError(evaluator.unknown_name(name, [*ARRAY_FUNCTIONS, *arithmetic.FUNCTIONS]))
            if any(keyword.arg is None for keyword in node.keywords):
                raise ExpressionError(f"`{ast.unparse(node)}`: ** is not allowed")
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                _check(argument, depth + 1)
            return
        case ast.Subscript(value=value, slice=index):
            _check(value, depth + 1)
            for part in index.elts if isinstance(index, ast.Tuple) else [index]:
                bounds = (part.lower, part.upper, part.step) if isinstance(part, ast.Slice) else (part,)
                for bound in filter(None, bounds):
                    _check(bound, depth + 1)
            return
        case _:
            evaluator.check_node(node, _instead(node))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _check(child, depth + 1)


def _instead(node: ast.expr) -> str:
    """The advice for a node that is not allowed: what to write instead."""
    listed = "`tune schema --functions` lists what a reference may call"
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr=name)) if name in ARRAY_FUNCTIONS:
            return f"write {name}(...), without what precedes it; {listed}"
    return f"allowed are numbers, arrays, slices, arithmetic, comparisons, `& | ~` and functions; {listed}"


def value_of(tree: ast.expr, scope: Mapping[str, Any], text: str) -> Any:
    """The value of a checked tree; `text` is its source.

    Every failure except a lack of memory becomes an ExpressionError whose message begins with `text`. It is an
    OutOfBounds if the expression may succeed with other arrays or in a tuning run.
    """
    kind: type[ExpressionError] = ExpressionError
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mean of an empty array is NaN, for which NumPy prints a warning
        try:
            return walk(tree, scope)
        except ZeroDivisionError:
            reason = "division by zero"
        except (ExpressionError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
            reason = shown(error)
            bad_index = isinstance(error, IndexError) and reason.startswith("index ") and "is out of bounds" in reason
            kind = OutOfBounds if bad_index or isinstance(error, OutOfBounds) else ExpressionError
    raise kind(f"`{shown(text)}`: {reason}")


def walk(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """The value of a checked tree."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            operands = walk(left, scope), walk(right, scope)
            if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod):
                cases.see_divisor(right, operands[1])
            return _binary(op, *operands)
        case ast.UnaryOp(op=unary, operand=operand):
            value = walk(operand, scope)
            return (
                np.logical_not(value) if isinstance(unary, ast.Not) and np.ndim(value) else _UNARY[type(unary)](value)
            )
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            value = _compare(ops, [walk(part, scope) for part in (left, *comparators)])
            cases.see(node, value)
            return value
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return walk(body if _truth(walk(test, scope)) else orelse, scope)
        case ast.BoolOp(op=bool_op, values=values):
            stop = isinstance(bool_op, ast.Or)
            return next((stop for value in values if _truth(walk(value, scope)) == stop), not stop)
        case ast.Tuple(elts=elements):
            return tuple(walk(element, scope) for element in elements)
        case ast.List(elts=elements):
            return [walk(element, scope) for element in elements]
        case ast.Subscript(value=value, slice=index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            array, indices = np.asarray(walk(value, scope)), tuple(_index(part, scope) for part in parts)
            for part, chosen, extent in zip(parts, indices, array.shape, strict=False):
                cases.see_index(part, chosen, extent)
            return _indexed(array, indices)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            arguments = [walk(argument, scope) for argument in args]
            if name == "where" and not any(isinstance(part, ast.Compare) for part in ast.walk(args[0])):
                cases.see(args[0], arguments[0])
            if name == "take" and len(arguments) > 1:
                cases.see_index(args[1], arguments[1], np.size(arguments[0]))
            return _call(name, arguments, {str(k.arg): walk(k.value, scope) for k in keywords})
    return evaluator.walk(node, scope)


def _call(name: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Call a function. Numbers without keywords go to the functions of scalar expressions, everything else to
    ARRAY_FUNCTIONS."""
    has_arrays = any(np.ndim(argument) for argument in arguments) or name not in arithmetic.FUNCTIONS
    if not has_arrays and not keywords:
        return arithmetic.FUNCTIONS[name](*arguments)
    if name not in ARRAY_FUNCTIONS:
        raise ExpressionError(f"{name}() does not take arrays")
    return ARRAY_FUNCTIONS[name](name, arguments, keywords)


def _binary(op: ast.operator, left: Any, right: Any) -> Any:
    computed = (np.ndarray, np.generic)  # NumPy scalars, such as sums, may be infinite; [1] * 2 is a list, not NumPy's
    if type(op) in arithmetic.BINARY and not (isinstance(left, computed) or isinstance(right, computed)):
        return arithmetic.BINARY[type(op)](left, right)
    if isinstance(left, str | tuple | list) or isinstance(right, str | tuple | list):
        return arithmetic.BINARY[type(op)](left, right)
    if isinstance(op, ast.MatMult):
        return matrix_product(left, right)
    check_elements(joint_size(left, right), "the result")
    return _BINARY[type(op)](left, right)


def _compare(ops: list[ast.cmpop], values: list[Any]) -> Any:
    """`a < b <= c`. For arrays: the mask of the elements for which all comparisons hold."""
    results = []
    for op, left, right in zip(ops, values, values[1:], strict=False):
        if type(op) not in _ELEMENTWISE:
            results.append(arithmetic.COMPARE[type(op)](left, right))
        else:
            check_elements(joint_size(left, right), "the comparison")
            results.append(_ELEMENTWISE[type(op)](left, right))
    value = results[0]
    for other in results[1:]:
        value = value & other
    return value


def _truth(value: Any) -> bool:
    if np.ndim(value):
        raise ExpressionError("an array has no single truth value; write where(mask, x, y), mask & other or any(mask)")
    return bool(value)


def _indexed(array: Any, index: tuple[Any, ...]) -> Any:
    """`array[index]`, bounded: arrays of indices may select more elements than `array` has."""
    chosen = [part for part in index if np.ndim(part)]
    if chosen:
        sizes = np.broadcast_shapes(*(part.shape if part.dtype != bool else () for part in chosen))
        places = sum(part.ndim if part.dtype == bool else 1 for part in chosen)
        # An upper bound: the elements selected by index arrays, times the largest extents that are not indexed.
        others = sorted(array.shape, reverse=True)[: max(0, array.ndim - places)]
        check_elements(math.prod(sizes) * math.prod(others), "the indexed array")
    return array[index]


def _index(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Slice):
        bounds = (whole(walk(bound, scope)) if bound else None for bound in (node.lower, node.upper, node.step))
        return slice(*bounds)
    value = whole(walk(node, scope))
    if isinstance(value, tuple | list):
        value = np.asarray(value)
    return value.astype(np.int64) if np.ndim(value) and value.dtype == np.float64 else value


def usage() -> dict[str, str]:
    """The call syntax of each function that a reference may call, by function name."""
    numbers = {name: f"{name}(...), of numbers alone" for name in arithmetic.FUNCTIONS}
    return dict(sorted((numbers | {name: function.usage for name, function in ARRAY_FUNCTIONS.items()}).items()))
