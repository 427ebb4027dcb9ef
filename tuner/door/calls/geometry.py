"""The grid of a call of Kernel Tuner, from its problem size and grid divisors."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from kernel_tuner import util

from tuner.classes import dataclass
from tuner.door.calls.call import Call
from tuner.errors import ExpressionError, RequestError
from tuner.quoting import described
from tuner.space import expressions
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.expressions.computed_numbers import ComputedNumber
from tuner.space.expressions.function_names import origin

AXES = "xyz"
BLOCKS = "blocks_{}"  # the name of the number of blocks of an axis, where a function computes it


@dataclass(frozen=True)
class ScriptGrid:
    """The grid as a space declares it.

    sizes: the problem size, by the name of a size.
    blocks: an expression for each axis, up to the last that has more than one block.
    computed: the numbers of blocks that functions compute, by names that `blocks` has.
    """

    sizes: dict[str, int]
    blocks: list[str]
    computed: dict[str, ComputedNumber]


def grid(call: Call) -> ScriptGrid:
    """The grid of a call. Raises RequestError for a problem size that is no number, text or function."""
    sizes, blocks = dict[str, int](), list[str]()
    extents = _extents(call)
    for axis, divisor, block in zip(AXES, call.grid_divisors, call.block_names, strict=True):
        extent = extents[axis]
        if extent is None or (factors := _factors(divisor, block, call)) is None:
            blocks.append("")  # a function decides
            continue
        if isinstance(extent, int):
            name = _free(f"problem_size_{axis}", call)
            if extent != 1 or not sizes:
                sizes[name] = extent
            extent = name if name in sizes else "1"
        blocks.append(f"ceil_div({extent}, {' * '.join(factors) or '1'})")
    computed = _computed(call, [axis for axis, each in zip(AXES, blocks, strict=True) if not each])
    blocks = [each or BLOCKS.format(axis) for axis, each in zip(AXES, blocks, strict=True)]
    while len(blocks) > 1 and blocks[-1] == "ceil_div(1, 1)":
        blocks.pop()
    return ScriptGrid(sizes or {_free("problem_size_x", call): 1}, blocks, computed)


def _free(name: str, call: Call) -> str:
    """The name, or one like it that is no parameter of the call."""
    return _free(f"{name}_", call) if name in call.parameters else name


def _extents(call: Call) -> dict[str, int | str | None]:
    """The problem size of each axis: a number, an expression of parameters, or None if a function computes it."""
    given = call.problem_size
    if callable(given):
        return dict.fromkeys(AXES)
    values = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    extents: dict[str, int | str | None] = dict.fromkeys(AXES, 1)
    if not 1 <= len(values) <= len(AXES):
        raise RequestError(f"problem_size: {len(values)} extents; write one to three")
    for axis, value in zip(AXES, values, strict=False):
        if isinstance(value, str):
            extents[axis] = _formula(value, call)
        elif isinstance(value, int | np.integer) and value > 0:
            extents[axis] = int(value)
        elif isinstance(value, int | np.integer):
            raise RequestError(f"problem_size: {value}: write whole numbers of at least 1")
        else:
            raise RequestError(f"problem_size: {value!r}: write whole numbers, texts, or a function")
    return extents


def _factors(divisor: Any, block: str, call: Call) -> list[str] | None:
    """The factors by which the problem size is divided; None if a function computes one of them."""
    if divisor is None:
        return [block] if block in call.parameters else []
    if isinstance(divisor, str):
        formula = _formula(divisor, call)
        return None if formula is None else [formula]
    if isinstance(divisor, int | np.integer):
        return [str(int(divisor))]
    if callable(divisor):
        return None
    if not isinstance(divisor, Iterable):
        raise RequestError(f"grid divisor {divisor!r}: write a list of texts and whole numbers, or a function")
    factors = [_factors(each, "", call) for each in divisor]
    return None if None in factors else [text for each in factors if each for text in each]


def _formula(text: str, call: Call) -> str | None:
    """The text as an expression of parameters that is a whole number; None if it is none of ours."""
    try:
        parsed = expressions.parse(text)
    except ExpressionError:
        return None
    if not parsed.names <= set(call.parameters):
        return None
    return f"({text})" if text.strip().isidentifier() or text.strip().isdecimal() else f"int({text})"


def _computed(call: Call, axes: Sequence[str]) -> dict[str, ComputedNumber]:
    """The blocks of these axes, which functions of the script compute for each configuration that is tried."""
    blocks, names = _Blocks(call), tuple(call.parameters)
    made_of = (call.problem_size, call.grid_divisors, tuple(call.block_names))
    return {
        (name := BLOCKS.format(axis)): ComputedNumber(name, names, functools.partial(blocks.of, axis), made_of)
        for axis in axes
    }


class _Blocks:
    """The grid of each configuration by Kernel Tuner's own rules. The script's functions are called once for each, by
    one thread at a time."""

    def __init__(self, call: Call) -> None:
        self._call, self._calling = call, threading.Lock()
        self._found: dict[ConfigKey, tuple[int, ...] | ExpressionError] = {}

    def of(self, axis: str, config: Mapping[str, Any]) -> int:
        """The blocks of an axis. Raises ExpressionError if a function raises anything."""
        key = config_key(config)
        with self._calling:
            if key not in self._found:
                self._found[key] = self._computed(dict(config))
            found = self._found[key]
        if isinstance(found, ExpressionError):
            raise found
        return found[AXES.index(axis)]

    def _computed(self, config: dict[str, Any]) -> tuple[int, ...] | ExpressionError:
        call = self._call
        size = _blamed("problem_size", call.problem_size)
        divisors = [_blamed(f"grid_div_{axis}", each) for axis, each in zip(AXES, call.grid_divisors, strict=True)]
        try:
            return tuple(map(int, util.setup_block_and_grid(size, divisors, config, call.block_names)[1]))
        except ExpressionError as error:
            return error
        except Exception as error:
            return ExpressionError(f"problem_size or a grid divisor: {described(error)} for {config}")


def _blamed(name: str, value: Any) -> Any:
    """A problem size or divisor whose functions raise an ExpressionError that names them."""
    if isinstance(value, list | tuple):
        return [_blamed(name, each) for each in value]
    if not callable(value):
        return value

    def called(config: dict[str, Any]) -> Any:
        try:
            return value(config)
        except Exception as error:
            raise ExpressionError(f"{name}: {origin(value)} raises {described(error)} for {config}") from None

    return called


def own(config: Config, call: Call) -> dict[str, Any]:
    """The configuration without what the space has beside the parameters of the call."""
    return {name: config[name] for name in call.parameters}
