"""Outputs that are right beside what they held before the run: a kernel adds to what its role lets nobody read."""

from __future__ import annotations

import numpy as np

from tuner.devices.base import Array
from tuner.measure.verify.comparison import CHUNK, element_name
from tuner.space.argument import Argument
from tuner.space.values.elements import Elements

TELLING = 32  # bits that must all be those of a sum: of fewer, chance makes some


def added(argument: Argument, output: Elements, answer: Elements, poison: Array | None) -> str | None:
    """What is wrong with an output that fails, where its elements tell that the kernel adds to the `poison` of
    integers, or to the NaN of all other types; None where they do not."""
    if output.element.kind == "integer":
        return None if poison is None else _added_to(argument, output, answer, poison.reshape(-1))
    if not output.size or not all(np.isnan(part).all() for _, part in output.parts(CHUNK)):
        return None
    if all(np.isnan(part).all() for _, part in answer.parts(CHUNK)):
        return None
    name, right = element_name(argument.name, 0, answer.shape), answer.part(0, 1)[0].item()
    return (
        f"{name} is not written, or NaN; {right:.7g} expected; all {output.size} elements are so; if the kernel adds "
        f"to what {argument.name} holds, which is NaN before the run, {_cure(argument)}"
    )


def _added_to(argument: Argument, output: Elements, answer: Elements, poison: Array) -> str | None:
    unsigned, wrong, first, added_bits = np.dtype(f"u{output.dtype.itemsize}"), 0, -1, 0
    for start, actual in output.parts(CHUNK):
        stop = start + actual.size
        with np.errstate(invalid="ignore"):
            expected = answer.part(start, stop).astype(output.dtype).view(unsigned)
        found, held = actual.view(unsigned), poison[start:stop].view(unsigned)
        off = found != expected
        if not np.array_equal(found[off], (held + expected)[off]):
            return None
        first = start + int(np.argmax(off)) if first < 0 and off.any() else first
        wrong += int(np.count_nonzero(off))
        added_bits += 8 * unsigned.itemsize * int(np.count_nonzero(expected[off]))  # of zero, no sum tells
    if added_bits < TELLING:
        return None
    right = answer.part(first, first + 1)[0]
    return (
        f"{element_name(argument.name, first, answer.shape)} is {right} more than it was before the run; {right} "
        f"expected; so are all that are wrong, {wrong} of {output.size} elements: the kernel adds to what "
        f"{argument.name} holds; {_cure(argument)}"
    )


def _cure(argument: Argument) -> str:
    name = argument.name
    role = "" if argument.role == "inout" else "write `role: inout`, and "
    return f"{role}let the reference read {name}, as in `{name} + ...`; else let the kernel set it first"
