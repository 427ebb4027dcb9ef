"""Detection of accumulation: an output equals its answer plus its previous content.

Such a kernel adds to the output, although `role: out` promises that a run does not read it.
"""

from __future__ import annotations

import numpy as np

from tuner.devices.base import Array
from tuner.measure.verify.comparison import CHUNK, element_name
from tuner.space.argument import Argument
from tuner.space.values.elements import Elements

LEAST_BITS = 32  # bits that must match a sum; fewer may match by chance


def diagnose(argument: Argument, output: Elements, answer: Elements, poison: Array | None) -> str | None:
    """The message for a wrong output if its elements show that the kernel adds to its previous content.

    This content is `poison` for integers and NaN for all other types. None if the elements do not show it.
    """
    if output.element.kind == "integer":
        return None if poison is None else _diagnose_integers(argument, output, answer, poison.reshape(-1))
    if not output.size or not all(np.isnan(part).all() for _, part in output.parts(CHUNK)):
        return None
    if all(np.isnan(part).all() for _, part in answer.parts(CHUNK)):
        return None
    name, right = element_name(argument.name, 0, answer.shape), answer.part(0, 1)[0].item()
    return (
        f"{name} is not written, or NaN; {right:.7g} expected; so are all {output.size} elements; if the kernel "
        f"adds to {argument.name}, which is NaN before the run, {_cure(argument)}"
    )


def _diagnose_integers(argument: Argument, output: Elements, answer: Elements, poison: Array) -> str | None:
    """The same for integers, which all must be their answer plus their poison, modulo the type's range."""
    unsigned, wrong, first, matching_bits = np.dtype(f"u{output.dtype.itemsize}"), 0, -1, 0
    for start, actual in output.parts(CHUNK):
        stop = start + actual.size
        with np.errstate(invalid="ignore"):
            expected = answer.part(start, stop).astype(output.dtype).view(unsigned)
        written, before = actual.view(unsigned), poison[start:stop].view(unsigned)
        off = written != expected
        if not np.array_equal(written[off], (before + expected)[off]):
            return None
        first = start + int(np.argmax(off)) if first < 0 and off.any() else first
        wrong += int(np.count_nonzero(off))
        matching_bits += 8 * unsigned.itemsize * int(np.count_nonzero(expected[off]))  # an answer of 0 proves nothing
    if matching_bits < LEAST_BITS:
        return None
    right = answer.part(first, first + 1)[0]
    return (
        f"{element_name(argument.name, first, answer.shape)} is {right} more than it was before the run; {right} "
        f"expected; the same holds for all {wrong} wrong elements of {output.size}: the kernel adds to the previous "
        f"content of {argument.name}; {_cure(argument)}"
    )


def _cure(argument: Argument) -> str:
    name = argument.name
    role = "" if argument.role == "inout" else "write `role: inout`, and "
    return f"{role}let the reference read {name}, as in `{name} + ...`; otherwise let the kernel initialise it"
