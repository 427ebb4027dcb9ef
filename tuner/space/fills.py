"""What the inputs of a kernel hold: random numbers of a distribution, a sequence, a file, or what a function returns.

Without a `fill:` an input holds `STANDARD`: see `standard`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuner.errors import SpaceError

Array = np.ndarray[Any, np.dtype[Any]]
SEQUENCES = ("zeros", "ones", "arange", "permutation")
DISTRIBUTIONS = {"uniform": 2, "normal": 2, "integers": 2}  # with their numbers of parameters
MOST_FILE_BYTES = 1 << 34


@dataclass(frozen=True)
class Fill:
    """The contents of an input.

    kind: a word of SEQUENCES or DISTRIBUTIONS, `choice`, `file` or `python`.
    values: the parameters of a distribution, or what `choice` draws from.
    file: the file, of `file` or `python`; `function` is the name in the latter.
    tile: whether a file's contents are repeated, or cut, until they fit.
    """

    kind: str
    values: tuple[float, ...] = ()
    file: Path | None = None
    function: str = ""
    tile: bool = False

    @property
    def is_random(self) -> bool:
        """Whether another seed gives other contents."""
        return self.kind in DISTRIBUTIONS or self.kind in ("permutation", "choice", "python")

    @property
    def text(self) -> str:
        """What identifies the contents, besides those of a file."""
        name = self.file.name if self.file else ""
        return f"{self.kind} {self.values} {name}:{self.function} {self.tile}"


def parse(value: object, folder: Path) -> Fill:
    """The fill that a space file says, whose files are beside it in `folder`. Raises ValueError for any other value."""
    if value in SEQUENCES:
        return Fill(str(value))
    if isinstance(value, dict) and isinstance(value.get("file"), str) and value.keys() <= {"file", "fit"}:
        if value.get("fit", "exactly") not in ("exactly", "tile"):
            raise ValueError(f"fit: {value['fit']!r}: write tile, or leave it out")
        return Fill("file", file=folder / value["file"], tile=value.get("fit") == "tile")
    if isinstance(value, dict) and len(value) == 1:
        ((kind, argument),) = value.items()
        if kind == "python" and isinstance(argument, str) and argument.partition(":")[2].isidentifier():
            file, _, function = argument.partition(":")
            return Fill("python", file=folder / file, function=function)
        numbers = isinstance(argument, list) and all(_is_number(number) for number in argument)
        if kind == "choice" and numbers and argument:
            return Fill("choice", tuple(argument))
        if kind in DISTRIBUTIONS and numbers and len(argument) == DISTRIBUTIONS[kind]:
            _check_order(kind, argument)
            return Fill(kind, tuple(argument))
    raise ValueError(
        f"{str(value)[:80]!r} is no way to fill an array; write {{uniform: [low, high]}}, "
        f"{{normal: [mean, deviation]}}, {{integers: [low, high]}}, {{choice: [1, 2, 4]}}, {{file: x.npy}}, "
        f"{{python: data.py:function}}, {', '.join(SEQUENCES)}"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_order(kind: str, values: list[float]) -> None:
    low, high = values
    if kind == "normal" and high < 0:
        raise ValueError(f"normal: {values}: the deviation is at least 0")
    if kind != "normal" and low > high:
        raise ValueError(f"{kind}: {values}: the lower bound comes first")
    if kind == "integers" and any(value != int(value) for value in values):
        raise ValueError(f"integers: {values}: both bounds are whole numbers, and are drawn, too")


def contents(
    fill: Fill, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], generator: np.random.Generator
) -> Array:
    """The contents of the array `name`, for every kind but `python`, whose function returns arrays of its own.

    Raises SpaceError for values that do not fit the dtype, and for a file that does not fit the shape.
    """
    match fill.kind:
        case "file":
            return _from_file(fill, name, dtype, shape)
        case "zeros" | "ones":
            return np.full(shape, int(fill.kind == "ones"), dtype)
        case "arange" | "permutation":
            count = math.prod(shape)
            _check_range(name, fill, dtype, 0, count - 1)
            numbers = np.arange(count) if fill.kind == "arange" else generator.permutation(count)
            return numbers.astype(dtype).reshape(shape)
        case "choice":
            _check_range(name, fill, dtype, min(fill.values), max(fill.values))
            return np.asarray(fill.values).astype(dtype)[generator.integers(0, len(fill.values), shape)]
        case "integers":
            _check_range(name, fill, dtype, *fill.values)
            first, last = map(int, fill.values)
            return generator.integers(first, last, shape, endpoint=True).astype(dtype)
        case "uniform":
            _check_range(name, fill, dtype, *fill.values)
            low, high = fill.values
            return (low + (high - low) * generator.random(shape)).astype(dtype)
    mean, deviation = fill.values
    return (mean + deviation * generator.standard_normal(shape)).astype(dtype)


def _check_range(name: str, fill: Fill, dtype: np.dtype[Any], low: float, high: float) -> None:
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    if limits is not None and not limits.min <= low <= high <= limits.max:
        raise SpaceError(
            f"argument {name}: fill {fill.kind} goes from {low:g} to {high:g}; {dtype} holds {limits.min} to "
            f"{limits.max}"
        )


def _from_file(fill: Fill, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    assert fill.file is not None
    try:
        if fill.file.stat().st_size > MOST_FILE_BYTES:
            raise SpaceError(f"{fill.file}: more than {MOST_FILE_BYTES} bytes")
        data: Array = np.load(fill.file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise SpaceError(f"argument {name}: {fill.file} is no .npy file that can be read: {error}") from None
    if data.dtype != dtype:
        raise SpaceError(f"argument {name}: {fill.file} holds {data.dtype}; the kernel takes {dtype}")
    if fill.tile and data.size:
        return np.resize(data, shape)
    if data.shape != shape:
        raise SpaceError(
            f"argument {name}: {fill.file} has shape {data.shape}; {shape} is needed at this size; choose the size "
            "that fits, or say fit: tile"
        )
    return np.array(data)


def standard(dtype: np.dtype[Any], shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """What an input holds unless it says otherwise.

    Floating-point values have random sign and magnitude in [0.5, 1.5). The product of any two is then at least 0.25:
    a kernel that drops a single one differs by far more than rounding does. Integers are drawn from -8 to 8 without 0
    (1 to 8 if unsigned).
    """
    if dtype.kind == "f":
        values = generator.random(shape, dtype=np.float32)
        values += np.float32(0.5)
        np.copysign(values, generator.random(shape, dtype=np.float32) - np.float32(0.5), out=values)
        return values.astype(dtype, copy=False)
    magnitude = generator.integers(1, 9, shape)
    sign = generator.integers(0, 2, shape) * 2 - 1 if dtype.kind == "i" else 1
    return np.asarray(magnitude * sign).astype(dtype)


def call_python(fill: Fill, module: Any, generator: np.random.Generator, sizes: Mapping[str, int]) -> Any:
    """What the function of a `python` fill returns. Raises SpaceError where it is missing, or raises."""
    function = getattr(module, fill.function, None)
    if not callable(function):
        raise SpaceError(f"{fill.file}: there is no function {fill.function}")
    try:
        return function(generator, **sizes)
    except Exception as error:
        raise SpaceError(f"{fill.file}: {fill.function}() raised {type(error).__name__}: {error}") from None
