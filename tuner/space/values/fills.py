"""The `fill:` of inputs, as declared: random numbers, a sequence, a file, or the result of a Python function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tuner.classes import dataclass
from tuner.errors import SpaceError
from tuner.quoting import quoted, shown
from tuner.space import expressions
from tuner.space.dtypes import DType
from tuner.space.expressions import Expression
from tuner.space.values import python_function
from tuner.space.values.function_object import FunctionObject
from tuner.space.values.python_function import PythonFunction

SEQUENCES = ("zeros", "ones", "arange", "permutation")
DISTRIBUTIONS = ("uniform", "normal", "integers")  # each takes two numbers


@dataclass(frozen=True)
class Fill:
    """The contents of an input, as declared.

    kind: a word of SEQUENCES or DISTRIBUTIONS, `choice`, `file` or `python`.
    values: the two numbers of a distribution, or expressions of sizes for them; for `choice`, the numbers to draw from.
    file: the .npy file of kind `file`.
    tile: if true, the file's contents are repeated or cut to fit; otherwise its shape must match.
    drawn: whether the file's contents were drawn at random, so that they are no part of the identity of a study.
    function: the Python function of kind `python`. One call fills all arguments that name the same function.
    """

    kind: str
    values: tuple[float | Expression, ...] = ()
    file: Path | None = None
    tile: bool = False
    function: PythonFunction | FunctionObject | None = None
    drawn: bool = False

    @property
    def is_random(self) -> bool:
        """Whether the contents depend on the seed."""
        return self.kind in DISTRIBUTIONS or self.kind in ("permutation", "choice", "python")

    @property
    def is_sequence(self) -> bool:
        """Whether a word of SEQUENCES declares the contents."""
        return self.kind in SEQUENCES

    @property
    def text(self) -> str:
        """The text that identifies the contents, for signatures; it contains only the name of a file."""
        if self.function is not None:
            return f"{self.kind} {self.function}"
        name = self.file.name if self.file else ""
        return f"{self.kind} {self.values_text} {name} {self.tile}"

    @property
    def values_text(self) -> str:
        """The values as a space file writes them: `[0, v - 1]`."""
        return f"[{', '.join(v.text if isinstance(v, Expression) else repr(v) for v in self.values)}]"

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The values that depend on sizes."""
        return tuple(value for value in self.values if isinstance(value, Expression))

    @property
    def numbers(self) -> tuple[float, ...]:
        """The values that do not depend on sizes."""
        return tuple(value for value in self.values if not isinstance(value, Expression))

    def at(self, sizes: Mapping[str, int], dtype: DType) -> Fill:
        """The fill with its expressions evaluated at `sizes`.

        Raises SpaceError if the values are invalid, or if an array of `dtype` cannot hold them.
        """
        if not self.expressions:
            return self
        try:
            fill = replace(self, values=tuple(_number(value, sizes) for value in self.values))
            _check_order(fill.kind, list(fill.numbers))
            check_values(fill, dtype)
        except ValueError as error:
            raise SpaceError(f"fill {self.kind}: {shown(self.values_text)}: {error}") from None
        return fill


def parse(value: object, folder: Path) -> Fill:
    """The Fill of a `fill:` in a space file. Files are relative to `folder`. Raises ValueError if `value` is not a
    fill."""
    if isinstance(value, str) and value in SEQUENCES:
        return Fill(value)
    if callable(value):
        return Fill("python", function=FunctionObject.of(value))
    if isinstance(value, dict) and isinstance(value.get("file"), str) and value.keys() <= {"file", "fit", "drawn"}:
        if value.get("fit", "tile") != "tile":
            raise ValueError(f"fit: {quoted(value['fit'])}: write tile, or leave it out")
        if not isinstance(value.get("drawn", True), bool):
            raise ValueError(f"drawn: {quoted(value['drawn'])}: write true or false")
        return Fill("file", file=folder / value["file"], tile="fit" in value, drawn=value.get("drawn", False))
    if isinstance(value, dict) and len(value) == 1:
        ((kind, argument),) = value.items()
        if kind == "python":
            return Fill("python", function=python_function.parse(argument, folder))
        if kind == "choice" and isinstance(argument, list) and argument and all(map(_is_number, argument)):
            return Fill("choice", tuple(argument))
        if kind in DISTRIBUTIONS and isinstance(argument, list) and len(argument) == 2:
            if all(map(_is_number, argument)):
                _check_order(kind, argument)
                return Fill(kind, tuple(argument))
            if all(_is_number(bound) or isinstance(bound, str) for bound in argument):
                return Fill(kind, tuple(map(_bound, argument)))
    raise ValueError(
        f"{quoted(value)} is not a fill; write {{uniform: [low, high]}}, {{normal: [mean, deviation]}}, "
        f"{{integers: [low, high]}}, {{choice: [1, 2, 4]}}, {{file: x.npy}}, {{python: data.py:make}}, "
        f"{', '.join(SEQUENCES)}"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _bound(value: float | str) -> float | Expression:
    """A bound of a distribution; text becomes an Expression."""
    return expressions.parse_value(value) if isinstance(value, str) else value


def _number(value: float | Expression, sizes: Mapping[str, int]) -> float:
    """A value at these sizes; a whole number is returned as int."""
    number = value.evaluate(sizes) if isinstance(value, Expression) else value
    if not _is_number(number):
        raise ValueError(f"{quoted(number)} is not a finite number")
    return int(number) if number == int(number) else number


def _check_order(kind: str, values: list[float]) -> None:
    low, high = values
    if kind == "normal" and high < 0:
        raise ValueError(f"normal: {values}: the deviation must be at least 0")
    if kind != "normal" and low > high:
        raise ValueError(f"{kind}: {values}: write the lower bound first")
    if kind == "integers" and any(value != int(value) for value in values):
        raise ValueError(f"integers: {values}: both bounds must be whole numbers; they are drawn, too")
    if kind == "integers" and not -(2**63) <= low <= high < 2**63:
        raise ValueError(f"integers: {values}: both bounds must fit a signed 64-bit integer")


def check_values(fill: Fill, dtype: DType) -> None:
    """Raise ValueError for values that an array of `dtype` cannot hold."""
    if fill.is_sequence or fill.kind in ("file", "python"):
        return
    if dtype.is_exact and fill.kind in ("uniform", "normal"):
        raise ValueError(
            f"{fill.kind} gives fractions, which {dtype.name} cannot hold; write {{integers: [low, high]}}"
        )
    numbers = list(fill.numbers)  # expressions are checked when `at` has evaluated them
    if dtype.is_exact and any(value != int(value) for value in numbers):
        raise ValueError(f"{numbers}: {dtype.name} holds only whole numbers")
    if not all(dtype.low <= value <= dtype.high for value in numbers):
        raise ValueError(f"{numbers}: {dtype.name} holds {dtype.low} to {dtype.high}")
