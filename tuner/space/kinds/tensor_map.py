"""Tensor maps: array descriptors with which the tensor memory accelerator (TMA) of Hopper copies boxes of an array.

Source of the limits: CUDA driver API, Tensor Map Object Management, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.space import chosen_types
from tuner.space.argument import Arguments, Assembly, Exported, Key, Kind
from tuner.space.expressions import Expression

if TYPE_CHECKING:
    from tuner.space.argument import Argument, Declared

BYTES = 128
MOST_AXES, MOST_BOX = 5, 256
UNIT = 16  # bytes: rows of the array and of the box are multiples of it
# The values of the enumerations in cuda.h.
TYPES = {
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip
BY_SIZE = {1: 0, 2: 1, 4: 2, 8: 4}  # bytes per element: other types are copied as integers of their size
SWIZZLES, INTERLEAVES = {0: 0, 32: 1, 64: 2, 128: 3}, {0: 0, 16: 1, 32: 2}
PROMOTIONS, FILLS = {0: 0, 64: 1, 128: 2, 256: 3}, {"zeros": 0, "nan": 1}

C = """\
typedef int encoder(void *, int, unsigned, void *, const unsigned long long *, const unsigned long long *,
                    const unsigned *, const unsigned *, int, int, int, int);
const unsigned long long extents[] = {extents}, strides[] = {strides};
const unsigned box[] = {box}, steps[] = {steps};
encoder *encode = (encoder *)driver("cuTensorMapEncodeTiled");
return encode(value, {type}, {rank}, (void *)(size_t)address, extents, strides, box, steps, {interleave}, {swizzle},
              {promotion}, {fill});
