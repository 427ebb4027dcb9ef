"""The outputs and derived values that are compared, and whether their answers are numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tuner.classes import dataclass
from tuner.measure.bound import Bound
from tuner.space.dtypes import DType
from tuner.space.values.elements import Elements

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.measure.verify.input_sets import InputSet
    from tuner.space.computation import Operation

SAMPLE = 4096  # answers among which strange ones are looked for
MOST_STRANGE = 0.1  # of the answers of an output, without a warning
MOST_EQUAL = 0.999  # the same; of fewer answers than SAMPLE, all may be equal


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
        sample = self._sample()
        return np.count_nonzero(~(np.abs(sample) <= self.dtype.high)) / sample.size

    @property
    def most_frequent(self) -> tuple[str, float]:
        """The most frequent answer of a sample of them, and its share."""
        values, counts = np.unique(self._sample(), return_counts=True)
        return f"{values[counts.argmax()]:.7g}", counts.max() / counts.sum()

    def _sample(self) -> Array:
        return self.answer.at(np.unique(np.linspace(0, self.answer.size - 1, SAMPLE).astype(np.int64)))

    def right(self, elements: slice | Array) -> Array:
        """These elements as a correct kernel writes them."""
        return self.written(self.expected(elements))

    def written(self, answers: Array) -> Array:
        """These answers as a correct kernel writes them."""
        if self.dtype.is_exact and answers.dtype == np.float64:
            answers = np.rint(answers)
        return answers.astype(self.dtype.numpy)


def of(op: Operation, inputs: InputSet) -> Iterator[Output]:
    """Everything that is compared."""
    for name, answer in inputs.answers.items():
        dtype = (inputs.contents[name] if name in inputs.outputs else answer).element
        declared = op.tolerance.get(name)
        is_declared = declared is not None and bool(declared.terms.keys() - {"wrong"})
        yield Output(name, answer, dtype, inputs.bounds[name], is_declared)


def diverges(op: Operation, own: InputSet, other: InputSet) -> bool:
    """Whether far more answers of `other` are strange than of `own`, as with a time step that is too long."""
    with np.errstate(all="ignore"):
        usual = {each.name: each.strange for each in of(op, own)}
        return any(each.strange > 2 * usual[each.name] for each in of(op, other))


def warnings(op: Operation, inputs: InputSet) -> Iterator[str]:
    """A warning of each output of whose answers more than MOST_STRANGE are strange, or more than MOST_EQUAL equal."""
    has_inputs = any(argument.name not in inputs.write_only for argument in op.arrays)
    for output in of(op, inputs):
        with np.errstate(all="ignore"):
            share = output.strange
        if share > MOST_STRANGE:
            yield (
                f"{output.name}: about {share:.0%} of the expected numbers are NaN, infinite or too large for "
                f"{output.dtype.name}, and show little of what a kernel computes; give inputs a `fill:` with which "
                "they are finite"
            )
        elif has_inputs and output.answer.size > SAMPLE:
            value, share = output.most_frequent
            if share > MOST_EQUAL:
                yield (
                    f"{output.name}: at least {MOST_EQUAL:.1%} of the expected numbers are {value}, so few elements "
                    "show what a kernel computes; give inputs a `fill:` with which more of them differ"
                )
