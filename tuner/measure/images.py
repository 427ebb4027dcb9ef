"""Images beside the arrays of a measurement, for the arguments that a kernel takes as images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tuner.space.chosen_types import dtype
from tuner.space.kinds.image import Image, Texels

if TYPE_CHECKING:
    from tuner.devices.base import Buffer
    from tuner.devices.program import Program


class Images:
    """The handles of a launch on `buffers`, with an image in place of each buffer that the kernel takes as an image.

    Inputs, poison and answers stay in the buffers: `fill` copies the buffers to the images before a run, and `collect`
    copies the images back after it, inputs too, because a kernel may write to them.
    """

    def __init__(self, program: Program, buffers: Mapping[str, Buffer]) -> None:
        """Raises LaunchError if an image does not suit the device, OutOfMemory if it does not fit."""
        self._device = cast(Any, program.device)  # with arguments of this kind, it is one that has images
        arrays = program.space.operation.arrays
        self._texels: dict[str, Texels] = {
            a.name: a.kind.texels(program.shapes[a.name], dtype(a, program.scope))
            for a in arrays
            if isinstance(a.kind, Image)
        }
        self._images: dict[str, Any] = {name: self._device.image(texels) for name, texels in self._texels.items()}
        self._buffers = dict(buffers)  # their handles may not keep them alive
        self.handles = [self._images.get(a.name) or buffers[a.name].handle for a in arrays]

    def __bool__(self) -> bool:
        return bool(self._images)

    def fill(self) -> None:
        """Enqueue the copies of the buffers to the images."""
        for name, image in self._images.items():
            self._device.copy_to_image(image, self._buffers[name].handle, self._texels[name])

    def collect(self) -> None:
        """Enqueue the copies of the images to the buffers."""
        for name, image in self._images.items():
            self._device.copy_from_image(self._buffers[name].handle, image, self._texels[name])
