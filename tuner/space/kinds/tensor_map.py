"""Tensor maps: descriptions of arrays by which Hopper's tensor memory accelerator (TMA) copies boxes of them.

What can be encoded: CUDA driver API, Tensor Map Object Management, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tuner.space import chosen_types
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import Expression
from tuner.space.kinds import Assembly, Key, Kind

if TYPE_CHECKING:
    from tuner.space.model import Argument, Operation

BYTES = 128
MOST_AXES, MOST_BOX = 5, 256
UNIT = 16  # bytes: what rows of the array and of the box are multiples of
SWIZZLES, INTERLEAVES, PROMOTIONS = (0, 32, 64, 128), (0, 16, 32), (0, 64, 128, 256)


@dataclass(frozen=True)
class TensorMap(Kind):
    """A `const __grid_constant__ CUtensorMap` over the array `of`, passed by value.

    `box` has the extents of what one instruction copies, in the order of the array's axes. `swizzle`, `interleave` and
    `promotion` (of what is fetched into the L2 cache) are in bytes, 0 for none; `fill` is what lies outside the array.
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

    def fault(self, argument: Argument, operation: Operation) -> tuple[str, str] | None:
        array = next((a for a in operation.arrays if a.name == self.of), None)
        if array is None or array.shape is None:
            there = ", ".join(a.name for a in operation.arrays)
            return "of", f"{self.of} is no array that the caller passes; there are: {there}"
        if len(array.shape) > MOST_AXES:
            return "of", f"{self.of} has {len(array.shape)} axes; the TMA takes at most {MOST_AXES}"
        if len(self.box) != len(array.shape):
            return "box", f"{len(self.box)} extents; {self.of} has {len(array.shape)} axes: write one for each"
        for key in ("swizzle", "interleave", "promotion"):
            if len(getattr(self, key)) != 1:
                return key, "write one number of bytes"
        sizes = {DTYPES[name].itemsize for name in operation.types.get(array.dtype, (array.dtype,))}
        if len(sizes) > 1 or DTYPES[operation.types.get(array.dtype, (array.dtype,))[0]].itemsize not in (1, 2, 4, 8):
            return "of", f"{array.dtype} has elements of {sorted(sizes)} bytes; the TMA takes one of 1, 2, 4, 8"
        return None

    def restrictions(self, argument: Argument, operation: Operation) -> list[tuple[str, str]]:
        array = next(a for a in operation.arrays if a.name == self.of)
        itemsize = DTYPES[operation.types.get(array.dtype, (array.dtype,))[0]].itemsize
        extents = [f"({extent.text})" for extent in array.shape or ()]
        box = [f"({extent.text})" for extent in self.box]
        swizzle, interleave, promotion = (f"({e[0].text})" for e in (self.swizzle, self.interleave, self.promotion))
        unit = f"({UNIT} if {interleave} < 32 else 32)" if interleave != "(0)" else str(UNIT)
        found = []
        for axis in range(1, len(extents)):
            row = " * ".join(extents[axis:])
            found.append(
                (f"{row} * {itemsize} % {unit} == 0", f"the TMA takes rows of {self.of} that are multiples of 16 bytes")
            )
        found += [(f"{extent} <= {MOST_BOX}", f"the TMA copies at most {MOST_BOX} along an axis") for extent in box]
        found.append((f"{box[-1]} * {itemsize} % {UNIT} == 0", "the rows of a TMA's box are multiples of 16 bytes"))
        modes = {"swizzle": (swizzle, SWIZZLES), "interleave": (interleave, INTERLEAVES)}
        for key, (value, allowed) in {**modes, "promotion": (promotion, PROMOTIONS)}.items():
            found.append((" or ".join(f"{value} == {n}" for n in allowed), f"what the TMA has as {key}"))
        found.append((f"{swizzle} == 0 or {box[-1]} * {itemsize} <= {swizzle}", "the rows of a box fit the swizzle"))
        if interleave != "(0)":
            found.append((f"{interleave} != 32 or {swizzle} == 32", "an interleave of 32 bytes has a swizzle of 32"))
        return [(that, because) for that, because in found if not _is_plain_truth(that)]

    @property
    def describes(self) -> tuple[str, ...]:
        return (self.of,)

    def alignments(self, argument: Argument) -> dict[str, int]:
        return {self.of: 32}

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        names = assembly.scope.names
        encode = partial(
            assembly.device.tensor_map,
            dtype=chosen_types.dtype(assembly.argument(self.of), assembly.scope),
            shape=assembly.shape(self.of),
            box=tuple(extent.integer(names) for extent in self.box),
            swizzle=self.swizzle[0].integer(names),
            interleave=self.interleave[0].integer(names),
            promotion=self.promotion[0].integer(names),
            fill=self.fill,
        )
        return assembly.encoded(self.of, BYTES, encode)


def _is_plain_truth(that: str) -> bool:
    """Whether a condition without names holds: it says nothing to a reader."""
    from tuner.space.expressions import parse

    expression = parse(that)
    return not expression.names and bool(expression.evaluate({}))
