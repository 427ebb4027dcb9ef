"""Spaces and scopes: of the shipped kernels, and of no kernel at all."""

from __future__ import annotations

from pathlib import Path

from tuner.devices import Device
from tuner.space import chosen_types, operation
from tuner.space.expressions import parse
from tuner.space.model import Limits, Operation, Restriction, Scope, Space, Value
from tuner.space.reference_forms import ExpressionReference


def scope_of(space: Space, device: Device, size: str | dict[str, int], **options: float) -> Scope:
    """The problem of `size` on a device of this machine."""
    sizes = operation.parse_size(size, space.operation)
    given, types = operation.parse_options(options, space.operation), chosen_types.defaults(space.operation)
    return Scope(sizes, given, device.language, device.limits, types)


OPERATION = Operation({"M": None}, {}, (parse("M"),), (), ExpressionReference({}), {}, None, None, None)
ONE = parse(1)


def space(parameters: dict[str, tuple[Value, ...]], restrictions: list[str], **derived: str) -> Space:
    """A space of no kernel, whose only size is M."""
    return Space(
        "test/space", "", OPERATION, "k", Path("k.cu"), ("cuda",), parameters,
        tuple(Restriction(parse(r), "a reason") for r in restrictions), {n: parse(t) for n, t in derived.items()},
        (ONE, ONE, ONE), (ONE, ONE, ONE), parse(0), {}, {},
    )  # fmt: skip


def scope(size: int = 100, language: str = "cuda") -> Scope:
    """The problem of such a space where M is `size`."""
    return Scope({"M": size}, {}, language, Limits())
