"""The values of `repeat:`: a number of passes, or the values of loop variables by name."""

import keyword
import re
from typing import Any

from tuner.quoting import quoted
from tuner.space.expressions import parse_value
from tuner.space.loops import COUNT, HALVING, LIST, POWERS, RANGE, Values

_FORMS = (
    "write a number of passes, or {k: VALUES}, where VALUES is a list, {from: 0, to: n - 1, step: 2}, "
    "{powers_of_two: [2, n]} or {halving: [n, 1]}"
)


def parsed(value: object) -> dict[str, Values]:
    """The values of each loop variable by name; those of a count under the empty name. Raises ValueError."""
    if not isinstance(value, dict):
        return {"": Values(COUNT, (parse_value(value),))}
    if not value:
        raise ValueError(f"an empty mapping; {_FORMS}")
    return {str(name): _values(str(name), inner) for name, inner in value.items()}


def _values(name: str, value: object) -> Values:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name):
        raise ValueError(f"{quoted(name)} is not a name; use letters, digits and _")
    if keyword.iskeyword(name):
        raise ValueError(f"`{name}` is a keyword of expressions; choose another name")
    if isinstance(value, list) and value:
        return Values(LIST, tuple(map(parse_value, value)))
    if isinstance(value, dict) and {"from", "to"} <= value.keys() <= {"from", "to", "step"}:
        return Values(RANGE, tuple(parse_value(value.get(key, 1)) for key in ("from", "to", "step")))
    for form in (POWERS, HALVING):
        bounds = value.get(form) if isinstance(value, dict) and value.keys() == {form} else None
        if isinstance(bounds, list) and len(bounds) == 2:
            return Values(form, tuple(map(parse_value, bounds)))
    raise ValueError(f"{name}: {quoted(value)} is no series of values; {_FORMS}")


def json_schema(formula: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema, given that of an expression."""
    bounds = {"type": "array", "items": formula, "minItems": 2, "maxItems": 2}
    series = {**dict.fromkeys(("from", "to", "step"), formula), **dict.fromkeys((POWERS, HALVING), bounds)}
    values = [
        {"type": "object", "properties": series, "additionalProperties": False},
        {"type": "array", "items": formula, "minItems": 1},
    ]
    return {"anyOf": [formula, {"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": values}}]}
