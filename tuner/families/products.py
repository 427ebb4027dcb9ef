"""The matrix product that an operation is, as a vendor's library takes it."""

from __future__ import annotations

from tuner.devices import Device
from tuner.devices.arguments import ArraySpec
from tuner.devices.product import MatrixProduct, Tiles, matrices
from tuner.space import operation, routines
from tuner.space.chosen_types import dtype
from tuner.space.model import Space
from tuner.space.scope import Scope


def specs(space: Space, scope: Scope) -> list[ArraySpec]:
    """What the arrays of an operation must be, where no kernel asks for more."""
    return [ArraySpec.of(a, operation.shape(a, scope), dtype(a, scope), alignment=1) for a in space.operation.arrays]


def tiles(space: Space, scope: Scope, device: Device) -> Tiles | None:
    """How the library would run the operation of `space`; None if it does not tell."""
    plan = product(space, scope)
    return None if plan is None else device.tiles(plan)


def product(space: Space, scope: Scope) -> MatrixProduct | None:
    """The matrix product that the operation of `space` says to be (`library: gemm`); None if it says none."""
    op = space.operation
    by_name = {spec.argument.name: spec for spec in specs(space, scope)}
    if op.library != "gemm" or list(by_name) != ["C", "A", "B"] or space.fixed_options & {"alpha", "beta"}:
        return None
    if not {"alpha", "beta"} <= scope.options.keys() or any(len(spec.shape) != 3 for spec in by_name.values()):
        return None
    batch, M, N = by_name["C"].shape
    turned = {name: is_turned(space, name) for name in "AB"}
    K = by_name["A"].shape[1 if turned["A"] else 2]
    given = [matrices(by_name[name], turned.get(name, False)) for name in "CAB"]
    return MatrixProduct(M, N, K, batch, (by_name["C"], by_name["A"], by_name["B"]), *given)


def is_turned(space: Space, name: str) -> bool:
    """Whether the operation stores an operand transposed, as its shape says: [batch, N, K] for B."""
    return name in routines.transposed(space.operation)
