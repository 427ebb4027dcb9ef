"""Texture objects over an array of the caller.

Source of the limits: CUDA C++ Programming Guide, Texture Object API, and Technical Specifications per Compute
Capability (linear memory).
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.space import chosen_types
from tuner.space.argument import Arguments, Assembly, Exported, Key, Kind

if TYPE_CHECKING:
    from tuner.space.argument import Argument, Declared
    from tuner.space.dtypes import DType

BYTES = 8
ALIGNMENT, ROW_UNIT = 512, 32  # bytes
MOST_WIDTH, MOST_HEIGHT, MOST_ELEMENTS = 131072, 65000, 2**28
CHANNELS = (1, 2, 4)
# The values of the enumerations in cuda.h.
FORMATS = {
    "uint8": 1, "uint16": 2, "uint32": 3, "int8": 8, "int16": 9, "int32": 10, "float16": 16, "float32": 32
}  # fmt: skip
LINEAR, PITCHED = 2, 3  # resource types
ADDRESSES = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
FILTERS = {"point": 0, "linear": 1}
READ_AS_INTEGERS, NORMALIZED = 1, 2  # flags

C = """\
typedef int creator(void *, const void *, const void *, const void *);
struct { /* CUDA_RESOURCE_DESC */
    int resource;
    unsigned long long address;
    int format;
    unsigned channels;
    size_t width, height, pitch;
    int reserved[22];
    unsigned flags;
} array = {{resource}, address, {format}, {channels}, {width}, {height}, {pitch}, {0}, 0};
struct { /* CUDA_TEXTURE_DESC */
    int outside[3], filter;
    unsigned flags, anisotropy;
    float mipmap[4], border[4];
    int reserved[12];
} reading = {{{outside}, {outside}, {outside}}, {filter}, {flags}, 0, {0}, {0}, {0}};
creator *create = (creator *)driver("cuTexObjectCreate");
return create(value, &array, &reading, NULL);
"""


@dataclass(frozen=True)
class Sampled:
    """The arguments of cuTexObjectCreate. `width` is in bytes for a linear resource, otherwise in elements.

    `pitch` is in bytes; `outside` is the addressing mode.
    """

    resource: int
    format: int
    channels: int
    width: int
    height: int
    pitch: int
    outside: int
    filter: int
    flags: int


@dataclass(frozen=True)
class Texture(Kind):
    """A `cudaTextureObject_t` over an array of shape [n], [rows, columns] or [rows, columns, channels].

    filter: the filter mode, "point" or "linear".
    address: the addressing mode, for reads outside the array.
    coordinates: in "elements", or "normalized" (0 to 1).
    read: integers as they are ("elements"), or divided by the largest value of their type ("normalized").
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

    def fault(self, argument: Argument, operation: Declared) -> tuple[str, str] | None:
        shape, types = argument.shape or (), chosen_types.choices(argument, operation.types)
        if other := next((dtype for dtype in types if dtype.name not in FORMATS), None):
            return "dtype", f"{other.name}: a texture has elements of {', '.join(FORMATS)}"
        if not 1 <= len(shape) <= 3 or (len(shape) == 3 and shape[2].text not in map(str, CHANNELS)):
            return "shape", "a texture has one axis, rows and columns, or these and 1, 2 or 4 channels"
        if len(shape) == 1 and (self.filter, self.address, self.coordinates) != ("point", "clamp", "elements"):
            return (
                "filter",
                "a texture of one axis is read by index; leave out filter, address and coordinates",
            )
        if self.address in ("wrap", "mirror") and self.coordinates != "normalized":
            return "address", f"`address: {self.address}` needs `coordinates: normalized`"
        if self.filter == "linear" and self.read == "elements" and any(dtype.is_exact for dtype in types):
            return "filter", "integers are filtered as fractions: write `read: normalized`"
        return None

    def restrictions(self, argument: Argument, operation: Declared) -> list[tuple[str, str]]:
        shape = [f"({extent.text})" for extent in argument.shape or ()]
        if len(shape) == 1:
            return [(f"{shape[0]} <= {MOST_ELEMENTS}", f"a texture of one axis has at most {MOST_ELEMENTS} elements")]
        sizes = {dtype.itemsize for dtype in chosen_types.choices(argument, operation.types)}
        row = " * ".join(shape[1:])
        rows = f"the rows of the texture {argument.name} begin at multiples of {ROW_UNIT} bytes"
        return [
            (f"{shape[0]} == 1 or {row} * {min(sizes)} % {ROW_UNIT} == 0", rows),
            (
                f"{shape[1]} <= {MOST_WIDTH} and {shape[0]} <= {MOST_HEIGHT}",
                f"a texture has at most {MOST_WIDTH} columns and {MOST_HEIGHT} rows",
            ),
        ]

    def alignments(self, argument: Argument) -> dict[str, int]:
        return {argument.name: ALIGNMENT}

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        sampled, textures = self._sampled(argument, assembly.instance), dict[int, Any]()

        def encode(address: int) -> bytes:
            if address not in textures:  # if two threads create one, both use the first
                textures.setdefault(address, assembly.device.texture(address, sampled))
            handle: bytes = textures[address].handle.value.to_bytes(BYTES, "little")
            return handle

        return assembly.encoded(argument.name, BYTES, encode)

    def export(self, argument: Argument, arguments: Arguments) -> Exported:
        code = C
        for name, number in asdict(self._sampled(argument, arguments)).items():
            code = code.replace(f"{{{name}}}", str(number))
        return Exported(of=argument.name, nbytes=BYTES, encode=code)

    def _sampled(self, argument: Argument, arguments: Arguments) -> Sampled:
        shape, element = arguments.shape(argument.name), chosen_types.dtype(argument, arguments.scope)
        if len(shape) == 1:
            resource, channels, width, height, pitch = LINEAR, 1, shape[0] * element.itemsize, 0, 0
        else:
            resource, channels, width, height = PITCHED, math.prod(shape[2:]), shape[1], shape[0]
            pitch = width * channels * element.itemsize
            if height == 1:
                pitch += -pitch % ROW_UNIT  # with a single row, the pitch need not match the array
        return Sampled(
            resource=resource,
            format=FORMATS[element.name],
            channels=channels,
            width=width,
            height=height,
            pitch=pitch,
            outside=ADDRESSES[self.address],
            filter=FILTERS[self.filter],
            flags=self._flags(element),
        )

    def _flags(self, element: DType) -> int:
        flags = READ_AS_INTEGERS if element.is_exact and self.read == "elements" else 0
        return flags | (NORMALIZED if self.coordinates == "normalized" else 0)
