"""The referee: computes the answers for input sets.

It uses the reference that the space declares: expressions, a Python function, a kernel or a configuration.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import SpaceError, TrialError, TunerError, WrongResult
from tuner.measure.answers import device_answers, python_calls
from tuner.measure.answers.placing import Placed, Placer
from tuner.measure.answers.reference_launch import ReferenceLaunch
from tuner.quoting import shown
from tuner.space import operation
from tuner.space.answers import derivation, reference
from tuner.space.answers.cache import ReferenceCache
from tuner.space.expressions import cases
from tuner.space.expressions.cases import Cases
from tuner.space.instance import Instance, checked
from tuner.space.texts import config_text
from tuner.space.values import copies, python_function
from tuner.space.values.elements import ON_DEVICE_BYTES, Elements, Held, held
from tuner.space.values.forms import (
    ConfigReference,
    ExpressionReference,
    KernelReference,
    NoReference,
    PythonReference,
)
from tuner.space.values.function_object import FunctionObject
from tuner.space.values.python_function import PythonFunction

if TYPE_CHECKING:
    from tuner.devices.base import Array, Buffer, Device
    from tuner.measure.answers.python_calls import AnyFunction
    from tuner.space.model import Space
    from tuner.space.scope import Scope
    from tuner.space.values.forms import Reference

Answers = dict[str, "Elements"]
Arrays = dict[str, "Array"]
# Words of NumPy, of SciPy, and of our own comparison about indices that are out of bounds.
_OF_INDICES = re.compile(
    r"IndexError|out of (bounds|range)|negative|\bindex (pointer|values|\d+)|writes (before|after)|is not written"
)
_OUT_OF_BOUNDS = ("not a number", "writes outside")  # reasons of failures


class Referee:
    """Computes the answers for inputs of one space, on one device. `cache` shares them between processes."""

    def __init__(self, device: Device, space: Space, cache: ReferenceCache) -> None:
        self.device, self.space, self.cache = device, space, cache
        self.placer = Placer(device)
        self._parameters: dict[tuple[AnyFunction, tuple[str, ...]], list[str]] = {}
        self.cases = Cases()  # of the reference's conditions, over all inputs so far

    def apart(self, reference: Reference | None = None) -> Referee:
        """A referee whose answers the shared cache does not keep; with another reference, if one is given."""
        op = self.space.operation
        changed = replace(self.space, operation=replace(op, reference=reference or op.reference))
        return Referee(self.device, changed, ReferenceCache())

    def covers(self, scope: Scope) -> bool:
        """Whether the reference has answers for this scope, which may have other options."""
        form = self.space.operation.reference
        return not isinstance(form, ConfigReference) or self.space.valid(form.config, scope)

    def _requested(self, function: AnyFunction, names: Sequence[str]) -> list[str]:
        """`python_calls.requested`, in isolation: a file that starts threads or enters OpenMP when it is imported would
        hang the kernels that run in forks of this process."""
        key = function, tuple(names)
        if key not in self._parameters:
            self._parameters[key] = self.device.isolation.run(lambda: python_calls.requested(function, names))
        return self._parameters[key]

    def options(self, scope: Scope) -> frozenset[str]:
        """The options that the reference takes into account: a kernel's or function's arguments, otherwise all."""
        form, names = self.space.operation.reference, scope.options.keys()
        if isinstance(form, KernelReference):
            given: Sequence[str] = form.arguments
        elif isinstance(form, PythonReference):
            arrays = [a.name for a in self.space.operation.arrays]
            known = [*arrays, *scope.sizes, *names, *scope.passed_scalars]
            given = self._requested(form.function, known)
        else:
            return frozenset(names)
        computed_from = [expression.names for name, (expression, _) in scope.computed.items() if name in given]
        return frozenset(given).union(*computed_from) & names

    def inputs(self, scope: Scope, seed: int) -> dict[str, Elements]:
        """The contents of all arrays for this seed.

        Raises SpaceError if a fill function returns other contents than before: cached answers would not match them.
        """
        op = self.space.operation
        with self.cache.timed(seed):
            # Function objects are called where they are, which is in another process.
            filled = python_calls.filled(op, scope, seed, FunctionObject)
            if any(isinstance(each, PythonFunction) for each in op.python_functions):
                filled |= self.device.isolation.run(lambda: python_calls.filled(op, scope, seed, PythonFunction))
        checksum = np.array([copies.checksum(data) for data in filled.values()])
        if filled and not np.array_equal(self.cache.get(seed, "checksum", lambda: checksum), checksum):
            raise SpaceError(
                f"{self.space.operation_origin}: fill: {', '.join(filled)}: other contents for the same generator; "
                f"draw from `{python_function.GENERATOR}` alone"
            )
        return operation.inputs(op, scope, seed, filled)

    def also(self, scope: Scope) -> dict[str, Elements]:
        """The other contents of inputs, on which kernels are verified and not timed; none without `also:`."""
        op = self.space.operation
        return {} if op.also is None else held(self.device.isolation.run(lambda: python_calls.also(op, scope)))

    def answers(self, scope: Scope, contents: Mapping[str, Elements], seed: int) -> tuple[Answers, frozenset[str]]:
        """The answers of each output, and the names of the arrays that they depend on; no answers without a reference.

        Raises SpaceError if they cannot be computed: no configuration is to blame.
        """
        try:
            return self._answers(scope, contents, seed)
        except SpaceError as error:
            hint = operation.index_hint(self.space.operation) if _OF_INDICES.search(str(error)) else ""
            raise SpaceError(f"{error}; {hint}") if hint else error from None

    def may_index(self, reason: str) -> bool:
        """Whether a configuration may fail for this reason because inputs that are indices have invalid elements.

        A wrong result has this cause only if elements may be negative: the others are at most 8.
        """
        if reason != WrongResult.reason:
            return reason in _OUT_OF_BOUNDS
        op = self.space.operation
        names = operation.integers_without_fill(op)
        is_expression = isinstance(op.reference, ExpressionReference)
        return self.cases.has_negative_index(names) if is_expression else operation.may_be_negative(op, names)

    def _answers(self, scope: Scope, contents: Mapping[str, Elements], seed: int) -> tuple[Answers, frozenset[str]]:
        form, op = self.space.operation.reference, self.space.operation
        read = frozenset(a.name for a in op.arrays if a.role != "out")
        match form:
            case ExpressionReference():
                on_device = device_answers.answers(form, scope, contents, self.placer)
                if on_device is not None:
                    return on_device
                return self._evaluated(form, scope, contents, seed)
            case NoReference():
                return {}, read
            case PythonReference(function, is_fixed):
                names = [*contents, *scope.sizes, *scope.options, *scope.passed_scalars]
                requested = [] if is_fixed else self._requested(function, names)
                takes_all = is_fixed or len(requested) == len(names)  # by `**`: the arrays that it reads are unknown
                call = functools.partial(self._returned, form, requested, scope, contents)
                is_elsewhere = isinstance(function, FunctionObject)
                answers = self._cached(seed, scope, call if is_elsewhere else lambda: self.device.isolation.run(call))
                return answers, read if takes_all else frozenset(requested)
            case KernelReference():
                instance = Instance(reference.as_space(self.space, form), {}, scope)
            case ConfigReference(config):
                instance = checked(self.space, config, scope)
        if (placed := self._placed(instance, contents)) is not None:
            return placed, read
        launch = functools.partial(self._launched, instance, contents)
        return self._cached(seed, scope, lambda: self.device.isolation.run(launch)), read

    def _evaluated(
        self, form: ExpressionReference, scope: Scope, contents: Mapping[str, Elements], seed: int
    ) -> tuple[Answers, frozenset[str]]:
        """The answers of expressions, evaluated on the host. Large ones are then moved to the device."""
        product = functools.partial(self.cache.get, seed)
        with cases.recorded_in(self.cases):
            outputs, depends = reference.answers(form, scope, contents, product)

        def on_device(name: str) -> Elements:
            def compute(memory: Buffer) -> None:
                again = outputs.pop(name, None)
                if again is None:
                    again = reference.answers(form, scope, contents, product)[0][name]
                self.device.write(memory.handle, np.ascontiguousarray(again))

            return Placed(self.placer, outputs[name].shape, compute)

        def can_move(name: str) -> bool:
            is_real = name in contents and contents[name].element.kind == "real"
            return is_real and self.device.has_doubles and outputs[name].nbytes >= ON_DEVICE_BYTES

        return {name: on_device(name) if can_move(name) else Held(outputs[name]) for name in [*outputs]}, depends

    def _cached(self, seed: int, scope: Scope, compute: Callable[[], Arrays]) -> Answers:
        """The answers of this input set from the cache. `compute` is called at most once, if any is missing."""
        options, computed = sorted(scope.options.items()), Arrays()

        def answer(name: str) -> Array:
            computed.update(computed or compute())
            return computed[name]

        names = self.space.operation.compared
        return {n: Held(self.cache.get(seed, f"answer {n} {options}", functools.partial(answer, n))) for n in names}

    def _returned(
        self, form: PythonReference, requested: Sequence[str], scope: Scope, contents: Mapping[str, Elements]
    ) -> Arrays:
        """The answers that a Python function returns."""
        names = self.space.operation.compared
        arrays = {name: contents[name].array() for name in contents.keys() & requested}
        given = {**arrays, **scope.passed_sizes, **scope.typed_options, **scope.passed_scalars}
        returned = python_calls.call(form.function, {name: given[name] for name in requested})
        arrays_returned = python_calls.by_name(form.function, returned, [*names])
        text = f"{python_calls.origin(form.function)}: its result"
        return {
            n: reference.as_answer(a, n, contents.get(n), text) for n, a in zip(names, arrays_returned, strict=True)
        }

    def _placed(self, instance: Instance, contents: Mapping[str, Elements]) -> Answers | None:
        """The answers that a configuration computes, left on the device; None if they are small, if they do not fit, or
        if the launch fails, of which `_launched` then says why."""
        op, device = self.space.operation, self.device
        elements = {name: contents[name] for name in op.compared if name in contents}
        is_large = any(each.nbytes >= ON_DEVICE_BYTES for each in elements.values())
        if not is_large or op.derive or device.runs_in_process or not device.has_doubles:
            return None
        if any(contents[a.name].element.kind not in ("real", "integer") for a in op.outputs):
            return None

        def compute(name: str, memory: Buffer) -> None:
            ReferenceLaunch(self.placer, instance, contents).place(name, memory)

        try:
            return {
                name: Placed(
                    self.placer,
                    each.shape,
                    functools.partial(compute, name),
                    *([each.element] if each.element.is_exact else []),
                )
                for name, each in elements.items()
            }
        except (TunerError, MemoryError):
            return None

    def _of_options(self, scope: Scope, error: TrialError) -> str:
        """Why a reference failed, and at which values of the options if these are not the file's own."""
        own = self.space.operation.options
        other = [f"{name}={value:g}" for name, value in scope.options.items() if value != own.get(name)]
        at = f", with {' '.join(other)}" if other else ""
        advice = "; the finals try other values of options: give an argument that may have only one a `value:`"
        return f"{at}: {error.reason}: {error}{advice if other else ''}"

    def _launched(self, instance: Instance, contents: Mapping[str, Elements]) -> Arrays:
        """The answers that a configuration computes, launched on separate arrays."""
        form = self.space.operation.reference
        name = (
            f"kernel {form.kernel}" if isinstance(form, KernelReference) else f"config {config_text(instance.config)}"
        )
        origin = f"{self.space.operation_origin}: reference: {shown(name)}"
        try:
            outputs = ReferenceLaunch(self.placer, instance, contents).outputs()
        except TrialError as error:
            raise SpaceError(f"{origin}{self._of_options(instance.problem, error)}") from None
        op = self.space.operation
        with self.device.plain_arithmetic():
            values = {
                **outputs,
                **derivation.values(op, instance.problem, {**contents, **held(outputs)}, python_calls.call),
            }
            return {n: reference.as_answer(values[n], n, contents.get(n), origin) for n in op.compared}
