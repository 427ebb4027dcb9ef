"""Check a declared reference: parse it, and evaluate an expression at small sizes."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tuner.errors import NoConfiguration, SpaceError
from tuner.quoting import shown
from tuner.space import operation
from tuner.space.answers import derivation, reference
from tuner.space.computation import Operation
from tuner.space.default import excluding_all
from tuner.space.expressions import braces
from tuner.space.expressions.bounds import TRYING, OutOfBounds, bounded
from tuner.space.instance import nominal
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources.checks import agreement
from tuner.space.sources.includes import inlined, without_comments
from tuner.space.texts import size_text
from tuner.space.values import python_function
from tuner.space.values.elements import held
from tuner.space.values.forms import ExpressionReference, KernelReference, PythonReference
from tuner.space.values.python_function import PythonFunction

MOST_BYTES = 1 << 22  # total size of the arrays on which a reference is evaluated

Found = tuple[tuple[str | int, ...], str]  # an error: the path of the key at fault, and the message


def fault_of_text(space: Space) -> Found | None:
    """The first error in the text of the reference, or None. Nothing is evaluated."""
    return _code_fault(space) or _role_fault(space.operation)


def fault_of_values(space: Space, scope: Scope) -> str | None:
    """The first error in evaluating the reference at small sizes; None if one choice of sizes shows no error."""
    op, message = space.operation, None
    if not isinstance(op.reference, ExpressionReference) or any(a.fill and a.fill.function for a in op.arguments):
        return None  # code that the file names is not run
    for small in _small(space, scope):
        try:
            small = nominal(space, small)
            if operation.array_bytes(op, small) > MOST_BYTES:
                continue
            arrays = operation.inputs(_tiled(op), small)
        except (SpaceError, NoConfiguration):
            continue  # the space does not allow these sizes
        try:
            with np.errstate(all="ignore"), bounded(TRYING):
                answers, _ = reference.answers(op.reference, small, arrays)
                derivation.check(op, small, arrays, held(answers))
            return None
        except OutOfBounds:
            continue  # the indices need larger arrays
        except SpaceError as error:
            message = message or f"{error}, at {size_text(small.sizes)}"
    return message


def _code_fault(space: Space) -> Found | None:
    """The first error in the source of a reference function or kernel, or None."""
    key, op = ("operation", "reference"), space.operation
    form = op.reference
    try:
        if isinstance(form, PythonReference) and isinstance(form.function, PythonFunction):
            passed = [argument.name for argument in op.arguments if argument.is_array or argument.value]
            python_function.check(form.function, list(dict.fromkeys([*passed, *op.sizes, *op.options])))
        elif isinstance(form, KernelReference):
            reference_space = reference.as_space(space, form)
            source = reference_space.steps[0].source
            text = inlined(source, space.include)
            if not re.search(rf"\b{braces.pattern(form.kernel)}\b", without_comments(text)):
                return (*key, "kernel"), f"{shown(source)} has no kernel {form.kernel}"
            for fault in agreement.faults(reference_space, {source: text}):
                return key, fault.message
    except SpaceError as error:
        return key, str(error)
    return None


def _role_fault(op: Operation) -> Found | None:
    """The error for an output with `role: out` that the reference reads; None if there is none."""
    if not isinstance(op.reference, ExpressionReference):
        return None
    read = {name for expression in op.reference.outputs.values() for name in expression.names}
    for position, argument in enumerate(op.arguments):
        if argument.role == "out" and argument.name in read:
            message = f"{argument.name}: the reference reads what it holds before the launch; write role: inout"
            return ("operation", "arguments", position, "role"), message
    return None


def _tiled(op: Operation) -> Operation:
    """The operation with fills from files repeated, so that they fit any size."""
    arguments = (replace(a, fill=a.fill and replace(a.fill, tile=True)) for a in op.arguments)
    return replace(op, arguments=tuple(arguments))


def _small(space: Space, scope: Scope) -> list[Scope]:
    """`scope` at several choices of small sizes.

    Within each choice the sizes differ, to find axes in the wrong order. If the space allows none of these, all sizes
    are equal.
    """
    count = len(space.operation.sizes)
    distinct = (
        [5 + i for i in range(count)],
        [5 + count - i for i in range(count)],
        [4 << i for i in range(count)],
        [64 << i for i in range(count)],
        [64 << (count - i) for i in range(count)],
    )
    allowed = [small for values in distinct if not excluding_all(space, small := _of_sizes(space, scope, values))]
    return allowed or [_of_sizes(space, scope, [size] * count) for size in (5, 4, 64)]


def _of_sizes(space: Space, scope: Scope, values: Sequence[int]) -> Scope:
    """`scope` at these sizes, each limited to its default."""
    given = zip(space.operation.sizes.items(), values, strict=True)
    return replace(scope, sizes={name: min(default or value, value) for (name, default), value in given})
