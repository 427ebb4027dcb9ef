"""Requirements on the arrays of a launch, whichever library they come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import ArgumentError, MisalignedArray
from tuner.space import strides

if TYPE_CHECKING:
    from tuner.space.argument import Argument
    from tuner.space.dtypes import DType

NOWHERE = 1 << 46  # an address
MOST_WORK = 100_000  # candidates for an element that two arrays share, of which NumPy tries as many


@dataclass(frozen=True)
class ArraySpec:
    """What a kernel requires of the array for one argument: C order, with `strides` in bytes, and a start at a multiple
    of `alignment` bytes. `nbytes` are those from its first to its last element."""

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
        steps = tuple(stride * size for stride in strides.contiguous(shape))
        return ArraySpec(argument, shape, element, element.numpy, steps, math.prod(shape) * size, max(alignment, size))

    @property
    def is_contiguous(self) -> bool:
        """Whether no padding lies between its rows."""
        return self.nbytes == math.prod(self.shape) * self.element.itemsize

    def with_strides(self, elements: tuple[int, ...]) -> ArraySpec:
        """The same of an array with these strides, in elements."""
        size = self.element.itemsize
        steps = tuple(stride * size for stride in elements)
        return replace(self, strides=steps, nbytes=strides.span(self.shape, elements) * size)


@dataclass(frozen=True)
class ArrayLayout:
    """The layout of an array that the caller passed. `strides` are in bytes, or None if it is contiguous."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    writable: bool = True

    def strides_of(self, spec: ArraySpec) -> tuple[int, ...]:
        """The strides in bytes, where the array has the shape and the type of `spec`."""
        if self.strides is not None:
            return self.strides
        return tuple(stride * spec.element.itemsize for stride in strides.contiguous(spec.shape))


def check_array(spec: ArraySpec, layout: ArrayLayout) -> None:
    """Raise ArgumentError, which names the argument, unless `layout` meets `spec` and an output is writable."""
    name = spec.argument.name
    check_elements(spec, layout)
    for extent, stride, expected in zip(spec.shape, layout.strides_of(spec), spec.strides, strict=False):
        if extent > 1 and stride != expected:
            need = "it must be contiguous in C order" if spec.is_contiguous else f"needed are {spec.strides}"
            raise ArgumentError(f"{name}: has strides {layout.strides} (bytes); {need}")
    if spec.argument.role != "in" and not layout.writable:
        raise ArgumentError(f"{name}: is read-only, and the kernel writes to it; pass an array that may be written")


def check_elements(spec: ArraySpec, layout: ArrayLayout) -> None:
    """Raise ArgumentError, which names the argument, unless it has the shape and the type of `spec`."""
    name, element = spec.argument.name, spec.element
    if tuple(layout.shape) != spec.shape or not element.is_held_by(layout.dtype):
        view = f", or a view of its bits as {element.bits}" if element.foreign else ""
        raise ArgumentError(
            f"{name}: has shape {tuple(layout.shape)} and dtype {layout.dtype}; "
            f"needed are {spec.shape} and {element.name}{view}"
        )


def check_count(specs: Sequence[ArraySpec], arrays: Sequence[Any]) -> None:
    """Raise ArgumentError unless there is one array per spec."""
    if len(arrays) != len(specs):
        names = ", ".join(spec.argument.name for spec in specs)
        raise ArgumentError(f"{len(arrays)} arrays given; it takes {len(specs)}: {names}")


def address_check(specs: Sequence[ArraySpec]) -> Callable[[Sequence[int]], None]:
    """A check of the arrays' addresses. It raises MisalignedArray if an array is that, and ArgumentError if an output
    shares memory with another array: a kernel may assume that it does not."""
    alignments = [(position, spec.alignment) for position, spec in enumerate(specs)]
    distances = [(output, other, -specs[other].nbytes, specs[output].nbytes) for output, other in output_pairs(specs)]

    def check(addresses: Sequence[int]) -> None:
        for position, alignment in alignments:
            if excess := addresses[position] % alignment:
                raise MisalignedArray(
                    f"{specs[position].argument.name}: begins {excess} bytes after a multiple of {alignment}; it "
                    f"must begin at a multiple; pass a copy",
                    excess & -excess,
                )
        for output, other, least, most in distances:
            distance = addresses[other] - addresses[output]
            if least < distance < most and share_elements(specs[output], specs[other], distance):
                raise overlap_error(specs[output], specs[other])

    return check


def share_elements(first: ArraySpec, second: ArraySpec, distance: int) -> bool:
    """Whether arrays share memory of which `second` begins `distance` bytes after `first`. Where their spans overlap,
    those with padding may still lie beside each other, as the two halves of a matrix do."""
    if not -second.nbytes < distance < first.nbytes:
        return False
    if first.is_contiguous and second.is_contiguous:
        return True
    share: Any = np.shares_memory  # its stubs know no bound of the work
    try:
        return bool(share(_lying(first, 0), _lying(second, distance), max_work=MOST_WORK))
    except np.exceptions.TooHardError:
        return True


def _lying(spec: ArraySpec, offset: int) -> np.ndarray[Any, Any]:
    """An array of NumPy's that lies as one of `spec` does, in memory that nobody looks at."""
    interface = {
        "version": 3,
        "typestr": f"|V{spec.element.itemsize}",
        "shape": spec.shape,
        "strides": spec.strides,
        "data": (NOWHERE + offset, False),
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def output_pairs(specs: Sequence[ArraySpec]) -> list[tuple[int, int]]:
    """The positions of each output with each other array."""
    outputs = [position for position, spec in enumerate(specs) if spec.argument.role != "in"]
    return [(output, other) for output in outputs for other in range(len(specs)) if other != output]


def overlap_error(output: ArraySpec, other: ArraySpec) -> ArgumentError:
    """The error for an output that shares memory with another array."""
    return ArgumentError(f"{output.argument.name}: shares memory with {other.argument.name}; pass arrays of their own")
