"""Structs and vectors that a kernel takes by value: their numbers, and their layout in each language."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tuner.space.argument import Argument, Field
from tuner.space.dtypes import DTYPES

if TYPE_CHECKING:
    from tuner.space.expressions import Expression

Types = Mapping[str, str]  # the chosen dtype of each name of `types`

_VECTOR = re.compile(r"(char|uchar|short|ushort|int|uint|long|ulong|half|float|double)([234])")
_NUMBERS = {dtype.words.opencl: dtype.name for dtype in DTYPES.values() if not dtype.part and not dtype.foreign}
_CUDA_ALIGNMENT = 16  # bytes: the largest of a vector in CUDA


class Vector(NamedTuple):
    """A type such as float4: the dtype of its numbers, and how many there are."""

    dtype: str
    width: int

    @property
    def components(self) -> tuple[str, ...]:
        """The names of its numbers."""
        return tuple("xyzw"[: self.width])

    def layout(self, language: str) -> StructLayout:
        """Its layout. OpenCL pads three numbers to four. C has no vectors, so there it is a struct."""
        number = DTYPES[self.dtype].itemsize
        size = number * (4 if self.width == 3 and language == "opencl" else self.width)
        if language == "opencl":
            alignment = size
        elif language == "cuda" and self.width != 3:
            alignment = min(size, _CUDA_ALIGNMENT)
        else:
            alignment = number
        formats = [DTYPES[self.dtype].numpy] * self.width
        return StructLayout(
            _structured(self.components, formats, [number * i for i in range(self.width)], size), alignment
        )


def vector(name: str) -> Vector | None:
    """The vector type of this name, as in OpenCL and CUDA; None if it is no vector."""
    match = _VECTOR.fullmatch(name)
    return Vector(_NUMBERS[match[1]], int(match[2])) if match else None


class StructLayout(NamedTuple):
    """The layout of a struct or vector: its NumPy dtype, with C's padding, and its alignment in bytes."""

    dtype: np.dtype[Any]
    alignment: int


def numbers(argument: Argument) -> tuple[Argument, ...]:
    """The numbers of a struct or vector as scalars of their own, in order; the scalar itself if it is neither."""
    if not argument.fields:
        return (argument,)
    return tuple(_numbers(f"{argument.name}.", argument.fields))


def _numbers(prefix: str, fields: Sequence[Field]) -> Iterator[Argument]:
    for field in fields:
        name = f"{prefix}{field.name}"
        if field.fields:
            yield from _numbers(f"{name}.", field.fields)
            continue
        kind = vector(field.dtype)
        for number, expression in enumerate(field.value):
            place = "" if len(field.value) == 1 else f"[{number}]"
            yield Argument(f"{name}{place}", kind.dtype if kind else field.dtype, value=(expression,))


def expressions(argument: Argument) -> tuple[Expression, ...]:
    """The expressions of all numbers of a struct, vector or scalar."""
    return tuple(expression for number in numbers(argument) for expression in number.value)


def layout(argument: Argument, language: str, types: Types) -> StructLayout:
    """The layout of a struct or vector. `types` are the chosen types."""
    kind = vector(argument.dtype)
    return kind.layout(language) if kind else _struct(argument.fields, language, types)


def packed(argument: Argument, values: Sequence[np.generic], language: str, types: Types) -> np.void:
    """A struct or vector of these `values`, its `numbers` in their dtypes."""
    dtype = layout(argument, language, types).dtype
    content = bytearray(dtype.itemsize)
    for offset, value in zip(_offsets(dtype), values, strict=True):
        content[offset : offset + value.itemsize] = value.tobytes()
    made: np.void = np.frombuffer(bytes(content), dtype)[0]
    return made


def pointers(argument: Argument, language: str, types: Types) -> list[tuple[int, str]]:
    """The pointers of a struct: each its offset in bytes, and the array that it points to."""
    if not argument.fields or not argument.reaches:
        return []
    arrays = list(_arrays(argument.fields))
    offsets = _offsets(layout(argument, language, types).dtype)
    return [(offset, name) for offset, name in zip(offsets, arrays, strict=True) if name]


