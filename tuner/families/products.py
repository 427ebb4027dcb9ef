"""The matrix product that an operation is, as a vendor's library takes it."""

from __future__ import annotations

from tuner.devices import Device
from tuner.devices.arguments import ArraySpec
from tuner.devices.product import MatrixProduct, Tiles, matrices
from tuner.space import operation
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
    if (
        op.library != "gemm"
        or [a.name for a in op.arrays] != ["C", "A", "B"]
        or space.fixed_options & {"alpha", "beta"}
    ):
        return None
    C, A, B = specs(space, scope)
    if not {"alpha", "beta"} <= scope.options.keys() or not len(C.shape) == len(A.shape) == len(B.shape) == 3:
        return None
    (batch, M, N), turned = C.shape, op.transposed
    K = A.shape[1 if "A" in turned else 2]
    given = matrices(C), matrices(A, "A" in turned), matrices(B, "B" in turned)
    return MatrixProduct(M, N, K, batch, (C, A, B), *given)


def is_turned(space: Space, name: str) -> bool:
    """Whether the operation stores an operand transposed, as its shape says: [batch, N, K] for B."""
    return name in space.operation.transposed
