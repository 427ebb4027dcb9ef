"""Samplers of OpenCL, through which a kernel reads images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.space.argument import Key, Kind
from tuner.space.kinds.texture import Texture

if TYPE_CHECKING:
    from tuner.space.argument import Argument, Assembly, Declared

ADDRESSES = (*Texture.keys["address"].choices, "none")


@dataclass(frozen=True)
class Sampler(Kind):
    """A `sampler_t`: how reads of an image treat coordinates. Its keys mean the same as those of a texture."""

    filter: str
    address: str
    coordinates: str

    name = "sampler"
    languages = ("opencl",)
    roles = (None,)
    has_shape = False
    keys = {  # noqa: RUF012  # a class variable of the base
        "filter": Texture.keys["filter"],
        "address": Key(choices=ADDRESSES, default="clamp", help="what is read outside"),
        "coordinates": Texture.keys["coordinates"],
    }
    instead = "a texture of CUDA has these keys itself; C has no samplers"

    @property
    def object_type(self) -> str:
        return "sampler_t"

    def fault(self, argument: Argument, operation: Declared) -> tuple[str, str] | None:
        if self.address in ("wrap", "mirror") and self.coordinates != "normalized":
            return "address", f"`address: {self.address}` needs `coordinates: normalized`"
        return None

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        return assembly.device.sampler(self)
