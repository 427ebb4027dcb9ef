"""The values of a range: `{from: 128, to: 1024, step: 64}`, `{powers_of_two: [16, 1024]}`."""

from fractions import Fraction
from typing import Any

from tuner.quoting import quoted, shown
from tuner.space.config import MAX_VALUES

_SHAPES = "write {from: 128, to: 1024, step: 64}, {powers_of_two: [16, 1024]}, or a list of values"


def expanded(data: dict[str, Any]) -> list[int | float]:
    """The values of a range, both ends included. Raises ValueError if `data` is not a valid range."""
    if data.keys() == {"powers_of_two"}:
        return _powers_of_two(data["powers_of_two"])
    if {"from", "to"} <= data.keys() <= {"from", "to", "step"}:
        return _steps(data["from"], data["to"], data.get("step", 1))
    keys = shown(", ".join(map(str, data)))
    raise ValueError(f"{f'a mapping with the keys {keys}' if data else 'an empty mapping'} is not a range; {_SHAPES}")


def _steps(first: Any, last: Any, step: Any) -> list[int | float]:
    for name, value in (("from", first), ("to", last), ("step", step)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**63:
            raise ValueError(f"{name}: {quoted(value)} is not a number below 2**63")
    start, width, distance = _exact(first), _exact(step), _exact(last) - _exact(first)
    if width <= 0 or distance < 0:
        raise ValueError(f"from {first} to {last} by {step}: the step must be above 0, and `to` not below `from`")
    count = distance // width
    if count >= MAX_VALUES:
        raise ValueError(f"from {first} to {last} by {step}: {count + 1} values; at most {MAX_VALUES} are allowed")
    is_whole = all(isinstance(value, int) for value in (first, last, step))
    values = [int(v) if is_whole else float(v) for v in (start + i * width for i in range(count + 1))]
    if distance % width:
        nearest = int(count + 1) * width + start
        end = int(nearest) if is_whole else float(nearest)
        raise ValueError(f"from {first} by {step} does not reach {last}; write `to: {values[-1]}` or `to: {end}`")
    return values


def _exact(number: int | float) -> Fraction:
    """The number as written in decimal: 0.1 is exactly a tenth, so that steps of 0.1 do not accumulate errors."""
    return Fraction(str(number))


def _powers_of_two(bounds: Any) -> list[int | float]:
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise ValueError("powers_of_two: write the first and the last, as in [16, 1024]")
    for bound in bounds:
        if isinstance(bound, bool) or not isinstance(bound, int) or not 0 < bound < 2**63 or bound & (bound - 1):
            raise ValueError(f"powers_of_two: {quoted(bound)} is not a power of two from 1 to 2**62")
    first, last = bounds
    if first > last:
        raise ValueError(f"powers_of_two: [{first}, {last}]: the first is above the last; swap them")
    return [1 << exponent for exponent in range(first.bit_length() - 1, last.bit_length())]
