"""The grid of a call of Kernel Tuner, from its problem size and grid divisors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernel_tuner import util

from tuner.door import script_functions
from tuner.door.call import Call
from tuner.errors import ExpressionError, RequestError
from tuner.quoting import described
from tuner.space import expressions
from tuner.space.config import Config

AXES = "xyz"
MOST_COMPUTED = 1_000_000  # configurations whose grids are computed by functions
BLOCKS = "blocks_{}"  # the name of the number of blocks of an axis, where a function computes it


@dataclass(frozen=True)
class ScriptGrid:
    """The grid as a space declares it.

    sizes: the problem size, by the name of a size.
    blocks: an expression for each axis, up to the last that has more than one block.
    computed: the numbers of blocks that functions compute, as parameters of the space with their values; and
    restriction: the function that says which of them a configuration has. None if there are none.
    """

    sizes: dict[str, int]
    blocks: list[str]
    computed: dict[str, list[int]]
    restriction: Callable[[dict[str, Any]], bool] | None = None


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
            name = f"problem_size_{axis}"
            if extent != 1 or not sizes:
                sizes[name] = extent
            extent = name if name in sizes else "1"
        blocks.append(f"ceil_div({extent}, {' * '.join(factors) or '1'})")
    computed, restriction = _computed(call, [axis for axis, each in zip(AXES, blocks, strict=True) if not each])
    blocks = [each or BLOCKS.format(axis) for axis, each in zip(AXES, blocks, strict=True)]
    while len(blocks) > 1 and blocks[-1] == "ceil_div(1, 1)":
        blocks.pop()
    return ScriptGrid(sizes or {"problem_size_x": 1}, blocks, computed, restriction)


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
        elif isinstance(value, int | np.integer):
            extents[axis] = int(value)
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


def _computed(call: Call, axes: list[str]) -> tuple[dict[str, list[int]], Callable[[dict[str, Any]], bool] | None]:
    """The blocks of these axes, which functions of the script compute for each configuration."""
    if not axes:
        return {}, None
    combinations = math.prod(len(values) for values in call.parameters.values())
    if combinations > MOST_COMPUTED:
        raise RequestError(
            f"problem_size and grid divisors: a function would be called for {combinations:,} combinations; at most "
            f"{MOST_COMPUTED:,} are possible, so write expressions instead"
        )
    names = list(call.parameters)
    found: dict[tuple[Any, ...], tuple[int, ...]] = {}
    raised: dict[tuple[Any, ...], Exception] = {}
    for values in itertools.product(*call.parameters.values()):
        try:
            blocks = _blocks(call, dict(zip(names, values, strict=True)))
        except Exception as error:  # it matters only where the restrictions allow this configuration
            raised[values] = error
            continue
        if blocks is not None:
            found[values] = tuple(blocks[AXES.index(axis)] for axis in axes)
    computed = {
        BLOCKS.format(axis): sorted({each[position] for each in found.values()}) or [1]
        for position, axis in enumerate(axes)
    }

    def is_own(config: dict[str, Any]) -> bool:
        own = tuple(config[name] for name in names)
        if own in raised:
            raise ExpressionError(f"problem_size or a grid divisor raises {described(raised[own])}")
        return found.get(own) == tuple(config[name] for name in computed)

    given = (call.problem_size, *call.grid_divisors)
    function = next((each for each in given if callable(each)), None)
    return computed, is_own if function is None else script_functions.named_as(is_own, function)


def _blocks(call: Call, config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The grid of a configuration by Kernel Tuner's own rules; None if it has no blocks."""
    _, blocks = util.setup_block_and_grid(call.problem_size, call.grid_divisors, dict(config), call.block_names)
    return tuple(int(each) for each in blocks) if min(blocks) >= 1 else None


def own(config: Config, call: Call) -> dict[str, Any]:
    """The configuration without what the space has beside the parameters of the call."""
    return {name: config[name] for name in call.parameters}
