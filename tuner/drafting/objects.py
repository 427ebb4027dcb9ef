"""Drafts the images and samplers of OpenCL."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.space.kinds.image import AXES
from tuner.space.sources.prototype import Parameter

_ROWS_FIRST = ("depth", "height", "width")


def sampler() -> tuple[str, str]:
    """The keys of a sampler, and the question."""
    return "kind: sampler", "has the host's sampler `filter: point`, `address: clamp`, `coordinates: elements`?"


def image(parameter: Parameter, sizes: Sequence[str]) -> tuple[str, str]:
    """The keys of an image, and the question. Its extents are guessed among `sizes`."""
    type_ = parameter.type.removeprefix("image").removesuffix("_t")
    axes = AXES.get(type_, 2)
    named = [size for size in _ROWS_FIRST if size in sizes]
    shape = named if len(named) == axes else [*sizes[:axes]][::-1] or ["n"]
    key = f", type: {type_}" if type_ != "2d" else ""
    keys = f"kind: image{key}, dtype: float32, shape: [{', '.join(shape)}], role: {parameter.access or 'in'}"
    return keys, "the shape and dtype are guesses: rows before columns; has it channels, as a last axis of 2 or 4?"
