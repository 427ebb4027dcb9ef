"""Evaluates a space without a device: whether every expression has a value, and every launch is possible."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.classes import dataclass
from tuner.errors import ExpressionError, SpaceError
from tuner.quoting import quoted, shown
from tuner.space import chosen_types
from tuner.space import operation as operations
from tuner.space.answers import trial
from tuner.space.argument import Argument
from tuner.space.chosen_types import Types
from tuner.space.computation import Operation
from tuner.space.default import excluding_all
from tuner.space.dtypes import DType
from tuner.space.expressions import Expression
from tuner.space.file import sample
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import COMMON_GPU, Limits, Scope
from tuner.space.sources import rendering
from tuner.space.sources.checks import agreement
from tuner.space.texts import config_text, size_text
from tuner.space.values import filling, python_function
from tuner.space.values.fills import Fill
from tuner.space.values.forms import KernelReference
from tuner.space.values.python_function import PythonFunction
from tuner.space.values.tolerance import EPSILON, Tolerance

Where = tuple[str | int, ...]
Test = Callable[[Instance], object]  # raises SpaceError if it fails
Check = tuple[Where, Test]


@dataclass(frozen=True)
class Evaluation:
    """The result of evaluating a space.

    configurations: the number of valid configurations tried, in the language with the most.
    where, message: the key and the message of the first error; `message` is None if there is none.
    limits: the limits of the device on which the space was evaluated.
    excludes_all: no configuration is valid. If false and `configurations` is 0, only the sample had no valid one.
    """

    configurations: int
    where: Where = ()
    message: str | None = None
    limits: Limits = COMMON_GPU
    excludes_all: bool = False


def evaluate(
    space: Space, sizes: Mapping[str, int], types: Types, own_restrictions: int, limits: Sequence[Limits]
) -> Evaluation:
    """Evaluate the space at these sizes and with these types, in each of its languages, up to the first error.

    own_restrictions: the number of restrictions that the file declares. They come first; the device imposes the others.
    limits: the limits of devices. The first device with a valid configuration is used, else the last.

    The operation's expressions must have values. For every valid configuration tried, restrictions and derived values
    must have values, and block and grid must be launchable.
    """
    if (fault := _file_fault(space.operation)) is not None:
        return fault
    if (text_fault := trial.fault_of_text(space)) is not None:
        return Evaluation(0, *text_fault)
    for device in limits:
        op = space.operation
        scopes = [op.scope(sizes, op.options, language, device, types) for language in space.languages]
        evaluation = _on_device(space, scopes, own_restrictions)
        if evaluation.configurations or evaluation.message is not None:
            break
    if evaluation.configurations or evaluation.message is not None:
        return evaluation
    excludes_all = sample.takes_all(space) or all(excluding_all(space, scope) for scope in scopes)
    return replace(evaluation, excludes_all=excludes_all)


def _on_device(space: Space, scopes: Sequence[Scope], own_restrictions: int) -> Evaluation:
    """Evaluate the space in each of its languages on one device."""
    most_tried, limits = 0, scopes[0].limits
    for scope in scopes:
        tried = 0
        unconfigured = Instance(space, {}, scope)
        for where, test in _operation_checks(space):
            if (message := _fault(test, unconfigured)) is not None:
                return Evaluation(tried, ("operation", *where), f"{message}, at {size_text(scope.sizes)}")
        if (message := _fault(_strides, unconfigured)) is not None:
            return Evaluation(tried, ("operation", "arguments"), message)
        if (message := trial.fault_of_values(space, scope)) is not None:
            return Evaluation(tried, ("operation", "reference"), message)
        checks = [
            *_configuration_checks(space, own_restrictions),
            *((("steps", number, "grid"), _clusters(number, cluster)) for number, cluster in agreement.clusters(space)),
            (("kernel",), rendering.kernels_of),
        ]
        for instance in sample.instances(space, scope, sample.SIZE // len(scopes)):
            tried += 1
            for where, test in checks:
                if (message := _fault(test, instance)) is not None:
                    place = f"{shown(config_text(instance.config))}, {size_text(scope.sizes)}"
                    return Evaluation(
                        tried, where, f"{message}, at {place}; fix it, or exclude this configuration by a restriction"
                    )
        most_tried = max(most_tried, tried)
    return Evaluation(most_tried, limits=limits)


def _strides(instance: Instance) -> object:
    """The test that arrays, contiguous or padded, can have the declared strides."""
    return operations.padded(instance.space.operation, instance.problem, instance.space.alignment)


def _fault(test: Test, instance: Instance) -> str | None:
    """The message of a failed test; None if it passes."""
    try:
        test(instance)
    except SpaceError as error:
        return str(error)
    return None


def _operation_checks(space: Space) -> Iterator[Check]:
    """The checks of expressions that do not depend on the configuration, with their keys in the operation."""
    op, chosen = space.operation, {*space.parameters, *space.derived}
    for position, argument in enumerate(op.arguments):
        for expression in argument.shape or ():
            if not expression.names & chosen:
                yield ("arguments", position, "shape"), _whole(expression, 1)
        for expression in argument.value:
            if not expression.names & (chosen | space.loop_names):
                yield ("arguments", position, "value"), _fitting(argument, expression)
        if argument.fill is not None and argument.fill.expressions:
            for dtype in chosen_types.choices(argument, op.types):
                yield ("arguments", position, "fill"), _filled(argument.fill, dtype)
    for position, extent in enumerate(op.extent):
        yield ("extent", position), _whole(extent, 1)
    for key, formula in (("flops", op.flops), ("bytes", op.bytes)):
        if formula is not None:
            yield (key,), _number(formula, 0)
    for tolerance in op.tolerance.values():
        yield ("tolerance",), _tolerable(tolerance)
    if isinstance(op.reference, KernelReference):
        for key, extents in (("grid", op.reference.grid), ("block", op.reference.block)):
            for position, extent in enumerate(extents):
                yield ("reference", key, position), _whole(extent, 1)


def _configuration_checks(space: Space, own_restrictions: int) -> Iterator[Check]:
    """The checks of a configuration. Restrictions are among them, because one without a value excludes nothing."""
    for name in space.derived:
        yield ("derived", name), _derived(name)
    for position, restriction in enumerate(space.restrictions[:own_restrictions]):
        yield ("restrictions", position), _number(restriction.that)
    for number, step in enumerate(space.steps):
        if step.when is not None:
            continue
        for key, extents in (("block", step.block), ("grid", step.grid), ("cluster", step.cluster or ())):
            for position, extent in enumerate(extents):
                if not extent.names & space.loop_names:
                    yield ("steps", number, key, position), _whole(extent, 1)
        yield ("steps", number, "shared_memory"), _whole(step.shared_memory, 0)
    if space.order:
        yield ("steps",), lambda instance: instance.geometries
    for position, argument in enumerate(space.operation.arguments):
        for extent in (argument.shape or ()) if argument.name in space.varying else ():
            yield ("operation", "arguments", position, "shape"), _whole(extent, 1)
        for key, expressions in (argument.kind.expressions if argument.kind is not None else {}).items():
            for expression in expressions:
                yield ("operation", "arguments", position, key), _whole(expression, 0)
        for value in argument.value if argument.shape is None else ():
            if value.names & {*space.parameters, *space.derived} and not value.names & space.loop_names:
                yield ("operation", "arguments", position, "value"), _fitting(argument, value)
    for restriction in space.restrictions[own_restrictions:]:
        yield (), _number(restriction.that)


def _derived(name: str) -> Test:
    return lambda instance: instance.names[name]


def _number(expression: Expression, least: float = -math.inf) -> Test:
    def test(instance: Instance) -> None:
        value = expression.evaluate(instance.names)
        if not isinstance(value, int | float):
            raise ExpressionError(f"`{shown(expression.text)}` is {quoted(value)}; a number, true or false is needed")
        if value < least:
            raise ExpressionError(f"`{shown(expression.text)}` is {value}; at least {least} is needed")

    return test


def _fitting(argument: Argument, expression: Expression) -> Test:
    """The test that the value, or an element, of the argument fits its dtype."""

    def test(instance: Instance) -> None:
        _number(expression)(instance)
        value, element = expression.evaluate(instance.names), chosen_types.dtype(argument, instance.problem)
        if not math.isfinite(value) or not element.holds(value):
            raise ExpressionError(
                f"`{shown(expression.text)}` is {quoted(value)}, which does not fit {element.name}; declare a wider "
                "dtype, or try a smaller size"
            )

    return test


def _clusters(number: int, cluster: tuple[Expression, ...]) -> Test:
    """The test that the grid of a step is whole clusters, as the kernel declares them by `__cluster_dims__`, and that
    the file's `cluster:` is the same."""

    def test(instance: Instance) -> None:
        extents = [each.integer(instance.names) for each in cluster]
        grid = instance.geometries[number].grid
        declared = instance.geometries[number].cluster
        if instance.space.steps[number].cluster is not None and declared != (*extents, 1, 1)[:3]:
            raise ExpressionError(
                f"`cluster:` is {declared}, but the kernel has __cluster_dims__({', '.join(map(str, extents))}); "
                "remove one of them"
            )
        if any(blocks % extent for blocks, extent in zip(grid, extents, strict=False) if extent > 0):
            raise ExpressionError(
                f"a grid of {grid} is not whole clusters of __cluster_dims__({', '.join(map(str, extents))})"
            )

    return test


