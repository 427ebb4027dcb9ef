"""Interval arithmetic on expressions: whether a restriction may still hold when only some parameters of a configuration
have values.

This is interval arithmetic (R. E. Moore, Interval Analysis, 1966), for many parts at once. What it does not know may be
any number, so no restriction that may hold is excluded.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Interval = tuple[Any, Any]  # lower and upper bounds: numbers, or arrays of equal length
Truth = tuple[Any, Any]  # whether a condition may be true, and whether it may be false
_ANY: Interval = (-np.inf, np.inf)
_SLACK = 1e-9  # relative: more than all roundings of the bounds
_EXACT = 2.0**53  # below it, a float is every whole number: bounds that are equal are the value itself


def may_hold(tree: ast.expr, names: Mapping[str, Interval]) -> NDArray[np.bool_]:
    """Whether the condition `tree` may be true, for each element of the bounds of `names`; one element if none has
    arrays as bounds."""
    with np.errstate(all="ignore"):
        may_be_true, _ = _truth(tree, names)
    return np.asarray(may_be_true, bool)


def _truth(tree: ast.expr, names: Mapping[str, Interval]) -> Truth:
    if isinstance(tree, ast.BoolOp):
        true, false = zip(*(_truth(value, names) for value in tree.values), strict=True)
        if isinstance(tree.op, ast.And):
            return functools.reduce(np.logical_and, true), functools.reduce(np.logical_or, false)
        return functools.reduce(np.logical_or, true), functools.reduce(np.logical_and, false)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        may_be_true, may_be_false = _truth(tree.operand, names)
        return may_be_false, may_be_true
    if isinstance(tree, ast.Compare):
        operands = [_value(each, names) for each in (tree.left, *tree.comparators)]
        pairs = zip(tree.ops, itertools.pairwise(operands), strict=True)
        found = [_comparison(operator, left, right) for operator, (left, right) in pairs]
        return (
            functools.reduce(np.logical_and, (one for one, _ in found)),
            functools.reduce(np.logical_or, (other for _, other in found)),
        )
    low, high = _value(tree, names)
    return (low != 0) | (high != 0), (low <= 0) & (high >= 0)


def _comparison(operator: ast.cmpop, left: Interval, right: Interval) -> Truth:
    """Whether a comparison may be true, and whether it may be false."""
    (low, high), (least, most) = left, right
    slack = _SLACK * (np.abs(np.where(np.isfinite(low), low, 0)) + np.abs(np.where(np.isfinite(most), most, 0)))
    below, above = low <= most + slack, high >= least - slack  # whether left may be at most, at least right
    if isinstance(operator, ast.Lt | ast.LtE):
        return below, above
    if isinstance(operator, ast.Gt | ast.GtE):
        return above, below
    are_known = (low == high) & (least == most)
    equal, unequal = below & above, ~(are_known & (low == least))
    if isinstance(operator, ast.Eq):
        return equal, unequal
    return (unequal, equal) if isinstance(operator, ast.NotEq) else (np.True_, np.True_)


def _value(tree: ast.expr, names: Mapping[str, Interval]) -> Interval:
    """The bounds of a number."""
    low, high = _bounds(tree, names)
    unknown = np.isnan(low) | np.isnan(high)  # such as 0 times infinity
    low = np.where(np.abs(low) >= _EXACT, low * (1 - _SLACK * np.sign(low)), low)
    high = np.where(np.abs(high) >= _EXACT, high * (1 + _SLACK * np.sign(high)), high)
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def _bounds(tree: ast.expr, names: Mapping[str, Interval]) -> Interval:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float):
        return _of_number(tree.value)
    if isinstance(tree, ast.Name):
        return names.get(tree.id, _ANY)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        low, high = _value(tree.operand, names)
        return -high, -low
    if isinstance(tree, ast.BinOp) and (operation := _OPERATIONS.get(type(tree.op))):
        return operation(_value(tree.left, names), _value(tree.right, names))
    if isinstance(tree, ast.IfExp):
        may_be_true, may_be_false = _truth(tree.test, names)
        (low, high), (least, most) = _value(tree.body, names), _value(tree.orelse, names)
        lows = np.where(may_be_true, np.where(may_be_false, np.minimum(low, least), low), least)
        return lows, np.where(may_be_true, np.where(may_be_false, np.maximum(high, most), high), most)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and (function := _FUNCTIONS.get(tree.func.id)):
        return function(*(_value(argument, names) for argument in tree.args))
    return (0.0, 1.0) if isinstance(tree, ast.Compare | ast.BoolOp) else _ANY


def _of_number(number: float) -> Interval:
    try:
        return float(number), float(number)
    except OverflowError:
        return _ANY


def of_values(values: Any) -> Interval:
    """The bounds of a list of values; any number if one of them is a word."""
    if not all(isinstance(value, int | float) for value in values):
        return _ANY
    bounds = [_of_number(value) for value in values]
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _sum(one: Interval, other: Interval) -> Interval:
    return one[0] + other[0], one[1] + other[1]


def _difference(one: Interval, other: Interval) -> Interval:
    return one[0] - other[1], one[1] - other[0]


def _product(one: Interval, other: Interval) -> Interval:
    ends = [a * b for a in one for b in other]
    return functools.reduce(np.minimum, ends), functools.reduce(np.maximum, ends)


def _quotient(one: Interval, other: Interval) -> Interval:
    ends = [a / b for a in one for b in other]
    low, high = functools.reduce(np.minimum, ends), functools.reduce(np.maximum, ends)
    has_zero = (other[0] <= 0) & (other[1] >= 0)
    return np.where(has_zero, -np.inf, low), np.where(has_zero, np.inf, high)


def _known(one: Interval, other: Interval, value: Any, unknown: Interval) -> Interval:
    """What divides two numbers, as `value`; `unknown` where they are not known, or the divisor is 0."""
    is_known = (one[0] == one[1]) & (other[0] == other[1]) & (other[0] != 0)
    return np.where(is_known, value, unknown[0]), np.where(is_known, value, unknown[1])


def _floor_div(one: Interval, other: Interval) -> Interval:
    low, high = _quotient(one, other)  # by one more, as the quotient's bounds may be just beyond a whole number
    bounds = np.floor(low - _SLACK * np.abs(low)), np.floor(high + _SLACK * np.abs(high))
    return _known(one, other, np.floor_divide(one[0], other[0]), bounds)


def _ceil_div(one: Interval, other: Interval) -> Interval:
    low, high = _floor_div((-one[1], -one[0]), other)
    return -high, -low


def _remainder(one: Interval, other: Interval) -> Interval:
    is_positive = other[0] > 0  # then it is 0 to below the divisor, and no more than a dividend that is not negative
    most = np.where(one[0] >= 0, np.minimum(one[1], other[1]), other[1])
    bounds = np.where(is_positive, 0.0, -np.inf), np.where(is_positive, most, np.inf)
    return _known(one, other, np.mod(one[0], other[0]), bounds)


def _round_up(one: Interval, other: Interval) -> Interval:
    is_positive = other[0] > 0
    return np.where(is_positive, one[0], -np.inf), np.where(is_positive, one[1] + other[1], np.inf)


def _least(*parts: Interval) -> Interval:
    lows, highs = zip(*parts, strict=True)
    return functools.reduce(np.minimum, lows), functools.reduce(np.minimum, highs)


def _largest(*parts: Interval) -> Interval:
    lows, highs = zip(*parts, strict=True)
    return functools.reduce(np.maximum, lows), functools.reduce(np.maximum, highs)


_OPERATIONS: dict[type[ast.operator], Callable[[Interval, Interval], Interval]] = {
    ast.Add: _sum, ast.Sub: _difference, ast.Mult: _product, ast.Div: _quotient,
    ast.FloorDiv: _floor_div, ast.Mod: _remainder,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Interval]] = {
    "ceil_div": _ceil_div, "round_up": _round_up, "min": _least, "max": _largest,
}  # fmt: skip
