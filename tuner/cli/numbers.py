"""Define the types of options that take a number; the message for a wrong one shows the range, as `--help` does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from tuner.errors import OptionError
from tuner.measure.method import LONGEST_TIMEOUT
from tuner.quoting import quoted


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _checked(super().convert, self, value, param, ctx, self.name, "")


class Real(click.FloatRange):
    """A number within bounds. `what` and `example` are words of its message, such as "number of seconds" and "60"."""

    def __init__(self, low: float, high: float, what: str = "number", example: str = "", is_above: bool = False):
        super().__init__(low, high, min_open=is_above)
        self.name, self._example = what, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _checked(super().convert, self, value, param, ctx, self.name, self._example)


def _checked(
    convert: Callable[..., Any],
    kind: Whole | Real,
    value: Any,
    param: click.Parameter | None,
    ctx: click.Context | None,
    what: str,
    example: str,
) -> Any:
    """The converted value. Raises OptionError, with the range, for text that is no number, or a number outside."""
    try:
        number = convert(value, param, ctx)
    except click.BadParameter:
        number = math.nan
    if not math.isnan(number):  # click's ranges let it pass
        return number
    low, high = f"{kind.min:.15g}", f"{kind.max:.15g}"
    bounds = f"above {low} and at most {high}" if kind.min_open else f"from {low} to {high}"
    raise OptionError(
        f"{quoted(value)}: write a {what} {bounds}{example and f', such as {example}'}",
        param.opts[-1].lstrip("-") if param is not None else "",
    )


RATIO = Real(1, 1000, example="1.05 for 5 %")  # of times that a check may allow
TIMEOUT = Real(1, LONGEST_TIMEOUT, "number of seconds")
