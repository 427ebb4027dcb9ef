"""Express an operation as a matrix product that the vendor library can run."""

from __future__ import annotations

from tuner.devices import Device
from tuner.devices.arguments import ArraySpec
from tuner.devices.product import Matrices, MatrixProduct, Tiles
from tuner.space import operation
from tuner.space.chosen_types import dtype
from tuner.space.model import Space
from tuner.space.scope import Scope


def specs(space: Space, scope: Scope) -> list[ArraySpec]:
    """The shapes and dtypes that the operation requires of its arrays, without a kernel's alignment."""
    return [ArraySpec.of(a, operation.shape(a, scope), dtype(a, scope), alignment=1) for a in space.operation.arrays]


def tiles(space: Space, scope: Scope, device: Device) -> Tiles | None:
    """The tiles into which the library would cut the operation of `space`; None if it does not report them."""
    plan = product(space, scope)
    return None if plan is None else device.tiles(plan)


def ask_ahead(space: Space, scope: Scope, device: Device) -> None:
    """Have the library begin with what its first answer about such a product takes, while the caller does something
    else: cuBLASLt reads 0.1 s for float32."""
    plan = product(space, scope)
    if plan is not None:
        device.ask_ahead(plan)


def product(space: Space, scope: Scope) -> MatrixProduct | None:
    """The matrix product that the operation of `space` declares to be (`library: gemm`); None if it declares none."""
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
    (batch, M, N), transposed = C, op.transposed
    K = A[1 if "A" in transposed else 2]
    c, a, b = (dtype(argument, scope).name for argument in op.arrays)
    left, right = (Matrices.packed(*x[1:], name in transposed) for name, x in (("A", A), ("B", B)))
    return MatrixProduct(M, N, K, batch, (a, b, c), Matrices.packed(M, N), left, right)


def is_transposed(space: Space, name: str) -> bool:
    """Whether the operation stores operand `name` transposed, such as B of shape [batch, N, K]."""
    return name in space.operation.transposed
