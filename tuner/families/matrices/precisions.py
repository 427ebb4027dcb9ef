"""Which families multiply with the precision that a caller of `tuner.matmul` asks for."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.errors import ArgumentError, RequestError
from tuner.quoting import quoted

PLAIN = ("sgemm", "hgemm", "gemm16", "gemm16_nt")  # each multiplies numbers of the operands' own type
FAMILIES = {"fp32x3": ("sgemm3x",)}  # by precision: those that sum products of parts of numbers
LEAST_SIDE, LEAST_PRODUCTS = 256, 1 << 28  # of smaller products, to split the operands takes too long
MOST_PRODUCTS_COMPARED = 1 << 33  # of larger products, the plain families are never as fast
LEAST_GAIN = 1.2  # times the speed of the plain families; with less, what is predicted may be the wrong way round
# What a copy of an operand takes, as measured on an H200 with torch: bytes that are copied per ms, and the least time,
# which is the host's.
COPIED_PER_MS, LEAST_COPY_MS = 5e8, 0.03


class SetAside(Exception):  # the name of no error: the plain families multiply
    """Why a product is left to the plain families although the caller asks for a precision."""


def check(precision: str | None, element: str) -> None:
    """Raise RequestError for a precision that does not exist, ArgumentError if it is not for operands of this type."""
    if precision is None:
        return
    if not isinstance(precision, str) or precision not in FAMILIES:
        raise RequestError(
            f"matmul(precision={quoted(precision)}): allowed: {', '.join(FAMILIES)}, or None for products of the "
            "operands themselves"
        )
    if element != "float32":
        raise ArgumentError(
            f"a: has dtype {element}; allowed with precision={quoted(precision)}: float32; or leave precision out"
        )


def check_size(shape: tuple[int, ...], depth: int) -> None:
    """Raise SetAside for a product of this shape, `[batch, M, N]`, and depth that is small.

    The plain families are faster there, and more accurate if the depth is small.
    """
    batch, rows, columns = shape
    if min(rows, columns, depth) < LEAST_SIDE:
        raise SetAside(f"M, N or K is below {LEAST_SIDE}")
    if rows * columns * depth * batch < LEAST_PRODUCTS:
        raise SetAside(f"batch * M * N * K is below {LEAST_PRODUCTS}")


def copies_ms(sizes: Iterable[int]) -> float:
    """The time in ms of copies of so many bytes each."""
    return sum(max(LEAST_COPY_MS, size / COPIED_PER_MS) for size in sizes)


def check_gain(own_ms: float | None, plain_ms: float | None, copies_ms: float) -> None:
    """Raise SetAside if the plain families are expected to be about as fast as this one with copies of operands.

    `own_ms` and `plain_ms` are without the launch overhead, which may differ between the times of two families.
    """
    if own_ms is None or plain_ms is None or LEAST_GAIN * (own_ms + copies_ms) <= plain_ms:
        return
    copies = f", and copies {copies_ms:.3g} ms" if copies_ms else ""
    raise SetAside(
        f"its kernels are expected to take {own_ms:.3g} ms{copies}, which is not {LEAST_GAIN} times as fast as the "
        f"{plain_ms:.3g} ms expected without it"
    )
