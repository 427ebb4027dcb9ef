"""Types that are chosen like sizes: `--type real=float16` for `types: {real: [float32, float16]}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.errors import RequestError
from tuner.quoting import quoted, shown
from tuner.space.dtypes import DTYPES, DType, canonical

if TYPE_CHECKING:
    from tuner.space.argument import Argument
    from tuner.space.model import Operation
    from tuner.space.scope import Scope

Types = Mapping[str, str]


def dtype_of(argument: Argument, types: Types) -> DType:
    """The type of an argument under the chosen `types`."""
    return DTYPES[types.get(argument.dtype, argument.dtype)]


def dtype(argument: Argument, scope: Scope) -> DType:
    """The type of an argument of this problem; of scratch, in a scope with a configuration, perhaps a parameter's."""
    if argument.dtype in scope.config:
        return DTYPES[canonical(str(scope.config[argument.dtype]))]
    return dtype_of(argument, scope.types)


def defaults(operation: Operation) -> dict[str, str]:
    """The type that each name stands for where nothing is chosen: the first one of its list."""
    return {name: allowed[0] for name, allowed in operation.types.items()}


def parse(chosen: object, operation: Operation) -> dict[str, str]:
    """The types that `chosen` names, as in {"real": "float16"}, and the defaults of the others, in the order of the
    operation. Raises RequestError for a name that the operation does not have, and a type that is not in its list."""
    if not isinstance(chosen, Mapping):
        raise RequestError(f'types={quoted(chosen)}: write names with types, as {{"real": "float16"}}')
    types = defaults(operation)
    for name, value in chosen.items():
        if name not in types:
            names = ", ".join(types) or "none"
            raise RequestError(f"type {shown(str(name))}: the kernel has no type of this name; there are: {names}")
        if not isinstance(value, str) or canonical(value) not in operation.types[name]:
            allowed = ", ".join(operation.types[name])
            raise RequestError(f"type {name} = {quoted(value)}: allowed are {allowed}")
        types[name] = canonical(value)
    return types
