"""Mutants: wrong outputs, made from the answers, that the comparison must reject before a run begins.

A tolerance that accepts a mutant also accepts wrong kernels. Mutants are compared chunk by chunk, until they are
rejected, so even a large output takes milliseconds. Those that are accepted are compared in threads.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tuner.children import processors
from tuner.classes import dataclass
from tuner.errors import ExpressionError, SpaceError
from tuner.measure.answers import poison, python_calls
from tuner.measure.bound import Bound
from tuner.measure.verify.comparison import Tally, Verdict, error_of
from tuner.space import dtypes
from tuner.space.answers import derivation
from tuner.space.dtypes import DType
from tuner.space.values.elements import Elements, held

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.measure.verify.input_sets import InputSet
    from tuner.space.computation import Operation
    from tuner.space.scope import Scope

CHUNK = 1 << 14  # elements; most mutants are rejected in the first chunk
PART = 1 << 16  # elements that a thread compares at a time, whose temporaries fit in its cache
MOST_THREADS = 8  # NumPy's short calls do not keep more of them busy
SAMPLE = 4096  # elements among which the replaced ones are chosen, or strange ones are looked for
MOST_STRANGE = 0.1  # of the answers of an output, without a warning
REPLACED = 16  # replaced elements that are tried


@dataclass(frozen=True)
class Output:
    """An output or derived value that is compared: its `answer`, and the type and `bound` of its elements.

    `is_declared`: whether the space file declares the bound; otherwise it is the default one.
    """

    name: str
    answer: Elements
    dtype: DType
    bound: Bound
    is_declared: bool

    def expected(self, elements: slice | Array) -> Array:
        """The answers of these elements."""
        if isinstance(elements, slice):
            return self.answer.part(elements.start, min(elements.stop, self.answer.size))
        return self.answer.at(elements)

    @property
    def strange(self) -> float:
        """The share of the answers, or of a sample of them, that are NaN, infinite or larger than the type holds."""
        if self.dtype.is_exact or not self.answer.size:
            return 0.0
        sample = np.unique(np.linspace(0, self.answer.size - 1, SAMPLE).astype(np.int64))
        return np.count_nonzero(~(np.abs(self.answer.at(sample)) <= self.dtype.high)) / sample.size

    def right(self, elements: slice | Array) -> Array:
        """These elements as a correct kernel writes them."""
        return self.written(self.expected(elements))

    def written(self, answers: Array) -> Array:
        """These answers as a correct kernel writes them."""
        if self.dtype.is_exact and answers.dtype == np.float64:
            answers = np.rint(answers)
        return answers.astype(self.dtype.numpy)


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


def check(op: Operation, scope: Scope, inputs: InputSet) -> list[str]:
    """Compare the mutants of everything that is compared. Returns the skipped ones, such as `shift of y`.

    A mutant is skipped if it equals the answer, if `accept:` names it, or if the tolerance allows wrong elements.
    Raises SpaceError if the comparison accepts any other one.
    """
    skipped: list[str] = []
    with np.errstate(all="ignore"):
        for output in outputs(op, inputs):
            name = output.name
            for mutant in _whole_mutants(op, scope, inputs, output):
                if mutant.kind in op.accept or not _is_rejected(output, mutant):
                    skipped.append(f"{mutant.kind} of {name}")
            may_be_wrong = "replaced" in op.accept or output.bound.most_wrong(output.answer.size) > 0
            if may_be_wrong or not _are_replaced_rejected(output):
                skipped.append(f"replaced of {name}")
    return skipped


def outputs(op: Operation, inputs: InputSet) -> Iterator[Output]:
    """Everything that is compared."""
    for name, answer in inputs.answers.items():
        dtype = (inputs.contents[name] if name in inputs.outputs else answer).element
        declared = op.tolerance.get(name)
        is_declared = declared is not None and bool(declared.terms.keys() - {"wrong"})
        yield Output(name, answer, dtype, inputs.bounds[name], is_declared)


def diverges(op: Operation, own: InputSet, other: InputSet) -> bool:
    """Whether far more answers of `other` are strange than of `own`, as with a time step that is too long."""
    with np.errstate(all="ignore"):
        usual = {each.name: each.strange for each in outputs(op, own)}
        return any(each.strange > 2 * usual[each.name] for each in outputs(op, other))


def mostly_strange(op: Operation, inputs: InputSet) -> Iterator[str]:
    """A warning of each output of whose answers more than MOST_STRANGE are strange."""
    for output in outputs(op, inputs):
        with np.errstate(all="ignore"):
            share = output.strange
        if share > MOST_STRANGE:
            yield (
                f"{output.name}: about {share:.0%} of the expected numbers are NaN, infinite or too large for "
                f"{output.dtype.name}, and show little of what a kernel computes; give inputs a `fill:` with which "
                "they are finite"
            )


def _whole_mutants(op: Operation, scope: Scope, inputs: InputSet, output: Output) -> Iterator[Mutant]:
    """The mutants that may differ from the answer in every element."""
    yield _untouched(op, scope, inputs, output)
    yield Mutant("zeros", lambda chunk: np.zeros_like(output.right(chunk)))
    yield Mutant("shift", lambda chunk: _shifted(output, chunk))


def _shifted(output: Output, chunk: slice) -> Array:
    """The elements of a chunk shifted by one place: each becomes its predecessor, and the first becomes the last."""
    count = output.answer.size
    if chunk.start:
        return output.right(slice(chunk.start - 1, min(chunk.stop, count) - 1))
    return np.concatenate([output.right(slice(count - 1, count)), output.right(slice(0, min(chunk.stop, count) - 1))])


def _untouched(op: Operation, scope: Scope, inputs: InputSet, output: Output) -> Mutant:
    """The output as it is before a run: its poison, or an earlier result if a kernel reads that."""
    if output.name in inputs.write_only:
        return Mutant("poison", lambda chunk: poison.poisoned(output.right(chunk)), output.dtype.is_exact)
    if output.name not in op.derive:
        earlier = inputs.contents[output.name]
        return Mutant("poison", lambda chunk: earlier.part(chunk.start, min(chunk.stop, earlier.size)))
    derived = _derived_from_poison(op, scope, inputs, output)
    holds_earlier = not inputs.write_only.issuperset(derivation.outputs_read(op, output.name))
    return Mutant("poison", lambda chunk: derived.reshape(-1)[chunk], is_skippable=holds_earlier)


def _derived_from_poison(op: Operation, scope: Scope, inputs: InputSet, output: Output) -> Array:
    """The derived value if no kernel wrote the outputs, some of which may hold an earlier result.

    NaN if the value cannot be computed.
    """
    read = inputs.write_only.intersection(derivation.outputs_read(op, output.name))
    arrays = {name: np.zeros(inputs.contents[name].shape, inputs.contents[name].dtype) for name in read}
    poisoned = {name: poison.poisoned(data).reshape(data.shape) for name, data in arrays.items()}
    try:
        return derivation.values(op, scope, {**inputs.contents, **held(poisoned)}, python_calls.call)[output.name]
    except (SpaceError, ExpressionError):
        return np.full(output.answer.size, np.nan)


def _is_rejected(output: Output, mutant: Mutant) -> bool:
    """Whether the comparison rejects a mutant; False if it equals the answer. Raises SpaceError if it is accepted."""
    judgement = judged(output, mutant)
    if judgement.is_rejected:
        return True
    if not judgement.differs and mutant.is_skippable:
        return False
    raise accepted(output, mutant.kind, judgement.largest)


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
        return _Part(tally, _largest_difference(elements, answers))


def _largest_difference(elements: Array, answers: Array) -> float:
    difference = error_of(elements.astype(dtypes.of(elements.dtype).wide), answers)
    return float(np.max(difference, initial=0.0, where=np.isfinite(difference)))


def _are_replaced_rejected(output: Output) -> bool:
    """Whether outputs in which one element has another one's value are rejected.

    False if all elements are equal. Raises SpaceError if such an output is accepted.
    """
    any_pair = False
    for target, source in _pairs(output):
        any_pair = True
        element, answer = output.right(np.array([source])), output.answer.at(np.array([target]))
        tally = Tally(output.bound, output.answer.size)
        tally.add(target, element, answer)
        if tally.is_right:
            raise accepted(output, "replaced", _largest_difference(element, answer), target)
    return any_pair


def _pairs(output: Output) -> Iterator[tuple[int, int]]:
    """Up to REPLACED pairs of elements that differ: the replaced one, and the one whose value it gets.

    In a sorted sample, the elements of a pair are a quarter of the distinct values apart. So small elements are
    replaced by small ones, and no element by one of nearly the same value.
    """
    count = output.answer.size
    sample = np.arange(count) if count <= SAMPLE else np.random.default_rng(0).choice(count, SAMPLE)
    _, places = np.unique(output.right(sample).astype(output.dtype.wide), return_index=True)
    distance = max(1, len(places) // 4)
    lower = np.unique(np.linspace(0, len(places) - 1 - distance, REPLACED).astype(int))
    for number, low in enumerate(lower if len(places) > 1 else ()):
        pair = int(sample[places[low]]), int(sample[places[low + distance]])
        yield pair if number % 2 else pair[::-1]


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
