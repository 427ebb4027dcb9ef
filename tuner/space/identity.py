"""The identity of a space, including all files that its verification reads.

The files are read, never run. Functions of a space in Python are identified by `function_identity`.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import SpaceError
from tuner.quoting import shown
from tuner.space import snapshot
from tuner.space.expressions.computed_numbers import ComputedNumber
from tuner.space.model import Space
from tuner.space.sources import includes, rendering
from tuner.space.values import function_identity, python_function
from tuner.space.values.forms import KernelReference
from tuner.space.values.function_object import FunctionObject

ANOTHER = "which may be another one in the next run"  # the end of a message


def of(space: Space) -> str:
    """The digest that identifies a space in ledgers and records.

    It covers the signature and the contents of data files, of Python functions and the modules that they import from
    their folders, and of the reference kernel. Without any such file it is the signature itself. Raises SpaceError for
    a file that cannot be read.
    """
    signature, contents = rendering.signature(space), list(_contents(space))
    return paths.digest(signature, *contents) if contents else signature


def _contents(space: Space) -> Iterator[str]:
    for argument in space.operation.arguments:
        if argument.fill is not None and argument.fill.file is not None and not argument.fill.drawn:
            yield f"{argument.name} {_digest(argument.fill.file)}"
    for function in space.operation.python_functions:
        if isinstance(function, FunctionObject):
            yield f"{function} {_of_object(function)}"
            continue
        for file in python_function.closure(function.file):
            yield f"{file.name} {_digest(file)}"
    for name, number in _computed(space).items():
        yield f"{name} {_identified(('computed', id(number.made_of)), number.made_of)}"
    reference = space.operation.reference
    if isinstance(reference, KernelReference) and reference.source is not None:
        yield includes.without_comments(includes.inlined(reference.source, space.include))


def unknown(space: Space) -> str | None:
    """Why the next run cannot tell whether its space is the same; None if it can."""
    for function in space.operation.python_functions:
        if isinstance(function, FunctionObject) and function.target is not None:
            try:
                function_identity.of(function.target)
            except function_identity.NoIdentity as error:
                return f"{function.origin} reads {error}, {ANOTHER}"
    for name, number in _computed(space).items():
        try:
            function_identity.of(number.made_of)
        except function_identity.NoIdentity as error:
            return f"{name} is computed from {error}, {ANOTHER}"
    return None


def _computed(space: Space) -> dict[str, ComputedNumber]:
    return {name: number for name, number in space.computed.items() if isinstance(number, ComputedNumber)}


def _of_object(function: FunctionObject) -> str:
    """The identity of a function object."""
    return function.token if function.target is None else _identified(("function", function.token), function.target)


def _identified(key: object, value: Any) -> str:
    """The identity of a function, or of what consists of functions. One without any differs from run to run."""

    def identify() -> str:
        try:
            return function_identity.of(value)
        except function_identity.NoIdentity:
            return uuid.uuid4().hex

    return snapshot.once(key, identify)


def _digest(path: Path) -> str:
    try:
        return snapshot.digest(path)
    except OSError as error:
        raise SpaceError(f"{shown(path)}: cannot be read: {error.strerror}; correct its path or rights") from None
