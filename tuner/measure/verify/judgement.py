"""Whether the comparison rejects a wrong output.

It is compared chunk by chunk, until it is rejected, so even a large one takes milliseconds. One that is accepted is
compared in threads.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tuner.children import processors
from tuner.classes import dataclass
from tuner.errors import SpaceError
from tuner.measure.verify.comparison import Tally, Verdict, error_of
from tuner.space import dtypes

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.measure.verify.compared_outputs import Output

CHUNK = 1 << 14  # elements; most mutants are rejected in the first chunk
PART = 1 << 16  # elements that a thread compares at a time, whose temporaries fit in its cache
MOST_THREADS = 8  # NumPy's short calls do not keep more of them busy


@dataclass(frozen=True)
class Mutant:
    """A wrong output; `elements` gives the elements of a chunk.

    `is_poison`: these are the values of integers that a kernel did not write. `is_skippable`: the mutant may equal the
    answer.
    """

    kind: str
    elements: Callable[[slice], Array]
    is_poison: bool = False
    is_skippable: bool = True


class Judgement(NamedTuple):
    """Whether a mutant differs from the answer, and is rejected.

    If it is not rejected, `largest` is its largest difference, and `share` the largest one as a fraction of its bound.
    """

    differs: bool
    is_rejected: bool
    largest: float = 0.0
    share: float = 0.0


def judged(output: Output, mutant: Mutant, most: int | None = None) -> Judgement:
    """Compare a mutant with the answer, until it is rejected; at most the first `most` elements."""
    tally, differs, largest = Tally(output.bound, output.answer.size), False, 0.0
    with contextlib.closing(_compared(output, mutant, most)) as parts:
        for part in filter(None, parts):
            differs = True
            tally.include(part.tally)
            if not tally.is_right:
                return Judgement(True, True)
            largest = max(largest, part.largest)
    return Judgement(differs, False, largest, Verdict.of(tally.worst, 0, output.bound).share)


class _Part(NamedTuple):
    """The elements of a chunk of a mutant that differs from the answer: their tally, and their largest difference."""

    tally: Tally
    largest: float


def _compared(output: Output, mutant: Mutant, most: int | None) -> Generator[_Part | None]:
    """The parts of a mutant, the first one alone and the others in threads; None for each that equals the answer."""
    count = min(output.answer.size, most or output.answer.size)
    compare = functools.partial(_compared_chunk, output, mutant)
    yield compare(slice(0, CHUNK))
    parts = [slice(start, start + PART) for start in range(CHUNK, count, PART)]
    threads = min(len(parts), MOST_THREADS, len(processors.allowed()))
    if threads < 2:
        yield from map(compare, parts)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(compare, parts)  # if this generator is closed, it cancels what has not begun


def _compared_chunk(output: Output, mutant: Mutant, chunk: slice) -> _Part | None:
    with np.errstate(all="ignore"):
        elements, answers = mutant.elements(chunk), output.expected(chunk)
        if np.array_equal(elements, output.written(answers), equal_nan=not output.dtype.is_exact):
            return None
        tally = Tally(output.bound, output.answer.size)
        tally.add(chunk.start, elements, answers, elements if mutant.is_poison else None)
        return _Part(tally, largest_difference(elements, answers))


def largest_difference(elements: Array, answers: Array) -> float:
    """The largest finite difference between elements and their answers."""
    difference = error_of(elements.astype(dtypes.of(elements.dtype).wide), answers)
    return float(np.max(difference, initial=0.0, where=np.isfinite(difference)))


def accepted(output: Output, kind: str, largest: float, element: int | None = None, precision: str = "") -> SpaceError:
    """The error for a mutant that the comparison accepts. `precision` is what it is rounded to."""
    what = {
        "poison": "an output that no kernel has written",
        "zeros": "zeros",
        "shift": "the output shifted by one element",
        "replaced": f"an output in which element number {element} has the value of another one",
        "rounded_inputs": f"an output of inputs that are rounded to {precision}",
        "rounded_outputs": f"an output rounded to {precision}",
    }[kind]
    wrong = f", and {output.bound.wrong:.2g} of the elements may be wrong" if output.bound.wrong else ""
    advice = "" if kind == "poison" else f", or write `accept: [{kind}]` if that is intended"
    ulp = 2 if output.dtype.name == "float16" else 4  # a float16 that is rounded to bfloat16 may be 4 off
    if output.is_declared:
        default, smaller = "", "write a smaller tolerance" + f", such as `{{ulp: {ulp}}}`" * (not output.dtype.is_exact)
    else:  # made for sums in the type of the output
        default, smaller = "default ", f"write a smaller one, such as `tolerance: {{ulp: {ulp}}}`"
    return SpaceError(
        f"operation.tolerance: {output.name}: {what} would be accepted: the largest difference is {largest:.3g}, and "
        f"the {default}tolerance is {output.bound}{wrong}; {smaller}, or other inputs by `fill:`{advice}"
    )
