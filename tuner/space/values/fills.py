"""The `fill:` of inputs: random numbers, a sequence, a file, or the result of a Python function.

An input without `fill:` gets the elements that `standard` draws.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tuner.classes import dataclass
from tuner.errors import SpaceError
from tuner.quoting import quoted, shown
from tuner.space import expressions, snapshot
from tuner.space.dtypes import DType
from tuner.space.expressions import Expression
from tuner.space.values import drawing, python_function
from tuner.space.values.copies import copied
from tuner.space.values.drawing import Draw, Drawn
from tuner.space.values.elements import ON_DEVICE_BYTES, Elements, Held
from tuner.space.values.function_object import FunctionObject
from tuner.space.values.python_function import PythonFunction

Array = np.ndarray[Any, np.dtype[Any]]
SEQUENCES = ("zeros", "ones", "arange", "permutation")
DISTRIBUTIONS = ("uniform", "normal", "integers")  # each takes two numbers
MOST_FILE_BYTES = 1 << 34
_in_use: WeakValueDictionary[tuple[Any, ...], Held] = WeakValueDictionary()  # what files hold, by file and type
_KINDS = {"real": "f", "complex": "c", "integer": "iu"}  # NumPy kinds that may be converted to each kind of DType


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
    if fill.kind in ("file", "python", *SEQUENCES):
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


def contents(fill: Fill, name: str, dtype: DType, shape: tuple[int, ...], seed: int, position: int) -> Elements:
    """The contents of the array `name` in one input set.

    fill: must not contain expressions.
    seed: that of the input set.
    position: the index of the array among the arguments.

    Both parts of a complex element are drawn alike; a sequence of complex elements is real. Raises SpaceError if a
    sequence or a file does not fit the array.
    """
    if fill.kind == "file":
        return _held(fill, name, dtype, shape)
    if fill.kind in SEQUENCES:
        return _sequence(fill.kind, name, dtype, shape, seed, position)
    values = tuple(fill.numbers)
    match fill.kind:
        case "choice":
            draw = Draw("table", values)
        case "integers":
            first, last = map(int, values)
            draw = Draw("integers", (first, last - first + 1))
        case "uniform":
            draw = Draw("uniform", (values[0], values[1] - values[0]))
        case _:
            draw = Draw("normal", values)
    return _drawn(draw, dtype, shape, seed, position)


def _sequence(kind: str, name: str, dtype: DType, shape: tuple[int, ...], seed: int, position: int) -> Elements:
    count = math.prod(shape)
    if kind in ("arange", "permutation") and count - 1 > dtype.high:
        raise SpaceError(
            f"argument {name}: fill {kind} ends with {count - 1} at this size; the largest {dtype.name} is "
            f"{dtype.high}; choose a smaller size, or write {{integers: [low, high]}}"
        )
    if kind == "permutation":  # each element depends on all others
        numbers = np.random.default_rng([seed, position]).permutation(count)
    elif dtype.part:
        numbers = np.arange(count) if kind == "arange" else np.full(count, int(kind == "ones"))
    else:
        draw = Draw("sequence") if kind == "arange" else Draw("table", (int(kind == "ones"),))
        return _drawn(draw, dtype, shape, seed, position)
    return Held(numbers.astype(dtype.numpy).reshape(shape))


def _drawn(draw: Draw, dtype: DType, shape: tuple[int, ...], seed: int, position: int) -> Elements:
    """The drawn elements; a small array is drawn at once and held on the host."""
    drawn = Drawn(draw, dtype, shape, drawing.key(seed, position))
    return drawn if drawn.nbytes >= ON_DEVICE_BYTES else Held(drawn.array())


def opened(fill: Fill, name: str, dtypes: Sequence[DType]) -> Array:
    """The array in the fill's file, memory-mapped.

    The file must hold one of `dtypes`; for a type of ml_dtypes, it holds the bits as integers, because .npy files have
    no names for these types. Raises SpaceError if the file cannot be read, or holds another type.
    """
    file = fill.file
    assert file is not None
    try:
        place = snapshot.place(file)
        if not place.is_file() or place.stat().st_size > MOST_FILE_BYTES:
            raise ValueError(f"not a file of at most {MOST_FILE_BYTES} bytes" if place.exists() else "no such file")
        with place.open("rb") as start:  # for any other file, NumPy's message suggests loading it as a pickle
            if start.read(2) not in (b"\x93N", b"PK"):
                raise ValueError("it has no .npy header")
        data = np.load(place, mmap_mode="r", allow_pickle=False)
        if not isinstance(data, np.ndarray):
            raise ValueError("it holds several arrays")
    except (OSError, ValueError, EOFError) as error:
        raise SpaceError(f"argument {name}: {shown(file)}: cannot be read as .npy: {shown(error)}") from None
    if not any(dtype.is_held_by(data.dtype) for dtype in dtypes):
        names = " or ".join(f"the bits of {d.name} as {d.bits}" if d.foreign else d.name for d in dtypes)
        raise SpaceError(f"argument {name}: {shown(file)} holds {data.dtype}; the kernel takes {names}; convert it")
    if not data.size:
        raise SpaceError(f"argument {name}: {shown(file)} holds an empty array")
    return data


def _held(fill: Fill, name: str, dtype: DType, shape: tuple[int, ...]) -> Held:
    """What the fill's file holds. While it is in use, what was read is not read again: it may have gigabytes."""
    assert fill.file is not None
    place = snapshot.place(fill.file)
    with contextlib.suppress(OSError):  # which the reading reports
        about = place.stat()
        key = (str(place), about.st_ino, about.st_mtime_ns, about.st_size, fill.tile, dtype.name, shape)
        if (held := _in_use.get(key)) is None:
            held = _in_use[key] = Held(_from_file(fill, name, dtype, shape))
        return held
    return Held(_from_file(fill, name, dtype, shape))


