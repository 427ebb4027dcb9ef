"""Mutants of precision: outputs of a kernel that rounds either its inputs or its outputs to the next narrower type.

A tolerance for long sums may be too wide to tell them from right outputs. Inputs and outputs are never rounded at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import DeviceError, SpaceError
from tuner.measure.verify import compared_outputs
from tuner.measure.verify.judgement import Judgement, Mutant, accepted, judged
from tuner.space.values.forms import PythonReference
from tuner.space.values.rounded import Rounded, narrower, rounded

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.measure.answers.referee import Referee
    from tuner.measure.verify.compared_outputs import Output
    from tuner.measure.verify.input_sets import InputSet
    from tuner.space.computation import Operation
    from tuner.space.scope import Scope
    from tuner.space.values.elements import Elements

INPUTS, OUTPUTS = "rounded_inputs", "rounded_outputs"  # the words of `accept:`
MOST_SECONDS = 10.0  # for the answers of rounded inputs
# Elements of an output that are compared with a mutant which `accept:` names. It is expected to be accepted, and then
# all would be compared, which takes seconds for hundreds of millions.
MOST_ELEMENTS = 1 << 22
FEW = 16  # elements of which the largest rounding error is about half of that of many
_SEED = -1  # of the answers of rounded inputs in the cache, and of the verdict; other seeds are not negative


@dataclass
class PrecisionVerdict:
    """The mutants that the comparison accepts, and those that were not tried.

    Each is named as in `inputs rounded to TF32 of y`. Mutants of one precision are tried until one is rejected, because
    a coarser one differs more.
    """

    accepted: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)


def check(referee: Referee, scope: Scope, inputs: InputSet) -> PrecisionVerdict:
    """Compare the mutants of everything that is compared, on the input set `inputs`, whose seed is 0.

    Rounded inputs are not tried if their answers take more than MOST_SECONDS, or cannot be computed. Raises SpaceError
    if an output of several elements has a declared tolerance that accepts a mutant, unless `accept:` says that it is
    meant to be wide. All processes that share the referee's cache share the verdict.
    """

    def computed() -> Array:
        verdict = _check(referee, scope, inputs)
        return np.array([f"+{name}" for name in verdict.accepted] + [f"-{name}" for name in verdict.untried], dtype=str)

    names = referee.cache.get(_SEED, f"precision {sorted(scope.options.items())}", computed).tolist()
    return PrecisionVerdict(*([name[1:] for name in names if name.startswith(sign)] for sign in "+-"))


def _check(referee: Referee, scope: Scope, inputs: InputSet) -> PrecisionVerdict:
    op, verdict = referee.space.operation, PrecisionVerdict()
    with np.errstate(all="ignore"):
        for output in compared_outputs.of(op, inputs):
            if output.name not in inputs.outputs or not (steps := narrower(output.dtype)):
                continue
            for name, digits in steps:
                if not _is_accepted(op, output, _of_outputs(output, digits), name, verdict):
                    break
        _check_inputs(referee, scope, inputs, verdict)
    return verdict


def _check_inputs(referee: Referee, scope: Scope, inputs: InputSet, verdict: PrecisionVerdict) -> None:
    """Add to the verdict what comes of rounded inputs."""
    op = referee.space.operation
    pending = list(compared_outputs.of(op, inputs))
    for step, (name, digits, contents) in enumerate(rounded_inputs(op, inputs)):
        if not (tried := [output for output in pending if _shows(output, digits)]):
            continue
        answers: Mapping[str, Elements] | None = None
        if max(inputs.seconds, referee.cache.seconds(inputs.seed)) <= MOST_SECONDS:
            answers = _answers(referee, scope, contents, _SEED - step)
        if answers is None:
            verdict.untried += [f"{INPUTS} of {output.name}" for output in tried]
            return
        mutants = [(output, _of_inputs(output, answers[output.name])) for output in tried]
        rejected = {output.name for output, mutant in mutants if not _is_accepted(op, output, mutant, name, verdict)}
        pending = [output for output in pending if output.name not in rejected]


def _shows(output: Output, digits: int) -> bool:
    """Whether an output can show that inputs were rounded to so many fraction bits: one that has no more itself is
    rounded as much when it is written, which is right."""
    return output.dtype.is_exact or digits < output.dtype.digits


def _answers(
    referee: Referee, scope: Scope, contents: Mapping[str, Elements], seed: int
) -> Mapping[str, Elements] | None:
    """The answers of rounded inputs; None if they cannot be computed, as a function may refuse such inputs."""
    try:
        return referee.answers(scope, contents, seed)[0]
    except (SpaceError, DeviceError, MemoryError):
        return None


def rounded_inputs(op: Operation, inputs: InputSet) -> Iterator[tuple[str, int, Mapping[str, Elements]]]:
    """The contents of all arrays with rounded inputs, step by step, each with the precisions' names and the fewest
    fraction bits among them. Steps that no output can show are left out, all of them if the reference is fixed.

    Each input is rounded one step down from its own type. If that has fewer steps than another one, the last is used.
    """
    contents = inputs.contents
    if isinstance(op.reference, PythonReference) and op.reference.is_fixed:
        return
    steps = {
        argument.name: narrower(contents[argument.name].element)
        for argument in op.arrays
        if argument.role != "out" and narrower(contents[argument.name].element)
    }
    for step in range(max(map(len, steps.values()), default=0)):
        chosen = {name: precisions[min(step, len(precisions) - 1)] for name, precisions in steps.items()}
        names = " and ".join(dict.fromkeys(precision.name for precision in chosen.values()))
        digits = min(precision.digits for precision in chosen.values())
        if any(_shows(output, digits) for output in compared_outputs.of(op, inputs)):
            rounded_ones = {name: Rounded(contents[name], each.digits) for name, each in chosen.items()}
            yield names, digits, {**contents, **rounded_ones}


def _of_inputs(output: Output, answer: Elements) -> Mutant:
    """What a right kernel writes if its inputs are rounded, and `answer` is their answer."""
    return Mutant(INPUTS, replace(output, answer=answer).right)


def _of_outputs(output: Output, digits: int) -> Mutant:
    return Mutant(OUTPUTS, lambda chunk: rounded(output.right(chunk), output.dtype, digits))


def _is_accepted(op: Operation, output: Output, mutant: Mutant, precision: str, verdict: PrecisionVerdict) -> bool:
    """Whether the comparison accepts a mutant that differs from the answer, which is then added to the verdict.

    Raises SpaceError if this tolerance must not accept it.
    """
    judgement = judged(output, mutant, MOST_ELEMENTS if mutant.kind in op.accept else None)
    if judgement.is_rejected or not judgement.differs:
        return False
    if output.is_declared and not op.accept and _is_sure(judgement, output.answer.size):
        raise accepted(output, mutant.kind, judgement.largest, precision=precision)
    verdict.accepted.append(f"{mutant.kind.removeprefix('rounded_')} rounded to {precision} of {output.name}")
    return True


def _is_sure(judgement: Judgement, count: int) -> bool:
    """Whether a mutant of so many elements is accepted not only by luck: the largest rounding error of a few elements
    may be far below that of others."""
    return count > 1 and judgement.share * (1 + FEW / count) <= 1
