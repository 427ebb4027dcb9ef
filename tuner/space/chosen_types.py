"""The types that a user chooses: `--type real=float16` for `types: {real: [float32, float16]}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.errors import RequestError
from tuner.quoting import quoted, shown
from tuner.space.dtypes import DTYPES, DType, canonical

if TYPE_CHECKING:
    from tuner.space.argument import Argument, Field
    from tuner.space.computation import Operation
    from tuner.space.scope import Scope

Types = Mapping[str, str]


def dtype_of(argument: Argument, types: Types) -> DType:
    """The type of an argument under the chosen `types`."""
    return DTYPES[types.get(argument.dtype, argument.dtype)]


def choices(argument: Argument | Field, types: Mapping[str, Sequence[str]]) -> list[DType]:
    """The types that an argument may have, where `types` are the operation's. That of scratch must not be chosen."""
    return [DTYPES[name] for name in types.get(argument.dtype, (argument.dtype,))]


def dtype(argument: Argument, scope: Scope) -> DType:
    """The type of an argument of this problem. That of scratch may be a parameter's value."""
    if argument.dtype in scope.config:
        return DTYPES[canonical(str(scope.config[argument.dtype]))]
    return dtype_of(argument, scope.types)


def defaults(operation: Operation) -> dict[str, str]:
    """The default dtype of each of the operation's types: the first of its list."""
    return {name: allowed[0] for name, allowed in operation.types.items()}


def parse(chosen: object, operation: Operation) -> dict[str, str]:
    """The dtype of each of the operation's types: that of `chosen`, such as {"real": "float16"}, or else the default.

    Raises RequestError for a name that the operation does not declare, and for a dtype that is not in its list.
    """
    if not isinstance(chosen, Mapping):
        raise RequestError(f'types={quoted(chosen)}: write names with types, such as {{"real": "float16"}}')
    types = defaults(operation)
    for name, value in chosen.items():
        if name not in types:
            known = f"type of this name; there are: {', '.join(types)}" if types else "choice of types"
            raise RequestError(f"type {shown(str(name))}: the kernel has no {known}")
        if not isinstance(value, str) or canonical(value) not in operation.types[name]:
            allowed = ", ".join(operation.types[name])
            raise RequestError(f"type {name} = {quoted(value)}: allowed are {allowed}")
        types[name] = canonical(value)
    return types
