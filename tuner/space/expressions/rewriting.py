"""Partial evaluation of checked expressions, such as restrictions when sizes and device are known."""

import ast
from collections.abc import Mapping
from typing import Any

from tuner.errors import ExpressionError
from tuner.space.expressions.evaluator import names_in, walk


def substitute(tree: ast.expr, values: Mapping[str, Any]) -> ast.expr:
    """`tree` with each name in `values` replaced by its value, a constant or another checked tree.

    Every part without names is evaluated, and `or` and `and` drop operands that cannot change the result. A part that
    cannot be evaluated, such as 1 // 0, is retained: a later evaluation raises the error if it reaches that part.
    """
    if isinstance(tree, ast.Name):
        value = values.get(tree.id, tree)
        return value if isinstance(value, ast.expr) else ast.Constant(value)
    if isinstance(tree, ast.BoolOp):
        return _simplify(tree.op, [substitute(operand, values) for operand in tree.values])
    parts: dict[str, Any] = {}
    for field, value in ast.iter_fields(tree):
        if isinstance(value, list):
            parts[field] = [substitute(v, values) if isinstance(v, ast.expr) else v for v in value]
        elif isinstance(value, ast.expr) and field != "func":
            parts[field] = substitute(value, values)
        else:
            parts[field] = value
    new: ast.expr = type(tree)(**parts)
    if isinstance(new, ast.IfExp) and isinstance(new.test, ast.Constant):
        return new.body if new.test.value else new.orelse
    if isinstance(new, ast.Constant | ast.Tuple | ast.List) or names_in(new):
        return new
    try:
        return ast.Constant(walk(new, {}))
    except (ExpressionError, ArithmeticError, TypeError, ValueError):
        return new


def _simplify(op: ast.boolop, operands: list[ast.expr]) -> ast.expr:
    """`and` or `or` without constant operands that do not decide it.

    The last operand is retained if it may be the value of the whole.
    """
    deciding = isinstance(op, ast.Or)
    remaining: list[ast.expr] = []
    for operand in operands:
        if isinstance(operand, ast.Constant) and bool(operand.value) == deciding:
            remaining.append(operand)
            break
        if not isinstance(operand, ast.Constant):
            remaining.append(operand)
    last = operands[-1]
    if isinstance(last, ast.Constant) and bool(last.value) != deciding and remaining[-1:] != [last]:
        redundant = bool(remaining) and _is_bool(remaining[-1]) and last.value is (not deciding)
        remaining += [] if redundant else [last]
    return remaining[0] if len(remaining) == 1 else ast.BoolOp(op=op, values=remaining)


def _is_bool(tree: ast.expr) -> bool:
    """Whether the value of `tree` is always True or False."""
    return isinstance(tree, ast.Compare) or (isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not))
