"""The matrix product that an operation is, as a vendor's library takes it."""

from __future__ import annotations

from tuner.devices import Device
from tuner.devices.arguments import ArraySpec
from tuner.devices.product import Matrices, MatrixProduct, Tiles
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
    C, A, B = (operation.shape(argument, scope) for argument in op.arrays)
    if not {"alpha", "beta"} <= scope.options.keys() or not len(C) == len(A) == len(B) == 3:
        return None
    (batch, M, N), turned = C, op.transposed
    K = A[1 if "A" in turned else 2]
    c, a, b = (dtype(argument, scope).name for argument in op.arrays)
    given = Matrices.packed(M, N), Matrices.packed(*A[1:], "A" in turned), Matrices.packed(*B[1:], "B" in turned)
    return MatrixProduct(M, N, K, batch, (a, b, c), *given)


def is_turned(space: Space, name: str) -> bool:
    """Whether the operation stores an operand transposed, as its shape says: [batch, N, K] for B."""
    return name in space.operation.transposed
