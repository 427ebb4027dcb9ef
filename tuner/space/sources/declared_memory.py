"""Memory that a source declares and a launch provides: whether the text tells for certain that there is too little."""

import math
import re
from collections.abc import Iterator

from tuner.space.argument import Argument
from tuner.space.expressions import braces
from tuner.space.model import Space
from tuner.space.sources.prototype import definitions, dynamic_arrays, unconditional, words


def dynamic(space: Space, position: int, code: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The key of a step that has no dynamic shared memory, and what is wrong with that: the kernel uses an array of it,
    whatever the macros are."""
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
                    f"no `shared_memory:`, and {message}; write the bytes that a block needs of it, or 0 for none",
                )


def too_large(argument: Argument, code: str) -> str:
    """What is wrong with the shape of an array that is larger than its `__constant__` variable, where both have numbers
    for extents; else empty."""
    declared = re.findall(rf"\b__constant__\s[\w\s]{{,200}}?\b{argument.name}\s*((?:\[\s*\d+\s*\]\s*)+);", code)
    extents = [extent.text for extent in argument.shape or ()]
    if len(declared) != 1 or not extents or not all(map(str.isdecimal, extents)):
        return ""
    room = re.findall(r"\d+", declared[0])
    if math.prod(map(int, extents)) <= math.prod(map(int, room)):
        return ""
    variable = f"{argument.name}[{']['.join(room)}]"
    return f"[{', '.join(extents)}] is more than the source has room for: {variable}; write its extents, or enlarge it"
