"""Checks of the arrays of a launch, independent of their library: shape, type, strides, alignment and overlap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Number
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.classes import dataclass
from tuner.errors import ArgumentError, MisalignedArray
from tuner.space import strides

if TYPE_CHECKING:
    from tuner.space.argument import Argument
    from tuner.space.dtypes import DType

NOWHERE = 1 << 46  # a placeholder address, never accessed
MOST_WORK = 100_000  # np.shares_memory's bound on candidate solutions of the overlap problem


@dataclass(frozen=True)
class ArraySpec:
    """The requirements on the array of one argument: C order, `strides` in bytes, and an address that is a multiple of
    `alignment` bytes. `nbytes` counts from the first byte of the first element to the last byte of the last."""

    argument: Argument
    shape: tuple[int, ...]
    element: DType
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    nbytes: int
    alignment: int

    @staticmethod
    def of(argument: Argument, shape: tuple[int, ...], element: DType, alignment: int) -> ArraySpec:
        """The spec of a contiguous array for `argument`. The alignment is at least the size of an element."""
        size = element.itemsize
        steps = tuple(stride * size for stride in strides.contiguous(shape))
        return ArraySpec(argument, shape, element, element.numpy, steps, math.prod(shape) * size, max(alignment, size))

    @property
    def is_contiguous(self) -> bool:
        """Whether the rows have no padding between them."""
        return self.nbytes == math.prod(self.shape) * self.element.itemsize

    def with_strides(self, elements: tuple[int, ...]) -> ArraySpec:
        """A copy of this spec with these strides, in elements."""
        size = self.element.itemsize
        steps = tuple(stride * size for stride in elements)
        return replace(self, strides=steps, nbytes=strides.span(self.shape, elements) * size)


@dataclass(frozen=True)
class ArrayLayout:
    """The layout of the caller's array. `strides` are in bytes; None if the array is contiguous."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    writable: bool = True

    def strides_of(self, spec: ArraySpec) -> tuple[int, ...]:
        """The strides in bytes of an array that has the shape and the type of `spec`."""
        if self.strides is not None:
            return self.strides
        return tuple(stride * spec.element.itemsize for stride in strides.contiguous(spec.shape))


def check_array(spec: ArraySpec, layout: ArrayLayout) -> None:
    """Raise ArgumentError, which names the argument, if `layout` does not meet `spec` or an output is read-only."""
    name = spec.argument.name
    check_elements(spec, layout)
    for extent, stride, expected in zip(spec.shape, layout.strides_of(spec), spec.strides, strict=False):
        if extent > 1 and stride != expected:
            need = "it must be contiguous in C order" if spec.is_contiguous else f"required: {spec.strides}"
            raise ArgumentError(f"{name}: has strides {layout.strides} (bytes); {need}")
    if spec.argument.role != "in" and not layout.writable:
        raise ArgumentError(f"{name}: is read-only, and the kernel writes to it; pass an array that may be written")


def check_elements(spec: ArraySpec, layout: ArrayLayout) -> None:
    """Raise ArgumentError, which names the argument, if `layout` has another shape or type than `spec`."""
    name, element = spec.argument.name, spec.element
    if tuple(layout.shape) != spec.shape or not element.is_held_by(layout.dtype):
        view = f", or a view of its bits as {element.bits}" if element.foreign else ""
        raise ArgumentError(
            f"{name}: has shape {tuple(layout.shape)} and dtype {layout.dtype}; "
            f"required: shape {spec.shape} and dtype {element.name}{view}"
        )


def check_count(specs: Sequence[ArraySpec], arrays: Sequence[Any]) -> None:
    """Raise ArgumentError if the number of arrays differs from the number of specs."""
    if len(arrays) != len(specs):
        raise wrong_count([spec.argument for spec in specs], arrays)


def wrong_count(arguments: Sequence[Argument], given: Sequence[Any]) -> ArgumentError:
    """The error of a call that got more or fewer arrays than these arguments, or also numbers, as kernels do."""
    has_numbers = any(isinstance(each, Number) for each in given)
    advice = "; pass no sizes, and options by name, as in alpha=2.0" if has_numbers else ""
    what, names = "arguments" if has_numbers else "arrays", ", ".join(each.name for each in arguments)
    return ArgumentError(f"{len(given)} {what} given; it takes {len(arguments)}: {names}{advice}")


def address_check(specs: Sequence[ArraySpec]) -> Callable[[Sequence[int]], None]:
    """A function that checks the arrays' addresses. It raises MisalignedArray if an array is misaligned, and
    ArgumentError if an output shares memory with another array, since kernels may assume that outputs do not."""
    alignments = [(position, spec.alignment) for position, spec in enumerate(specs)]
    distances = [(output, other, -specs[other].nbytes, specs[output].nbytes) for output, other in output_pairs(specs)]

    def check(addresses: Sequence[int]) -> None:
        for position, alignment in alignments:
            if excess := addresses[position] % alignment:
                raise MisalignedArray(
                    f"{specs[position].argument.name}: begins {excess} bytes after a multiple of {alignment}; it "
                    f"must begin at a multiple of {alignment}; pass a copy",
                    excess & -excess,
                )
        for output, other, least, most in distances:
            distance = addresses[other] - addresses[output]
            if least < distance < most and share_elements(specs[output], specs[other], distance):
                raise overlap_error(specs[output], specs[other])

    return check


def share_elements(first: ArraySpec, second: ArraySpec, distance: int) -> bool:
    """Whether two arrays share an element, if `second` begins `distance` bytes after `first`. Arrays whose address
    ranges overlap need not: the left and the right half of a matrix interleave."""
    if not -second.nbytes < distance < first.nbytes:
        return False
    if first.is_contiguous and second.is_contiguous:
        return True
    shares_memory: Any = np.shares_memory  # NumPy's stubs lack max_work
    try:
        return bool(shares_memory(_placeholder(first, 0), _placeholder(second, distance), max_work=MOST_WORK))
    except np.exceptions.TooHardError:
        return True


def _placeholder(spec: ArraySpec, offset: int) -> np.ndarray[Any, Any]:
    """A NumPy array with the layout of `spec`, `offset` bytes after NOWHERE. Its elements must not be accessed."""
    interface = {
        "version": 3,
        "typestr": f"|V{spec.element.itemsize}",
        "shape": spec.shape,
        "strides": spec.strides,
        "data": (NOWHERE + offset, False),
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def output_pairs(specs: Sequence[ArraySpec]) -> list[tuple[int, int]]:
    """All pairs of positions of an output and another array."""
    outputs = [position for position, spec in enumerate(specs) if spec.argument.role != "in"]
    return [(output, other) for output in outputs for other in range(len(specs)) if other != output]


def overlap_error(output: ArraySpec, other: ArraySpec) -> ArgumentError:
    """The error for an output that shares memory with another array."""
    return ArgumentError(
        f"{output.argument.name}: shares memory with {other.argument.name}; pass arrays that do not overlap"
    )
