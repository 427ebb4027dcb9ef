"""The contents of inputs: drawn, from a file, or the result of a Python function.

An input without `fill:` gets the elements that `standard` draws.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from tuner.errors import SpaceError
from tuner.quoting import shown
from tuner.space import snapshot
from tuner.space.dtypes import DType
from tuner.space.values import drawing
from tuner.space.values.copies import copied
from tuner.space.values.drawing import Draw, Drawn
from tuner.space.values.elements import ON_DEVICE_BYTES, Elements, Held

if TYPE_CHECKING:
    from tuner.space.values.fills import Fill

Array = np.ndarray[Any, np.dtype[Any]]
MOST_FILE_BYTES = 1 << 34
_in_use: WeakValueDictionary[tuple[Any, ...], Held] = WeakValueDictionary()  # what files hold, by file and type
_KINDS = {"real": "f", "complex": "c", "integer": "iu"}  # NumPy kinds that may be converted to each kind of DType


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
    if fill.is_sequence:
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
