"""A rehearsal of the preparation of a workbench: which of our own kernels it will build, found without a device.

The preparation itself runs, on a stage: a device that records sources, holds nothing and computes nothing. So other
processes can build these kernels while the device's worker is still at the first one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tuner.devices.base import Buffer
from tuner.devices.work import Function
from tuner.errors import TunerError
from tuner.measure import turns
from tuner.measure.answers import device_answers
from tuner.measure.answers.formula_nodes import NoFormula
from tuner.measure.answers.placing import Placer
from tuner.measure.answers.referee import Answers, Referee
from tuner.measure.kernels.bench_kernels import BenchKernels
from tuner.measure.kernels.device_kernels import common_source
from tuner.measure.verify import input_sets, precision
from tuner.measure.verify.layout import Layout
from tuner.space import operation
from tuner.space.answers.cache import ReferenceCache
from tuner.space.chosen_types import dtype
from tuner.space.instance import nominal
from tuner.space.values.elements import ON_DEVICE_BYTES, Elements, held
from tuner.space.values.forms import ExpressionReference

if TYPE_CHECKING:
    from tuner.devices.base import Array, Device
    from tuner.devices.work import Work
    from tuner.space.argument import Argument
    from tuner.space.model import Space
    from tuner.space.scope import Scope
    from tuner.space.sources.source import Source
    from tuner.space.values.drawing import Drawn

_ON_HOST = ("file", "python", "permutation")  # kinds of `fill:` that the host computes


def sources(space: Space, scope: Scope) -> list[Source]:
    """The sources of our own kernels that a workbench of this problem builds. The worker begins with the first one, so
    the last comes first here, after what all workbenches share, which takes longest."""
    stage = _Stage(scope.language)
    with contextlib.suppress(TunerError, NoFormula, MemoryError), turns.held(), np.errstate(all="ignore"):
        _rehearse(cast("Device", stage), space, nominal(space, space.operation.own(scope)))
    common = common_source(scope.language)
    return [common, *(source for text, source in reversed(stage.sources.items()) if text != common.text)]


def _rehearse(device: Device, space: Space, scope: Scope) -> None:
    """Do what `Workbench` does first, and the first step of what it does about precision."""
    op, referee = space.operation, _Referee(device, space, ReferenceCache())
    inputs = input_sets.draw(referee, scope, 0)
    buffers = {
        name: device.allocate(data.nbytes) for name, data in inputs.contents.items() if name not in space.varying
    }
    Layout(referee.placer, BenchKernels(device, [a.name for a in op.arguments]), buffers, inputs)
    for _, _, contents in precision.rounded_inputs(op, inputs):
        referee.answers(scope, contents, 0)
        break


class _Stage:
    """A device for `Placer`, `BenchKernels` and `Layout`: those methods that they call."""

    id, place, has_doubles, on_processor = "stage", "", True, False

    def __init__(self, language: str) -> None:
        self.language = language
        self.sources: dict[str, Source] = {}  # by text

    def build(self, source: Source) -> None:
        self.sources[source.text] = source

    def load(self, *_: object) -> None:
        return None

    def function(self, _: object, kernel: str, geometry: Any) -> Any:
        return Function(None, kernel, geometry)

    def bind(self, work: Work) -> Callable[[], None]:
        return _nothing

    def library(self, *_: object) -> _Nothing:
        return _Nothing()

    def allocate(self, nbytes: int, guard: int = 0) -> Buffer:
        return Buffer(None, None, nbytes)

    def upload(self, data: Array) -> Buffer:
        return Buffer(None, None, data.nbytes)

    def write(self, target: object, data: Array, offset: int = 0) -> None: ...

    def read(self, target: object, data: Array, offset: int = 0) -> None:
        data[...] = 0

    def synchronize(self) -> None: ...


def _nothing() -> None: ...


class _Nothing:
    """A vendor library's routine that does nothing."""

    name = "nothing"

    def __call__(self) -> None: ...


class _Placer(Placer):
    """Draws nothing, and believes what it reads."""

    def draw(self, drawn: Drawn, memory: Buffer) -> bool:
        self._drawing(drawn, memory)
        return True

    def compare(self, found: Any, expected: Any, scale: Any, tolerance: float = 0.0) -> None: ...


class _Unknown(Elements):
    """The elements of a small array, which are drawn or computed on the host."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype

    def part(self, start: int, stop: int) -> Array:
        return np.zeros(stop - start, self.dtype)

    def at(self, index: Array) -> Array:
        return np.zeros(index.shape, self.dtype)

    @property
    def largest(self) -> float:
        return 0.0


class _Referee(Referee):
    """Knows what arrays are, not what they contain. Calls no function of the user's, and launches no kernel."""

    def __init__(self, device: Device, space: Space, cache: ReferenceCache) -> None:
        super().__init__(device, space, cache)
        self.placer = _Placer(device)

    def inputs(self, scope: Scope, seed: int) -> dict[str, Elements]:
        op = self.space.operation
        arrays = {argument.name: self._content(argument, scope, place) for place, argument in enumerate(op.arrays)}
        return arrays | held(operation.constants(op, scope))

    def _content(self, argument: Argument, scope: Scope, place: int) -> Elements:
        is_drawn = argument.fill is None or argument.fill.kind not in _ON_HOST
        if is_drawn and operation.nbytes(argument, scope) >= ON_DEVICE_BYTES:
            return operation.content(argument, scope, 0, place)
        return _Unknown(operation.shape(argument, scope), dtype(argument, scope).numpy)

    def _answers(self, scope: Scope, contents: Mapping[str, Elements], seed: int) -> tuple[Answers, frozenset[str]]:
        form, arrays = self.space.operation.reference, self.space.operation.arrays
        found = None
        if isinstance(form, ExpressionReference):
            found = device_answers.answers(form, scope, contents, self.placer)
        if found is not None:
            return found
        outputs = {name: contents[name] for name in self.space.operation.compared if name in contents}
        if any(each.element.is_exact and each.nbytes >= ON_DEVICE_BYTES for each in outputs.values()):
            raise NoFormula  # how they are compared depends on all their elements
        answers: Answers = {name: _Unknown(each.shape, each.element.wide) for name, each in outputs.items()}
        return answers, frozenset(a.name for a in arrays if a.role != "out")
