"""Input sets of a problem: the contents of its arrays, with the answers and error bounds."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.devices import environment
from tuner.errors import DeviceError
from tuner.measure.bound import Bound, bound
from tuner.space import operation
from tuner.space.answers import derivation
from tuner.space.argument import Argument
from tuner.space.chosen_types import dtype
from tuner.space.computation import Operation
from tuner.space.dtypes import DType
from tuner.space.scope import Scope
from tuner.space.values.elements import Elements, Held
from tuner.space.values.forms import ConfigReference, KernelReference, NoReference
from tuner.space.values.python_derivation import PythonDerivation

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.measure.answers.referee import Referee
    from tuner.space.answers.cache import ReferenceCache

SEARCH_SETS = 2  # input sets that alternate in a search
SLOW_SECONDS = 1.0  # if one takes longer, a search has one, and the finals have the other: three would take too long
ALSO = 1 << 30  # in place of the seed, of the contents of `also:`
EXPENSIVE_SECONDS = 60.0  # if the reference takes longer for one set, no other set is computed


@dataclass(frozen=True)
class InputSet:
    """The `contents` of every array before a launch, drawn from `seed`, and what a launch must make of them.

    `outputs` are the names of all outputs. `write_only` are those that a run need not read: by their role, or because
    no answer depends on their content and the space file does not say what it is, as `fill: zeros` does. `answers` and
    `bounds` exist for everything that is compared: outputs and derived values, as float64 or integers. Both are empty
    without a reference. The answers took `seconds`, unless they were cached.
    """

    seed: int
    contents: Mapping[str, Elements]
    answers: Mapping[str, Elements]
    bounds: Mapping[str, Bound]
    outputs: frozenset[str]
    write_only: frozenset[str]
    seconds: float = 0.0


def draw(referee: Referee, scope: Scope, seed: int) -> InputSet:
    """Draw the input set of a seed. Raises SpaceError if its contents or answers cannot be computed."""
    return answered(referee, scope, referee.inputs(scope, seed), seed)


def answered(referee: Referee, scope: Scope, contents: Mapping[str, Elements], seed: int) -> InputSet:
    """The input set with these contents, whose answers are computed.

    Raises DeviceError if the answers do not fit in memory. Raises SpaceError if reference, derived values or tolerance
    cannot be evaluated, or do not match one another.
    """
    op, began = referee.space.operation, time.perf_counter()
    try:
        answers, names_read = referee.answers(scope, contents, seed)
        derivation.check(op, scope, contents, answers)
    except MemoryError:
        size = operation.array_bytes(op, scope) / 1e9
        raise DeviceError(f"the reference for {size:.1f} GB of arrays does not fit in memory") from None
    seconds = time.perf_counter() - began
    bounds = {name: bound(op, scope, name, _dtype(op, scope, name, answer), answer) for name, answer in answers.items()}
    outputs = frozenset(a.name for a in op.outputs)
    read = frozenset(a.name for a in op.outputs if a.role == "inout")
    if not any(isinstance(each, PythonDerivation) for each in op.derive.values()):  # which may judge by what they held
        read &= names_read | frozenset(a.name for a in op.outputs if a.fill is not None and not a.fill.is_random)
    return InputSet(seed, contents, answers, bounds, outputs, outputs - read, seconds)


def _dtype(op: Operation, scope: Scope, name: str, answer: Elements) -> DType:
    """The type of an output or a derived value."""
    arguments = {argument.name: argument for argument in op.arrays}
    return dtype(arguments[name], scope) if name in arguments else derivation.dtype(op, scope, name, answer)


def is_renewable(op: Operation, inputs: InputSet, cache: ReferenceCache) -> bool:
    """Whether another seed gives other answers in a reasonable time.

    It does if the answers depend on an array with random contents.
    """
    drawn = (argument.name for argument in op.arrays if argument.fill is None or argument.fill.is_random)
    varies = any(name not in inputs.write_only for name in drawn)
    return varies and cache.seconds(0) <= EXPENSIVE_SECONDS


def check_fits(device: Device, op: Operation, scope: Scope, padded: int = 0) -> None:
    """Raise DeviceError if one input set does not fit on the device.

    `padded` is the size in bytes of the padded arrays that the finals need too. A processor also holds the answers
    themselves, and each run in a fork of the process has its own arrays, because it writes to them.
    """
    needed = _device_bytes(op, scope, 1) + padded
    if device.on_processor:
        needed += _references_bytes(op, scope)
    if device.runs_in_process:
        needed += operation.array_bytes(op, scope)
    if needed > device.memory:
        raise DeviceError(
            f"{device.id}: arrays and references take {needed / 1e9:.1f} GB; {device.name} offers "
            f"{device.memory / 1e9:.1f} GB; try a smaller size"
        )


def set_count(device: Device, op: Operation, scope: Scope, inputs: InputSet, cache: ReferenceCache, padded: int) -> int:
    """How many input sets alternate in a search: SEARCH_SETS or 1.

    It is 1 if all sets would equal `inputs`, the first one, or if memory or time do not allow more. `padded` is the
    size in bytes of the padded arrays that the finals need too.
    """
    if not is_renewable(op, inputs, cache):
        return 1
    on_device = _device_bytes(op, scope, SEARCH_SETS) + padded
    on_host = (SEARCH_SETS + 1) * _host_bytes(inputs) + 2 * padded
    if device.on_processor:
        on_device, on_host = 0, on_device + on_host
    available = environment.available_memory()
    return SEARCH_SETS if on_device <= device.memory and on_host <= available / 2 else 1


def _device_bytes(op: Operation, scope: Scope, sets: int) -> int:
    """Device memory for the arrays and, for each input set, copies of all inputs and references of what is compared."""
    arrays, references = operation.array_bytes(op, scope), _references_bytes(op, scope)
    only_written = sum(operation.nbytes(a, scope) for a in op.arrays if a.role == "out")
    others = references if scope.passed_options or op.also is not None else 0  # of the workbench with other options
    others += arrays - only_written if op.also is not None else 0
    reference_launch = arrays if isinstance(op.reference, KernelReference | ConfigReference) else 0
    return arrays + sets * (arrays - only_written + references) + others + reference_launch


def _references_bytes(op: Operation, scope: Scope) -> int:
    """The bytes of the answers of all outputs that are compared."""
    if isinstance(op.reference, NoReference):
        return 0
    return sum(_reference_bytes(argument, scope) for argument in op.outputs if argument.name in op.compared)


def _reference_bytes(argument: Argument, scope: Scope) -> int:
    element = dtype(argument, scope)
    itemsize = element.itemsize if element.is_exact else element.wide.itemsize
    return math.prod(operation.shape(argument, scope)) * itemsize


def _host_bytes(inputs: InputSet) -> int:
    """Host memory of an input set. Each answer on the host may result from a matrix product of the same size."""
    held = [elements for elements in inputs.contents.values() if isinstance(elements, Held)]
    answers = [answer for answer in inputs.answers.values() if isinstance(answer, Held)]
    return sum(elements.nbytes for elements in held) + 2 * sum(answer.nbytes for answer in answers)
