"""Requirements on the arrays of a launch, whichever library they come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import ArgumentError

if TYPE_CHECKING:
    from tuner.space.dtypes import DType
    from tuner.space.model import Argument


@dataclass(frozen=True)
class ArraySpec:
    """What a kernel requires of the array for one argument: C order, with `strides` in bytes, and a start at a multiple
    of `alignment` bytes."""

    argument: Argument
    shape: tuple[int, ...]
    element: DType
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    nbytes: int
    alignment: int

    @staticmethod
    def of(argument: Argument, shape: tuple[int, ...], element: DType, alignment: int) -> ArraySpec:
        """The spec of `argument` at this shape and of this type. The alignment is at least that of the elements."""
        size = element.itemsize
        strides = tuple(math.prod(shape[axis + 1 :]) * size for axis in range(len(shape)))
        return ArraySpec(
            argument, shape, element, element.numpy, strides, math.prod(shape) * size, max(alignment, size)
        )


@dataclass(frozen=True)
class ArrayLayout:
    """The layout of an array that the caller passed. `strides` are in bytes, or None if it is contiguous."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    writable: bool = True


def check_array(spec: ArraySpec, layout: ArrayLayout) -> None:
    """Raise ArgumentError, which names the argument, unless `layout` meets `spec` and an output is writable."""
    name = spec.argument.name
    element = spec.element
    if tuple(layout.shape) != spec.shape or not element.is_held_by(layout.dtype):
        view = f", or a view of its bits as {element.bits}" if element.foreign else ""
        raise ArgumentError(
            f"{name}: has shape {tuple(layout.shape)} and dtype {layout.dtype}; "
            f"needed are {spec.shape} and {element.name}{view}"
        )
    for extent, stride, expected in zip(spec.shape, layout.strides or (), spec.strides, strict=False):
        if extent > 1 and stride != expected:
            raise ArgumentError(f"{name}: has strides {layout.strides} (bytes); it must be contiguous in C order")
    if spec.argument.role != "in" and not layout.writable:
        raise ArgumentError(f"{name}: is read-only, and the kernel writes to it; pass an array that may be written")


def check_count(specs: Sequence[ArraySpec], arrays: Sequence[Any]) -> None:
    """Raise ArgumentError unless there is one array per spec."""
    if len(arrays) != len(specs):
        names = ", ".join(spec.argument.name for spec in specs)
        raise ArgumentError(f"{len(arrays)} arrays given; it takes {len(specs)}: {names}")


def address_check(specs: Sequence[ArraySpec]) -> Callable[[Sequence[int]], None]:
    """A check of the arrays' addresses. It raises ArgumentError if an array is misaligned, or an output shares memory
    with another array: a kernel may assume that it does not."""
    alignments = [(position, spec.alignment) for position, spec in enumerate(specs)]
    distances = [(output, other, -specs[other].nbytes, specs[output].nbytes) for output, other in output_pairs(specs)]

    def check(addresses: Sequence[int]) -> None:
        for position, alignment in alignments:
            if excess := addresses[position] % alignment:
                raise ArgumentError(
                    f"{specs[position].argument.name}: begins {excess} bytes after a multiple of {alignment}; it "
                    f"must begin at a multiple; pass a copy"
                )
        for output, other, least, most in distances:
            if least < addresses[other] - addresses[output] < most:
                raise overlap_error(specs[output], specs[other])

    return check


def output_pairs(specs: Sequence[ArraySpec]) -> list[tuple[int, int]]:
    """The positions of each output with each other array."""
    outputs = [position for position, spec in enumerate(specs) if spec.argument.role != "in"]
    return [(output, other) for output in outputs for other in range(len(specs)) if other != output]


def overlap_error(output: ArraySpec, other: ArraySpec) -> ArgumentError:
    """The error for an output that shares memory with another array."""
    return ArgumentError(f"{output.argument.name}: shares memory with {other.argument.name}; pass arrays of their own")
