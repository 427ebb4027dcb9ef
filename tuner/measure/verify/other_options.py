"""Further values of the options, at which a kernel is verified in addition to those of the problem.

A kernel that ignores or rounds an option may be right with its default value.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.space.chosen_types import dtype
from tuner.space.dtypes import DTYPES

if TYPE_CHECKING:
    from tuner.space.computation import Operation
    from tuner.space.dtypes import DType
    from tuner.space.scope import Scope

APART = 0.1  # of the option: the least by which another value differs, so that outputs show the difference
LOST = 0.1  # of the last digit: the least that rounding must change


def varied(
    op: Operation, scope: Scope, known: Collection[str], seen: Mapping[str, float] = MappingProxyType({})
) -> Scope | None:
    """`scope` with other values of all options that may differ; None if none may. Those in `seen` have these values.

    An option may differ if it is in `known`, the options that the reference takes into account; if no shape depends on
    it; and if the kernel's argument can hold the other value. One whose value in `seen` is its own does not.
    """
    types = {name: dtype(argument, scope) for name, takers in op.takers.items() for argument in takers}
    in_shapes = {name for a in op.arrays for extent in a.shape or () for name in extent.names}
    options: dict[str, float] = {}
    for name, value in scope.passed_options.items():
        argument_type = types.get(name)
        other = seen.get(name, _other(value, argument_type))
        is_held = argument_type is None or argument_type.holds(other)
        if name in known and name not in in_shapes and is_held and other != value:
            options[name] = other
    return replace(scope, options={**scope.options, **options}) if options else None


def hints(op: Operation, own: Scope, other: Scope, diverges: bool) -> list[str]:
    """What to do about a kernel that is wrong at the options of `other` because an option has no other value, as a
    whole number, or any option at whose other value the computation `diverges`."""
    whole = {name for name, takers in op.takers.items() if any(dtype(each, own).kind == "integer" for each in takers)}
    return [
        f"if {name} is always {value:g}, write `value: {value:g}` at its argument in place of the option"
        for name, value in own.passed_options.items()
        if (diverges or name in whole) and value != other.options[name]
    ]


def nearer(op: Operation, scope: Scope) -> dict[str, float]:
    """Values of the options that are nearer to 0 than their own, as a shorter time step, whose computation does not
    diverge; whole numbers have none."""
    types = {name: [dtype(argument, scope) for argument in takers] for name, takers in op.takers.items()}
    return {
        name: _other(option, next(iter(types[name]), None), factor=0.5)
        for name, option in scope.passed_options.items()
        if all(each.kind == "real" for each in types[name])
    }


def _other(option: float, dtype: DType | None, factor: float = 1.0) -> float:
    """Another value than `option`, of the same sign and similar size, for an argument of `dtype`.

    A kernel that keeps fewer digits of it than the argument has gets another number. With the `factor` 0.5, the value
    is nearer to 0.
    """
    if dtype is not None and dtype.kind == "boolean":
        return 1 - option
    if dtype is not None and dtype.kind == "integer":
        return option + (2 if option in (0, 1) else 1)  # with 0 and 1 a kernel may ignore the option
    first = option + 0.3 if option in (0, 1) else option * 1.3
    # In binary 1.010101... and 1.101010...: to any number of digits, they are rounded by a third of the last one.
    power = factor * math.ldexp(math.copysign(0.5, option), math.frexp(option or 0.3)[1])
    values = (first if factor == 1 else option / 1.3, power * (4 / 3), power * (5 / 3))
    apart = [value for value in values if abs(value - option) >= APART * abs(option)]
    return next((value for value in apart if _shows(value, option, dtype or DTYPES["float64"])), power)


def _shows(value: float, option: float, dtype: DType) -> bool:
    """Whether an argument of `dtype` with `value` differs from `option`, and loses part of a digit in coarser types."""
    if not dtype.holds(value):
        return False
    passed = dtype.rounded(value)
    significand = 2 * math.frexp(passed)[0]
    coarser = {other.digits for other in DTYPES.values() if other.kind == "real" and other.digits < dtype.digits}
    lost = (abs(math.remainder(math.ldexp(significand, digits), 1)) for digits in coarser)
    return passed != option and min(lost, default=LOST) >= LOST
