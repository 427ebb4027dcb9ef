"""Spaces and scopes: of the shipped kernels, and of no kernel at all."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tuner.devices import Device
from tuner.search.enumeration import enumerated
from tuner.space import chosen_types, operation, parsing
from tuner.space.computation import Operation
from tuner.space.config import Config, Value
from tuner.space.expressions import parse
from tuner.space.instance import Instance
from tuner.space.model import Restriction, Space
from tuner.space.scope import Limits, Scope
from tuner.space.step import Step
from tuner.space.values.forms import ExpressionReference

MOST_COMPARED = 1000  # configurations, of which the most different are chosen
MOST_BYTES = 1 << 27  # of arrays: a grid of three dimensions, 1000 points along each, would take gigabytes


def name(value: object) -> str:
    return value.name if isinstance(value, Space) else "x".join(map(str, value)) if isinstance(value, tuple) else ""


def sized(space: Space, numbers: tuple[int, ...]) -> dict[str, int]:
    """The sizes of the operation: the required ones from these numbers, in turn, then any others."""
    names = sorted(space.operation.sizes, key=lambda size: space.operation.sizes[size] is not None)
    required = [size for size in names if space.operation.sizes[size] is None]
    return dict(zip(names[: max(len(required), len(numbers))], itertools.cycle(numbers)))


def on(space: Space, sizes: dict[str, int], limits: Limits) -> Scope:
    """The problem of these sizes in the first language of a space, on a device of these limits."""
    op = space.operation
    return op.scope(sizes, op.options, space.languages[0], limits, chosen_types.defaults(op))


def admitted(space: Space, scope: Scope) -> bool:
    """Whether the restrictions that speak of sizes alone admit this problem, and its arrays are of a test's size."""
    choices = {*space.parameters, *space.derived}
    of_sizes = [r for r in space.restrictions if r.that.names <= scope.names.keys() and not r.that.names & choices]
    small = operation.array_bytes(space.operation, Instance(space, dict(space.default), scope).scope) <= MOST_BYTES
    return small and all(r.that.evaluate(scope.names) for r in of_sizes)


def problems(spaces: list[Space], sizes: list[tuple[int, ...]]) -> list[ParameterSet]:
    """Every space with each of the sizes that it admits."""

    def problem(space: Space, size: tuple[int, ...]) -> Scope:
        return on(space, parsing.parse_size(sized(space, size), space.operation), WIDEST)

    return [
        pytest.param(space, size, id=f"{space.name}-{name(size)}")
        for space in spaces
        for size in sizes
        if admitted(space, problem(space, size))
    ]


def scope_of(space: Space, device: Device, size: str | dict[str, int], **options: float) -> Scope:
    """The problem of `size` on a device of this machine."""
    sizes = parsing.parse_size(size, space.operation)
    given, types = parsing.parse_options(options, space.operation), chosen_types.defaults(space.operation)
    return space.operation.scope(sizes, given, device.language, device.limits, types)


def spread_out(space: Space, scope: Scope, count: int) -> list[Config]:
    """Up to `count` valid configurations, each with as many values, and pairs of values, as possible that none before
    has; fewer if nothing is new in the others."""
    valid = sorted(tuple(config.values()) for config in enumerated(space, scope).configs())
    compared = random.Random(0).sample(valid, min(len(valid), MOST_COMPARED))
    new = {values: {*enumerate(values), *itertools.combinations(enumerate(values), 2)} for values in compared}
    chosen = list[Config]()
    while any(new.values()) and len(chosen) < count:
        values = max(new, key=lambda values: len(new[values]))
        seen = new.pop(values)
        new = {other: pairs - seen for other, pairs in new.items()}
        chosen.append(dict(zip(space.parameters, values, strict=True)))
    return chosen


WIDEST = Limits(compute_capability=9.0)  # of all that a space may require
OPERATION = Operation({"M": None}, {}, (parse("M"),), (), ExpressionReference({}), {}, None, None, None)
ONE = parse(1)


def space(parameters: dict[str, tuple[Value, ...]], restrictions: list[str], **derived: str) -> Space:
    """A space of no kernel, whose only size is M."""
    step = Step("k", Path("k.cu"), (), (ONE, ONE, ONE), (ONE, ONE, ONE), parse(0))
    return Space(
        "test/space", "", OPERATION, (step,), ("cuda",), parameters,
        tuple(Restriction(parse(r), "a reason") for r in restrictions), {n: parse(t) for n, t in derived.items()},
        {}, {},
    )  # fmt: skip


def scope(size: int = 100, language: str = "cuda") -> Scope:
    """The problem of such a space where M is `size`."""
    return Scope({"M": size}, {}, language, Limits())