"""


@dataclass(frozen=True)
class Tiled:
    """The arguments of cuTensorMapEncodeTiled.

    The innermost axis comes first. `strides` are in bytes and omit the innermost axis.
    """

    type: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    interleave: int
    swizzle: int
    promotion: int
    fill: int


@dataclass(frozen=True)
class TensorMap(Kind):
    """A `const __grid_constant__ CUtensorMap` that describes the array `of`, passed by value.

    box: the extents that one instruction copies, in elements, in the order of the array's axes.
    swizzle, interleave: in bytes, 0 for none.
    promotion: the size of an L2 fetch, in bytes, 0 for the default.
    fill: what reads outside the array return.
    """

    of: str
    box: tuple[Expression, ...]
    swizzle: tuple[Expression, ...]
    interleave: tuple[Expression, ...]
    promotion: tuple[Expression, ...]
    fill: str

    name = "tensor_map"
    languages = ("cuda",)
    roles = (None,)
    has_shape = False
    keys = {  # noqa: RUF012  # a class variable of the base
        "of": Key(is_name=True, help="the array that it describes"),
        "box": Key(help="extents of what is copied at once, in the order of the array's axes"),
        "swizzle": Key(default=0, help="bytes: 0, 32, 64 or 128"),
        "interleave": Key(default=0, help="bytes: 0, 16 or 32"),
        "promotion": Key(default=128, help="bytes that L2 fetches at once: 0, 64, 128 or 256"),
        "fill": Key(choices=("zeros", "nan"), default="zeros", help="what lies outside the array"),
    }

    def fault(self, argument: Argument, operation: Declared) -> tuple[str, str] | None:
        array = next((a for a in operation.arrays if a.name == self.of), None)
        if array is None or array.shape is None:
            names = ", ".join(a.name for a in operation.arrays)
            return "of", f"{self.of} is no array that the caller passes; there are: {names}"
        if not 1 <= len(array.shape) <= MOST_AXES:
            return "of", f"{self.of} has {len(array.shape)} axes; the TMA takes 1 to {MOST_AXES}"
        if len(self.box) != len(array.shape):
            return "box", f"{len(self.box)} extents; {self.of} has {len(array.shape)} axes: write one for each"
        for key in ("swizzle", "interleave", "promotion"):
            if len(getattr(self, key)) != 1:
                return key, "write one number of bytes"
        sizes = {dtype.itemsize for dtype in chosen_types.choices(array, operation.types)}
        if len(sizes) > 1 or not sizes <= {1, 2, 4, 8}:
            return "of", f"{array.dtype} has elements of {sorted(sizes)} bytes; the TMA needs one size: 1, 2, 4 or 8"
        return None

    def restrictions(self, argument: Argument, operation: Declared) -> list[tuple[str, str]]:
        array = next(a for a in operation.arrays if a.name == self.of)
        itemsize = chosen_types.choices(array, operation.types)[0].itemsize
        extents = [f"({extent.text})" for extent in array.shape or ()]
        box = [f"({extent.text})" for extent in self.box]
        swizzle, interleave, promotion = (f"({e[0].text})" for e in (self.swizzle, self.interleave, self.promotion))
        unit = f"({UNIT} if {interleave} < 32 else 32)" if interleave != "(0)" else str(UNIT)
        restrictions = [("compute_capability >= 9.0", "tensor maps need compute capability 9.0")]
        for axis in range(1, len(extents)):
            row = " * ".join(extents[axis:])
            restrictions.append(
                (f"{row} * {itemsize} % {unit} == 0", f"the TMA takes rows of {self.of} that are multiples of 16 bytes")
            )
        restrictions += [
            (f"1 <= {extent} <= {MOST_BOX}", f"the TMA copies 1 to {MOST_BOX} elements along an axis") for extent in box
        ]
        restrictions.append(
            (f"{box[-1]} * {itemsize} % {UNIT} == 0", "the rows of a TMA's box are multiples of 16 bytes")
        )
        modes = {"swizzle": (swizzle, SWIZZLES), "interleave": (interleave, INTERLEAVES)}
        for key, (value, allowed) in {**modes, "promotion": (promotion, PROMOTIONS)}.items():
            restrictions.append(
                (" or ".join(f"{value} == {n}" for n in allowed), f"the TMA supports only these values of {key}")
            )
        restrictions.append(
            (f"{swizzle} == 0 or {box[-1]} * {itemsize} <= {swizzle}", "a row of the box must fit into the swizzle")
        )
        if interleave != "(0)":
            restrictions.append(
                (f"{interleave} != 32 or {swizzle} == 32", "an interleave of 32 bytes needs a swizzle of 32 bytes")
            )
        return [(that, because) for that, because in restrictions if not _is_always_true(that)]

    @property
    def describes(self) -> tuple[str, ...]:
        return (self.of,)

    def alignments(self, argument: Argument) -> dict[str, int]:
        return {self.of: 32}

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        tiled = self._tiled(assembly.instance)
        return assembly.encoded(self.of, BYTES, partial(assembly.device.tensor_map, tiled=tiled))

    def export(self, argument: Argument, arguments: Arguments) -> Exported:
        tiled = self._tiled(arguments)
        rank = len(tiled.extents)
        words = {name: _list(value) if isinstance(value, tuple) else value for name, value in asdict(tiled).items()}
        words |= {"rank": rank, "steps": _list((1,) * rank), "strides": _list(tiled.strides or (0,))}
        code = C
        for name, word in words.items():
            code = code.replace(f"{{{name}}}", str(word))
        return Exported(of=self.of, nbytes=BYTES, encode=code)

    def _tiled(self, arguments: Arguments) -> Tiled:
        names, shape = arguments.scope.names, arguments.shape(self.of)
        element = chosen_types.dtype(arguments.argument(self.of), arguments.scope)
        strides = [math.prod(shape[axis:]) * element.itemsize for axis in range(1, len(shape))]
        return Tiled(
            type=TYPES.get(element.name, BY_SIZE[element.itemsize]),
            extents=shape[::-1],
            strides=tuple(reversed(strides)),
            box=tuple(extent.integer(names) for extent in reversed(self.box)),
            interleave=INTERLEAVES[self.interleave[0].integer(names)],
            swizzle=SWIZZLES[self.swizzle[0].integer(names)],
            promotion=PROMOTIONS[self.promotion[0].integer(names)],
            fill=FILLS[self.fill],
        )


def _list(numbers: tuple[int, ...]) -> str:
    return f"{{{', '.join(map(str, numbers))}}}"


def _is_always_true(that: str) -> bool:
    """Whether a condition uses no names and holds, so that it needs no restriction."""
    from tuner.space.expressions import parse

    expression = parse(that)
    return not expression.names and bool(expression.evaluate({}))
