"""Drafts the images and samplers of OpenCL, and the textures of CUDA."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.drafting.extents import ROWS_FIRST
from tuner.space.kinds.image import AXES, type_of
from tuner.space.sources.prototype import Parameter


def drafted(parameter: Parameter, sizes: Sequence[str], body: str) -> tuple[str, str]:
    """The keys of an image, a sampler or a texture, and the question. Its extents are guessed among `sizes`. `body` is
    the text of the kernels, tokens joined by blanks."""
    if parameter.kind == "sampler":
        return "kind: sampler", "has the host's sampler `filter: point`, `address: clamp`, `coordinates: elements`?"
    return _image(parameter, sizes) if parameter.kind == "image" else _texture(parameter, sizes, body)


def _image(parameter: Parameter, sizes: Sequence[str]) -> tuple[str, str]:
    type_ = type_of(parameter.type)
    axes = AXES.get(type_, 2)
    named = [size for size in ROWS_FIRST if size in sizes][-axes:]
    shape = named if len(named) == axes else [*sizes[:axes]][::-1] or ["n"]
    key = f", type: {type_}" if type_ != "2d" else ""
    keys = f"kind: image{key}, dtype: float32, shape: [{', '.join(shape)}], role: {parameter.access or 'in'}"
    return keys, "the shape and dtype are guesses: rows before columns; has it channels, as a last axis of 2 or 4?"


def _texture(parameter: Parameter, sizes: Sequence[str], body: str) -> tuple[str, str]:
    read = re.search(rf"\btex([12])D\w* (?:< ([\w ]+?) > )?\( (?:& [\w.]+ , )?{parameter.name}\b", body)
    element = Parameter("", (read[2] if read else None) or "float", False, False)
    axes = int(read[1]) if read else 2
    named = [size for size in ROWS_FIRST[-axes:] if size in sizes]
    shape = named if len(named) == axes else [*sizes[:axes]][::-1] or ["n"]
    shape += [str(element.width)] if element.width > 1 else []
    keys = f"kind: texture, dtype: {element.dtype or 'float32'}, shape: [{', '.join(shape)}], role: in"
    rows = ": rows before columns" if axes > 1 else ""
    host = "; has the host's texture `filter: point`, `address: clamp`, `coordinates: elements`?" if axes > 1 else ""
    return keys, f"the shape is a guess{rows}; which elements has it, such as fill: {{integers: [0, 7]}}?{host}"