def values(argument: Argument) -> list[tuple[str, str]]:
    """The name and the value of each number of a struct, vector or scalar, as text: of a pointer, its array."""
    arrays = list(_arrays(argument.fields)) or [""]
    return [(n.name, array or n.value[0].text) for n, array in zip(numbers(argument), arrays, strict=True)]


def _arrays(fields: Sequence[Field]) -> Iterator[str]:
    """For each number of these fields, in order, the array that it points to; empty if it is no pointer."""
    for field in fields:
        if field.fields:
            yield from _arrays(field.fields)
        else:
            yield from field.arrays or [""] * len(field.value)


def end(dtype: np.dtype[Any], name: str) -> int:
    """The end of the field `name` of a struct, in bytes from its beginning."""
    assert dtype.fields is not None
    field, offset, *_ = dtype.fields[name]
    return int(offset) + field.itemsize


def described(argument: Argument, language: str, types: Types) -> str:
    """Its size and fields, for a message: `32 bytes (dt: float32 at 0, origin: float4 at 16)`."""
    dtype = layout(argument, language, types).dtype
    names = {f.name: f"pointer to {', '.join(f.arrays)}" if f.arrays else f.dtype or "struct" for f in argument.fields}
    fields = [f"{name}: {names[name]} at {offset}" for name, (_, offset, *_) in (dtype.fields or {}).items()]
    return f"{dtype.itemsize} bytes ({', '.join(fields)})"


def _struct(fields: Sequence[Field], language: str, types: Types) -> StructLayout:
    """C's layout of a struct: each field at the next multiple of its alignment, unless it says where."""
    end, largest, is_natural, offsets, formats = 0, 1, True, list[int](), list[np.dtype[Any]]()
    for field in fields:
        dtype, alignment = _field(field, language, types)
        alignment = max(alignment, field.align)
        offset = end + -end % alignment if field.offset is None else field.offset
        is_natural = is_natural and offset % alignment == 0
        end, largest = offset + dtype.itemsize, max(largest, alignment)
        offsets.append(offset)
        formats.append(dtype)
    if not is_natural:  # packed: such a struct has no alignment, and so no padding at its end
        largest = 1
    return StructLayout(_structured([field.name for field in fields], formats, offsets, end + -end % largest), largest)


def _field(field: Field, language: str, types: Types) -> StructLayout:
    kind = vector(field.dtype)
    if field.fields:
        dtype, alignment = _struct(field.fields, language, types)
    elif kind:
        dtype, alignment = kind.layout(language)
    else:
        element = DTYPES[types.get(field.dtype, field.dtype)]
        # In C, a complex number is as aligned as its parts; CUDA and OpenCL take it for a vector.
        alignment = element.itemsize // (element.parts if language == "c" else 1)
        dtype = np.dtype(element.bits) if element.foreign else element.numpy
    return StructLayout(np.dtype((dtype, field.shape)) if field.shape else dtype, alignment)


def _structured(
    names: Sequence[str], formats: Sequence[np.dtype[Any]], offsets: Sequence[int], size: int
) -> np.dtype[Any]:
    layout: Any = {"names": [*names], "formats": [*formats], "offsets": [*offsets], "itemsize": size}
    dtype: np.dtype[Any] = np.dtype(layout)
    return dtype


def _offsets(dtype: np.dtype[Any], start: int = 0) -> Iterator[int]:
    """The offset of each number in a value of `dtype`, in bytes from `start`."""
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        for number in range(math.prod(shape)):
            yield from _offsets(element, start + number * element.itemsize)
    elif dtype.fields is None:
        yield start
    else:
        fields: Mapping[str, Any] = dtype.fields
        for name in dtype.names or ():
            yield from _offsets(fields[name][0], start + fields[name][1])
