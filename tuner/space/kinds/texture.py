"""Texture objects over an array of the caller.

What can be read so: CUDA C++ Programming Guide, Texture Object API, and Technical Specifications per Compute
Capability (linear memory).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.space import chosen_types
from tuner.space.dtypes import DTYPES
from tuner.space.kinds import Assembly, Key, Kind

if TYPE_CHECKING:
    from tuner.space.model import Argument, Operation

BYTES = 8
ALIGNMENT, ROW_UNIT = 512, 32  # bytes
MOST_WIDTH, MOST_HEIGHT, MOST_ELEMENTS = 131072, 65000, 2**28
CHANNELS = (1, 2, 4)
TYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "float16", "float32")


@dataclass(frozen=True)
class Texture(Kind):
    """A `cudaTextureObject_t` over an array: of one axis, of rows and columns, or of rows, columns and 2 or 4 channels.

    `filter` is what is between elements, `address` what is outside. `coordinates` count elements or go from 0 to 1.
    `read` gives integers as they are, or as fractions of the largest.
    """

    filter: str
    address: str
    coordinates: str
    read: str

    name = "texture"
    languages = ("cuda",)
    keys = {  # noqa: RUF012  # a class variable of the base
        "filter": Key(choices=("point", "linear"), default="point", help="what is read between elements"),
        "address": Key(choices=("clamp", "border", "wrap", "mirror"), default="clamp", help="what is read outside"),
        "coordinates": Key(choices=("elements", "normalized"), default="elements", help="what coordinates count"),
        "read": Key(choices=("elements", "normalized"), default="elements", help="what integers are read as"),
    }

    def fault(self, argument: Argument, operation: Operation) -> tuple[str, str] | None:
        shape, types = argument.shape or (), operation.types.get(argument.dtype, (argument.dtype,))
        if other := next((name for name in types if name not in TYPES), None):
            return "dtype", f"{other}: a texture has elements of {', '.join(TYPES)}"
        if len(shape) > 3 or (len(shape) == 3 and shape[2].text not in map(str, CHANNELS)):
            return "shape", "a texture has one axis, rows and columns, or these and 1, 2 or 4 channels"
        if len(shape) == 1 and (self.filter, self.address, self.coordinates) != ("point", "clamp", "elements"):
            return "filter", "a texture of one axis reads single elements by their numbers; leave filter, address out"
        if self.address in ("wrap", "mirror") and self.coordinates != "normalized":
            return "address", f"`address: {self.address}` needs `coordinates: normalized`"
        if self.filter == "linear" and self.read == "elements" and any(DTYPES[name].is_exact for name in types):
            return "filter", "integers are filtered as fractions: write `read: normalized`"
        return None

    def restrictions(self, argument: Argument, operation: Operation) -> list[tuple[str, str]]:
        shape = [f"({extent.text})" for extent in argument.shape or ()]
        if len(shape) == 1:
            return [(f"{shape[0]} <= {MOST_ELEMENTS}", "the elements of a texture of one axis")]
        sizes = {DTYPES[name].itemsize for name in operation.types.get(argument.dtype, (argument.dtype,))}
        row = " * ".join(shape[1:])
        rows = f"the rows of the texture {argument.name} begin at multiples of {ROW_UNIT} bytes"
        return [
            (f"{shape[0]} == 1 or {row} * {min(sizes)} % {ROW_UNIT} == 0", rows),
            (f"{shape[1]} <= {MOST_WIDTH} and {shape[0]} <= {MOST_HEIGHT}", "the extents of a texture"),
        ]

    def alignments(self, argument: Argument) -> dict[str, int]:
        return {argument.name: ALIGNMENT}

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        shape, textures = assembly.shape(argument.name), dict[int, Any]()
        element = chosen_types.dtype(argument, assembly.scope)

        def encode(address: int) -> bytes:
            if address not in textures:
                textures[address] = assembly.device.texture(address, element, shape, self)
            handle: bytes = textures[address].handle.value.to_bytes(BYTES, "little")
            return handle

        return assembly.encoded(argument.name, BYTES, encode)
