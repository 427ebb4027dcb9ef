"""Comparison of what a candidate wrote with the answers: each element of each output, and the precision over all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tuner.judging.verdict import Errors, Refusal
from tuner.measure.verify.comparison import CHUNK, Tally, element_name, error_of, wrong_result

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.measure.bound import Bound
    from tuner.space.values.elements import Elements

# Times the error of the space's own kernel: between honest sums of a million numbers, up to some 300 times that of a
# sum in double precision, and sums of inputs in half precision, from 2,300 times.
PRECISION = 512.0
EXPLAINED = 0.99  # of the variance of the answers, which outputs must explain


@dataclass
class ErrorSums:
    """Sums over the elements of one output, over all runs: squares of errors and of answers, and the answers."""

    errors: float = 0.0
    squares: float = 0.0
    answers: float = 0.0
    count: int = 0

    @property
    def relative(self) -> float:
        """The root mean square of the errors over that of the answers."""
        return math.sqrt(self.errors / self.squares) if self.squares else math.sqrt(self.errors)

    @property
    def unexplained(self) -> float:
        """The fraction of the variance of the answers that the outputs do not explain; 0 if answers do not vary."""
        variance = self.squares - self.answers**2 / self.count if self.count else 0.0
        return self.errors / variance if variance > 1e-12 * self.squares else 0.0

    def add(self, error: Array, expected: Array) -> None:
        """Add elements: their errors, and their answers."""
        wide = np.abs(expected) if np.iscomplexobj(expected) else expected.astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(error)
        self.errors += float(np.sum(np.square(error), where=finite))
        self.squares += float(np.sum(np.square(wide), where=finite))
        self.answers += float(np.sum(wide, where=finite))
        self.count += int(np.count_nonzero(finite))


@dataclass
class ComparedRuns:
    """What the compared runs of one candidate have shown at one size.

    `precision` is by the code of a wrong output and the output's name: runs that are verified, timed and repeated have
    codes of their own, so that one kind cannot make up for another.
    """

    precision: dict[tuple[str, str], ErrorSums] = field(default_factory=dict)
    worst: Errors | None = None
    runs: int = 0

    def compare(
        self, name: str, output: Elements, answer: Elements, bound: Bound, poison: Array | None, code: str
    ) -> None:
        """Compare an output of a run with its answer. `poison` are the bytes that it held before, if no run need read
        them. Raises Refusal, with `code` if an element is wrong."""
        before = None if poison is None or not output.element.is_exact else poison.view(output.dtype)
        tally, sums = Tally(bound, output.size), self.precision.setdefault((code, name), ErrorSums())
        worst, place, limit = -1.0, 0, 0.0
        with np.errstate(all="ignore"):
            for start, actual in output.parts(CHUNK):
                expected = answer.part(start, start + actual.size)
                part = None if before is None else before[start : start + actual.size]
                tally.add(start, actual, expected, part)
                error = _errors(actual, expected, output)
                top = int(np.argmax(error))
                if float(error[top]) > worst:
                    limits = np.broadcast_to(bound.limits(expected), error.shape)
                    worst, place, limit = float(error[top]), start + top, float(limits[top])
                sums.add(error, expected)
        found = Errors(
            worst=worst,
            bound=limit,
            output=name,
            where=element_name(name, place, answer.shape),
            wrong=tally.wrong,
            elements=output.size,
            relative=sums.relative,
        )
        if self.worst is None or _share(found) >= _share(self.worst) or not tally.is_right:
            self.worst = found
        if not tally.is_right:
            message = str(wrong_result(tally, name, output, answer, bound))
            if poison is not None and code == "wrong" and (count := _left(output, answer, bound, poison)):
                raise Refusal("unwritten", f"{message}; {count} hold what was there before the run")
            raise Refusal(code, message)

    def relative(self, output: str) -> float | None:
        """The largest relative error of an output, of the kinds of runs; None if it was not compared."""
        return max((sums.relative for (_, name), sums in self.precision.items() if name == output), default=None)

    def check_precision(self, baseline: ComparedRuns, bounds: Mapping[str, Bound], size: dict[str, int]) -> None:
        """Raise Refusal if a candidate makes too much of the tolerance, compared with the space's own kernel on the
        same sets of inputs, of this `size`. `bounds` are those of the outputs."""
        for (code, name), sums in self.precision.items():
            bound, theirs = bounds[name], baseline.precision.get((code, name), ErrorSums())
            if bound.is_exact or not sums.count:
                continue
            if sums.unexplained > 1 - EXPLAINED and theirs.unexplained <= (1 - EXPLAINED) / 2:
                raise Refusal(
                    "ignores_inputs",
                    f"{name} is within the tolerance of {bound}, but explains only "
                    f"{max(0.0, 1 - sums.unexplained):.0%} of how the answers vary with the inputs",
                    size,
                )
            least = max(theirs.relative, 0.0 if bound.dtype.is_exact else bound.dtype.epsilon)
            if least and sums.relative > PRECISION * least:
                raise Refusal(
                    "less_precise",
                    f"{name} is within the tolerance of {bound}, but its relative error of {sums.relative:.2g} is "
                    f"{sums.relative / least:,.0f} times that of the space's own kernel; {PRECISION:g} are allowed",
                    size,
                )


def _left(output: Elements, answer: Elements, bound: Bound, poison: Array) -> int:
    """How many elements hold the `poison` that was there before the run, if all wrong ones do; else 0. What a kernel
    writes may equal it by chance."""
    count, held = 0, np.ascontiguousarray(output.array()).reshape(-1).view(np.uint8) == poison
    held = held.reshape(output.size, -1).all(axis=1)
    with np.errstate(all="ignore"):
        for start, actual in output.parts(CHUNK):
            expected = answer.part(start, start + actual.size)
            is_wrong = ~(_errors(actual, expected, output) <= bound.limits(expected))
            part = held[start : start + actual.size]
            if not part[is_wrong].all():
                return 0
            count += int(np.count_nonzero(part))
    return count


def _errors(actual: Array, expected: Array, output: Elements) -> Array:
    kind = output.element
    if kind.kind == "boolean":
        actual = actual.view(kind.bits)
    error = error_of(actual.astype(kind.wide, copy=False) if kind.foreign else actual, expected)
    return np.where(np.isnan(error), np.inf, error)


def _share(found: Errors) -> float:
    return found.worst / found.bound if found.bound else found.worst * math.inf if found.worst else 0.0
