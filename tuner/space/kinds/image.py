"""Images of OpenCL, which a kernel reads through a sampler and writes texel by texel.

Source of the formats: OpenCL Specification, Image Format Descriptor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.space import chosen_types
from tuner.space.argument import Key, Kind
from tuner.space.kinds.texture import Texture

if TYPE_CHECKING:
    from tuner.space.argument import Argument, Declared
    from tuner.space.dtypes import DType

AXES = {"2d": 2, "1d": 1, "3d": 3, "2d_array": 3}
CHANNELS = (1, 2, 4)
NORMALIZED = ("uint8", "int8", "uint16", "int16")  # the types that can be read as fractions
TYPES = (*NORMALIZED, "uint32", "int32", "float16", "float32")


def type_of(name: str) -> str:
    """The value of the key `type` for a type of OpenCL, such as image2d_array_t."""
    return name.removeprefix("image").removesuffix("_t")


@dataclass(frozen=True)
class Texels:
    """The format and the extents of an image. `extents` begin with the width."""

    type: str
    element: str
    channels: int
    is_normalized: bool
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Image(Kind):
    """An image over the elements of an array.

    type: the axes of the image. The array has these axes, rows before columns, and perhaps a last one of channels.
    read: integers as they are ("elements"), or divided by the largest value of their type ("normalized").
    """

    type: str
    read: str

    name = "image"
    languages = ("opencl",)
    roles = ("in", "out", "inout")
    keys = {  # noqa: RUF012  # a class variable of the base
        "type": Key(choices=tuple(AXES), default="2d", help="the axes of the image"),
        "read": Texture.keys["read"],
    }
    instead = "use `kind: texture` in CUDA, and a plain array in C"

    @property
    def object_type(self) -> str:
        form, _, array = self.type.partition("_")
        return f"image{form}_{array}_t" if array else f"image{form}_t"

    def fault(self, argument: Argument, operation: Declared) -> tuple[str, str] | None:
        shape, types = argument.shape or (), [each.name for each in chosen_types.choices(argument, operation.types)]
        if other := next((name for name in types if name not in TYPES), None):
            return "dtype", f"{other}: an image has elements of {', '.join(TYPES)}"
        axes = AXES[self.type]
        if len(shape) not in (axes, axes + 1):
            others = [f"`type: {name}`" for name, count in AXES.items() if count in (len(shape), len(shape) - 1)]
            advice = f"write {' or '.join(others)}, or another shape" if others else "write another shape"
            return "shape", f"`type: {self.type}` has {axes} axes, and perhaps one of channels; {advice}"
        if len(shape) > axes and shape[-1].text not in map(str, CHANNELS):
            return (
                "shape",
                f"{shape[-1].text}: the last axis, of channels, is the number 1, 2 or 4; pad 3 channels to 4",
            )
        if self.read == "normalized" and (other := next((name for name in types if name not in NORMALIZED), None)):
            return "read", f"{other} cannot be read as fractions; allowed: {', '.join(NORMALIZED)}; remove `read`"
        return None

    def texels(self, shape: tuple[int, ...], element: DType) -> Texels:
        """The image over an array of this shape and type."""
        axes = AXES[self.type]
        channels = shape[axes] if len(shape) > axes else 1
        return Texels(self.type, element.name, channels, self.read == "normalized", shape[:axes][::-1])
