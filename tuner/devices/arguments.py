"""What the arrays of a launch must be, whatever library they are of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.errors import ArgumentError
from tuner.space.model import Argument


@dataclass(frozen=True)
class Wanted:
    """What a kernel needs of the array for one argument: in C order, with these `strides` in bytes, and beginning at a
    multiple of `alignment` bytes."""

    argument: Argument
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    nbytes: int
    alignment: int

    @staticmethod
    def of(argument: Argument, shape: tuple[int, ...], alignment: int) -> Wanted:
        """What `argument` needs at this shape, and at least the alignment of its elements."""
        dtype = np.dtype(argument.dtype)
        size = dtype.itemsize
        strides = tuple(math.prod(shape[axis + 1 :]) * size for axis in range(len(shape)))
        return Wanted(argument, shape, dtype, strides, math.prod(shape) * size, max(alignment, size))


@dataclass(frozen=True)
class Given:
    """An array that a caller gave. `strides` are in bytes, None where it is contiguous."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    writable: bool = True


def check_array(wanted: Wanted, given: Given) -> None:
    """Raise ArgumentError, naming the argument, unless `given` is as wanted, and writable where it is written to."""
    name = wanted.argument.name
    if tuple(given.shape) != wanted.shape or given.dtype != wanted.dtype:
        raise ArgumentError(
            f"{name}: has shape {tuple(given.shape)} and dtype {given.dtype}; "
            f"needed are {wanted.shape} and {wanted.dtype}"
        )
    for extent, stride, expected in zip(wanted.shape, given.strides or (), wanted.strides, strict=False):
        if extent > 1 and stride != expected:
            raise ArgumentError(f"{name}: has strides {given.strides} (bytes); it must be contiguous in C order")
    if wanted.argument.role != "in" and not given.writable:
        raise ArgumentError(f"{name}: is read-only, and the kernel writes to it; pass an array that may be written")


def check_count(wanted: Sequence[Wanted], arrays: Sequence[Any]) -> None:
    """Raise ArgumentError unless there are as many arrays as are wanted."""
    if len(arrays) != len(wanted):
        names = ", ".join(one.argument.name for one in wanted)
        raise ArgumentError(f"{len(arrays)} arrays given; it takes {len(wanted)}: {names}")


def address_check(wanted: Sequence[Wanted]) -> Callable[[Sequence[int]], None]:
    """A function of addresses that raises ArgumentError where an array is not aligned, or an output shares memory with
    another array, which a kernel may assume it does not."""
    aligned = [(position, one.alignment) for position, one in enumerate(wanted)]
    apart = [(output, other, -wanted[other].nbytes, wanted[output].nbytes) for output, other in pairs(wanted)]

    def check(addresses: Sequence[int]) -> None:
        for position, alignment in aligned:
            if after := addresses[position] % alignment:
                raise ArgumentError(
                    f"{wanted[position].argument.name}: begins {after} bytes after a multiple of {alignment}, and this "
                    f"kernel needs one; pass a copy"
                )
        for output, other, least, most in apart:
            if least < addresses[other] - addresses[output] < most:
                raise shared(wanted[output], wanted[other])

    return check


def pairs(wanted: Sequence[Wanted]) -> list[tuple[int, int]]:
    """The positions of each output and each other array."""
    outputs = [position for position, one in enumerate(wanted) if one.argument.role != "in"]
    return [(output, other) for output in outputs for other in range(len(wanted)) if other != output]


def shared(output: Wanted, other: Wanted) -> ArgumentError:
    """The error for an output that lies where another array does."""
    return ArgumentError(f"{output.argument.name}: shares memory with {other.argument.name}; pass arrays of their own")