def _from_file(fill: Fill, name: str, dtype: DType, shape: tuple[int, ...]) -> Array:
    data = opened(fill, name, [dtype]).view(dtype.numpy)
    if fill.tile:
        return np.resize(data, shape)
    if data.shape != shape:
        raise SpaceError(
            f"argument {name}: {shown(fill.file)} has shape {data.shape}; {shape} is needed at this size; choose the "
            "size that matches, or write fit: tile"
        )
    return np.array(data, order="C")


def checked(value: Array, name: str, dtype: DType, shape: tuple[int, ...], origin: str, chosen: bool = False) -> Array:
    """`value`, the result of a Python function, as the contents of the array `name`.

    origin: the beginning of error messages.
    chosen: `dtype` is one of several types of the operation; then numbers of the same kind are converted.

    Raises SpaceError if type or shape differ, or if `dtype` cannot hold the numbers.
    """
    if chosen and not dtype.is_held_by(value.dtype) and value.dtype.kind in _KINDS.get(dtype.kind, ""):
        value = _converted(value, name, dtype, origin)
    if not dtype.is_held_by(value.dtype):
        raise SpaceError(f"{origin} returns {value.dtype} for {name}; the kernel takes {dtype.name}; convert it")
    if value.shape != shape:
        raise SpaceError(f"{origin} returns shape {value.shape} for {name}; {shape} is needed at this size")
    return copied(value).view(dtype.numpy)


def _converted(value: Array, name: str, dtype: DType, origin: str) -> Array:
    with np.errstate(all="ignore"):
        converted = value.astype(dtype.numpy)
        lost = converted != value if dtype.is_exact else np.isfinite(value) & ~np.isfinite(converted)
    if lost.any():
        raise SpaceError(f"{origin} returns {value[lost][0]} for {name}; {dtype.name}, the chosen type, cannot hold it")
    return converted


def standard(dtype: DType, shape: tuple[int, ...], seed: int, position: int) -> Elements:
    """The contents of an input without `fill:`.

    Floating-point elements have random signs and magnitudes in [0.5, 1.5). The product of any two has a magnitude of at
    least 0.25, so a kernel that drops one product differs by far more than rounding does. Integers are drawn from -8 to
    8 (1 to 8 if unsigned) without 0, because a 0 would hide its factor. If the seed is even, as in the first input set,
    one element in nine is 0, so that a kernel that ignores a mask is caught. Both parts of a complex element are drawn
    like this.
    """
    if dtype.kind == "integer" and seed % 2 == 0:
        others = range(1, 9)
        table = (0, *others) if dtype.low >= 0 else (0, 0, *others, *(-number for number in others))
        return _drawn(Draw("table", table), dtype, shape, seed, position)
    return _drawn(Draw("standard"), dtype, shape, seed, position)
