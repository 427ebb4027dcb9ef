"""`stride(A, 0)` in the value of a scalar: how many elements the array A has from one index of an axis to the next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tuner.quoting import shown

_STRIDE = re.compile(r"\bstride\(\s*(\w+)\s*,\s*(-?\d+)\s*\)")


def written(arguments: Any) -> Any:
    """The arguments of a file, each stride in a value replaced by what it is: an entry of `strides:`, or a product of
    extents. Raises ValueError for an array that is not there, or lacks the axis."""
    if not isinstance(arguments, list):
        return arguments
    arrays = {str(a.get("name")): a for a in arguments if isinstance(a, dict) and isinstance(a.get("shape"), list)}
    return [
        {**a, "value": _replaced(a["value"], a.get("name"), arrays)} if isinstance(a, dict) and "value" in a else a
        for a in arguments
    ]


def _replaced(value: Any, name: Any, arrays: Mapping[str, dict[str, Any]]) -> Any:
    if isinstance(value, list):
        return [_replaced(each, name, arrays) for each in value]
    if not isinstance(value, str):
        return value

    def stride(found: re.Match[str]) -> str:
        array, axis = arrays.get(found[1]), int(found[2])
        if array is None:
            known = ", ".join(map(shown, arrays))
            raise ValueError(f"{shown(name)}: `{found[0]}`: there is no array {found[1]}; the arrays are {known}")
        shape = array["shape"]
        if not -len(shape) <= axis < len(shape):
            raise ValueError(
                f"{shown(name)}: `{found[0]}`: {found[1]} has {len(shape)} axes, which are 0 to {len(shape) - 1}"
            )
        declared = array.get("strides")
        if isinstance(declared, list) and len(declared) == len(shape):
            return f"({declared[axis]})"
        inner = shape[axis % len(shape) + 1 :]
        return f"({' * '.join(f'({extent})' for extent in inner)})" if inner else "1"

    return _STRIDE.sub(stride, value)
