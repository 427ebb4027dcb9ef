"""Bounds on the arrays of references, which are checked before a result is computed."""

import contextlib
from contextvars import ContextVar

from tuner.classes import dataclass, setting
from tuner.errors import ExpressionError


class OutOfBounds(ExpressionError):
    """An index is outside an array, or an array exceeds the bounds for trying an expression.

    The same expression may have a value with other arrays, or in a tuning run.
    """


@dataclass(frozen=True)
class Bounds:
    """The most elements of one array, and the most multiplications of one einsum, convolution or `@`."""

    elements: int
    products: int


TUNING = Bounds(2**31, 2**46)  # the products take about an hour on one core
TRYING = Bounds(2**22, 2**30)  # for evaluating an expression on small arrays when a file is checked
_bounds: ContextVar[Bounds] = ContextVar("bounds", default=TUNING)


def bounded(bounds: Bounds) -> contextlib.AbstractContextManager[None]:
    """Apply `bounds` inside the `with` block."""
    return setting(_bounds, bounds)


def most_elements() -> int:
    """The most elements of one array at present."""
    return _bounds.get().elements


def check_elements(count: int, what: str) -> None:
    """Raise ExpressionError if `count` exceeds the limit for tuning, OutOfBounds if it only exceeds the current one."""
    _check(count, _bounds.get().elements, TUNING.elements, f"{what} would have {_rounded(count)} elements")


def check_products(count: int, what: str) -> None:
    """`check_elements` for the multiplications of one function."""
    _check(count, _bounds.get().products, TUNING.products, f"{what} would take {_rounded(count)} products")


def _check(count: int, most: int, most_ever: int, what: str) -> None:
    if count > most:
        kind = ExpressionError if count > most_ever else OutOfBounds
        raise kind(f"{what}; at most {most_ever if kind is ExpressionError else most} are allowed")


def _rounded(count: int) -> str:
    return f"{count:.3g}" if count < 2**1000 else "far too many"
