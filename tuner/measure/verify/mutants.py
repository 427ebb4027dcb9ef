"""Mutants: wrong outputs, made from the answers, that the comparison must reject before a run begins.

A tolerance that accepts a mutant also accepts wrong kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import ExpressionError, SpaceError
from tuner.measure.answers import poison, python_calls
from tuner.measure.verify import compared_outputs
from tuner.measure.verify.comparison import Tally
from tuner.measure.verify.judgement import Mutant, accepted, judged, largest_difference
from tuner.space.answers import derivation
from tuner.space.values.elements import held

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.measure.verify.compared_outputs import Output
    from tuner.measure.verify.input_sets import InputSet
    from tuner.space.computation import Operation
    from tuner.space.scope import Scope

SAMPLE = 4096  # elements among which the replaced ones are chosen
REPLACED = 16  # replaced elements that are tried


def check(op: Operation, scope: Scope, inputs: InputSet) -> list[str]:
    """Compare the mutants of everything that is compared. Returns the skipped ones, such as `shift of y`.

    A mutant is skipped if it equals the answer, if `accept:` names it, or if the tolerance allows wrong elements.
    Raises SpaceError if the comparison accepts any other one.
    """
    skipped: list[str] = []
    with np.errstate(all="ignore"):
        for output in compared_outputs.of(op, inputs):
            name = output.name
            for mutant in _whole_mutants(op, scope, inputs, output):
                if mutant.kind in op.accept or not _is_rejected(output, mutant):
                    skipped.append(f"{mutant.kind} of {name}")
            may_be_wrong = "replaced" in op.accept or output.bound.most_wrong(output.answer.size) > 0
            if may_be_wrong or not _are_replaced_rejected(output):
                skipped.append(f"replaced of {name}")
    return skipped


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
            raise accepted(output, "replaced", largest_difference(element, answer), target)
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
