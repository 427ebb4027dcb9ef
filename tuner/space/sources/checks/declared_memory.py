"""Checks of memory that a source declares and a launch fills: dynamic shared memory and `__constant__` variables.

A fault is reported only if the text proves it.
"""

import math
import re
from collections.abc import Iterator

from tuner.space.argument import Argument
from tuner.space.expressions import braces
from tuner.space.model import Space
from tuner.space.sources.prototype import dynamic_arrays, parameter
from tuner.space.sources.tokens import definitions, unconditional, words


def missing_dynamic(space: Space, position: int, code: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Key and message if a step declares no dynamic shared memory, but its kernel uses some for any values of the
    macros."""
    step = space.steps[position]
    if step.shared_memory.text != "0" or "cuda" not in space.languages or not dynamic_arrays(code):
        return
    for _, name, _, _, body in definitions(words(unconditional(code))):
        text = " ".join(body)
        if "if constexpr" in text or not re.fullmatch(braces.pattern(step.kernel), name):
            continue
        for array in dynamic_arrays(text):
            if len(re.findall(rf"\b{array}\b", text)) > 1:
                message = f"{name} in {step.source.name} uses {array}, which is extern __shared__"
                yield (
                    ("steps", position, "shared_memory"),
                    f"no `shared_memory:`, and {message}; write the bytes per block, or 0 for none",
                )


def too_large(argument: Argument, code: str) -> str:
    """The message if an array has more numbers than its `__constant__` variable, whose elements may be vectors; empty
    if it fits, an extent is not a number, or the type of the elements may be anything."""
    name = re.escape(argument.name)
    declared = re.findall(rf"\b__constant__\s([\w\s]{{,200}}?)\b{name}\s*((?:\[\s*\d+\s*\]\s*)+);", code)
    extents = [extent.text for extent in argument.shape or ()]
    if len(declared) != 1 or not extents or not all(map(str.isdecimal, extents)):
        return ""
    element = parameter([*words(declared[0][0]), argument.name])
    if element.dtype is None and element.type != argument.dtype:
        return ""
    capacity = re.findall(r"\d+", declared[0][1])
    if math.prod(map(int, extents)) <= math.prod(map(int, capacity)) * element.width:
        return ""
    of_vectors = f" of {element.type}" if element.width > 1 else ""
    variable = f"{argument.name}[{']['.join(capacity)}]{of_vectors}"
    return f"[{', '.join(extents)}] exceeds the source's variable {variable}; write its extents, or enlarge it"
