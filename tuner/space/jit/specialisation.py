"""What a build assumes of the arguments of its launches: addresses and integers divisible by 16, integers equal to 1.

Triton compiles other code for each of these, and a launch that breaks an assumption would read wrong memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tuner.classes import dataclass
from tuner.space.argument import Argument
from tuner.space.instance import DIVISOR
from tuner.space.jit.function import JitParameter


@dataclass(frozen=True)
class Class:
    """What is assumed of an argument. One that `is_one` is a constant, and no parameter of the compiled kernel."""

    is_one: bool = False
    is_divisible: bool = False


def of_array(parameter: JitParameter, argument: Argument, unaligned: frozenset[str]) -> Class:
    """The class of an array. `unaligned` are the names of those that may begin anywhere."""
    return Class(is_divisible=parameter.classes[1] and argument.name not in unaligned)


def of_number(parameter: JitParameter, value: np.generic) -> Class:
    """The class of a number that all launches of a build pass."""
    if not isinstance(value, np.integer):
        return Class()
    may_be_one, may_be_divisible = parameter.classes
    if may_be_one and int(value) == 1:
        return Class(is_one=True)
    return Class(is_divisible=may_be_divisible and int(value) % DIVISOR == 0)


def described(classes: Mapping[str, Class]) -> dict[str, Any]:
    """The classes as JSON."""
    divisible = [name for name, each in classes.items() if each.is_divisible]
    return {"ones": [name for name, each in classes.items() if each.is_one], "divisible": divisible}