def _tolerable(tolerance: Tolerance) -> Test:
    return lambda instance: tolerance.values({**instance.names, EPSILON: 2.0**-24})


def _whole(expression: Expression, least: int) -> Test:
    def test(instance: Instance) -> None:
        value = expression.integer(instance.names)
        if value < least:
            raise ExpressionError(f"`{shown(expression.text)}` is {value}; at least {least} is needed")

    return test


def _filled(fill: Fill, dtype: DType) -> Test:
    return lambda instance: fill.at(instance.names, dtype)


def _file_fault(op: Operation) -> Evaluation | None:
    """The error of a file or function that fills an input. The file's length is checked later, for a known size."""
    passed = [python_function.GENERATOR, *op.sizes, *op.options]
    for position, argument in enumerate(op.arguments):
        fill, where = argument.fill, ("operation", "arguments", position, "fill")
        try:
            if fill is not None and fill.file is not None:
                filling.opened(fill, argument.name, chosen_types.choices(argument, op.types))
            elif fill is not None and isinstance(fill.function, PythonFunction):
                python_function.check(fill.function, passed)
        except SpaceError as error:
            return Evaluation(0, where, str(error))
    try:
        if op.also is not None:
            python_function.check(op.also, passed)
    except SpaceError as error:
        return Evaluation(0, ("operation", "also"), str(error))
    return None
