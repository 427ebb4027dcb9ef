"""The functions and operators of expressions, and the bound on their numbers."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tuner.errors import ExpressionError
from tuner.quoting import quoted, shown

MAX_NUMBER = 2**64


def ceil_div(a: int, b: int) -> int:
    """Smallest integer >= a / b."""
    return -(-a // b)


def round_up(a: int, b: int) -> int:
    """Smallest multiple of b that is >= a."""
    return ceil_div(a, b) * b


def is_power_of_two(a: int) -> bool:
    """Whether a is 1, 2, 4, 8, ..."""
    return a > 0 and a == int(a) and int(a) & (int(a) - 1) == 0


def next_power_of_2(a: int) -> int:
    """The smallest power of two that is not below `a`."""
    return 1 << max(math.ceil(a) - 1, 0).bit_length()


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil_div": ceil_div,
    "gcd": math.gcd,
    "int": int,
    "is_power_of_two": is_power_of_two,
    "len": len,
    "log2": math.log2,
    "max": max,
    "min": min,
    "next_power_of_2": next_power_of_2,
    "round_up": round_up,
    "sqrt": math.sqrt,
}

OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
}
UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


_REAL, _NO_NUMBER = (int, float), (str, tuple, list)  # created once: these checks take most of an evaluation's time


def bounded(value: Any) -> Any:
    """`value` unchanged. Raises ExpressionError if it is a number beyond 2**64 or a complex number."""
    if isinstance(value, _REAL):
        if -MAX_NUMBER <= value <= MAX_NUMBER:
            return value
        raise ExpressionError("a number beyond 2**64")
    if isinstance(value, complex):
        raise ExpressionError("a complex number")
    return value


def _numeric(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`function` for numbers only, with a bounded result. `symbol` is its operator in messages."""

    def operate(left: Any, right: Any) -> Any:
        if type(left) is int and type(right) is int:  # the common case: skipping a check saves a third of the time
            value = function(left, right)
            return value if -MAX_NUMBER <= value <= MAX_NUMBER else bounded(value)
        if isinstance(left, _NO_NUMBER) or isinstance(right, _NO_NUMBER):
            raise ExpressionError(f"{symbol} needs numbers, not {_described(left)} and {_described(right)}")
        return bounded(function(left, right))

    return operate


def _power(left: Any, right: Any) -> Any:
    if not (isinstance(right, _REAL) and abs(right) <= 64):
        raise ExpressionError("** with an exponent beyond 64")
    return left**right


def _described(value: Any) -> str:
    """A value for a message. An array, also in a list, is described by its shape."""
    if isinstance(value, tuple | list):
        begin, end = "()" if isinstance(value, tuple) else "[]"
        return shown(f"{begin}{', '.join(map(_described, value))}{end}")
    shape = getattr(value, "shape", ())
    return f"an array of shape {shape}" if shape else quoted(value)


# OPERATORS for numbers only. They raise ExpressionError for other operands and for results beyond 2**64.
BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    kind: _numeric(symbol, OPERATORS[kind] if kind is not ast.Pow else _power)
    for kind, symbol in (
        (ast.Add, "+"), (ast.Sub, "-"), (ast.Mult, "*"), (ast.Div, "/"), (ast.FloorDiv, "//"), (ast.Mod, "%"),
        (ast.Pow, "**"), (ast.MatMult, "@"),
    )
}  # fmt: skip
