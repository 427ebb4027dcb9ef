"""The inputs and answers of a problem, computed on a machine that need not have a device for its kernels."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.devices.base import Device
from tuner.measure.answers.referee import Referee
from tuner.measure.verify import blindness, input_sets
from tuner.space import operation
from tuner.space.answers.cache import ReferenceCache
from tuner.space.answers.reference import widened
from tuner.space.instance import nominal
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.values.elements import Elements
from tuner.space.values.forms import ConfigReference, KernelReference, NoReference


@dataclass(frozen=True)
class Contents:
    """What an array holds: an input before a launch, or the answer of an output or a derived value.

    least, largest: of its finite elements, or of their absolute values if they are complex; None without any.
    strange: how many elements are NaN or infinite.
    """

    name: str
    is_answer: bool
    dtype: str
    shape: tuple[int, ...]
    least: float | None
    largest: float | None
    strange: int


@dataclass(frozen=True)
class HostAnswers:
    """The first set of inputs, its answers, the seconds that both took, and what verification would not see.

    There are no answers if a kernel or a configuration computes them, which takes its device.
    """

    contents: list[Contents]
    seconds: float
    warnings: list[str]

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> HostAnswers:
        """The HostAnswers that `dataclasses.asdict` wrote, after a round trip through JSON."""
        contents = [Contents(**{**each, "shape": tuple(each["shape"])}) for each in data["contents"]]
        return HostAnswers(contents, data["seconds"], data["warnings"])


def compute(device: Device, space: Space, problem: Scope) -> HostAnswers:
    """Fill the inputs of the problem and compute its answers, with the memory and processor of `device`.

    This runs the Python functions of the space. Raises SpaceError if one fails or returns something else than it
    should, and DeviceError if the arrays do not fit in memory.
    """
    if isinstance(space.operation.reference, KernelReference | ConfigReference):
        space = replace(space, operation=replace(space.operation, reference=NoReference()))
    op, scope, began = space.operation, nominal(space, space.operation.own(problem)), time.perf_counter()
    input_sets.check_fits(device, op, scope)
    referee = Referee(device, space, ReferenceCache())
    inputs = input_sets.draw(referee, scope, 0)
    seconds = time.perf_counter() - began
    if also := referee.also(scope):  # what is wrong with them would be seen after the search
        input_sets.answered(referee, scope, {**inputs.contents, **also}, input_sets.ALSO)
    warnings = referee.cases.missed({a.name for a in op.arrays}, operation.integers_without_fill(op))
    warnings += blindness.check(referee, scope, inputs).sentences
    read = {name: each for name, each in inputs.contents.items() if name not in inputs.write_only}
    return HostAnswers([*_contents(read, False), *_contents(inputs.answers, True)], seconds, warnings)


def _contents(arrays: Mapping[str, Elements], is_answer: bool) -> Iterator[Contents]:
    for name, elements in arrays.items():
        bounds, strange = list[float](), 0
        for _, part in elements.parts():
            numbers = widened(part)
            sizes = np.abs(numbers) if numbers.dtype.kind == "c" else numbers
            finite = sizes[np.isfinite(sizes)]
            strange += sizes.size - finite.size
            bounds += [finite.min().item(), finite.max().item()] if finite.size else []
        least, largest = (min(bounds), max(bounds)) if bounds else (None, None)
        yield Contents(name, is_answer, elements.element.name, elements.shape, least, largest, strange)
