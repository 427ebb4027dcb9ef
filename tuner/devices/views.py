"""Derives the leading dimensions that a kernel takes from the strides of the caller's arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.devices.arguments import ArrayLayout, ArraySpec, check_elements
from tuner.errors import ArgumentError, ExpressionError
from tuner.space import operation, strides
from tuner.space.chosen_types import dtype

if TYPE_CHECKING:
    from tuner.devices.program import Program


class Views:
    """Checks arrays with strides for a kernel that takes leading dimensions."""

    def __init__(self, program: Program, specs: Sequence[ArraySpec]) -> None:
        """`specs` are the specs of contiguous arrays."""
        op = program.space.operation
        self._specs, self._sizes = specs, program.scope.sizes
        self._contiguous = operation.contiguous(op, program.scope)
        self._types = {a.name: dtype(a, program.scope) for a in op.scalars if a.name in self._contiguous}

    def of(self, layouts: Sequence[ArrayLayout]) -> tuple[list[ArraySpec], dict[str, int]]:
        """The specs of arrays with these layouts, and the leading dimensions by name, in elements.

        Raises ArgumentError if an array does not have its declared strides, or two arrays imply different values of a
        leading dimension.
        """
        leading = {**self._contiguous, **self._read(layouts)}
        strided: list[ArraySpec] = []
        for spec, layout in zip(self._specs, layouts, strict=True):
            strided.append(self._with_leading(spec, layout, leading) if spec.argument.strides else spec)
        return strided, leading

    def _read(self, layouts: Sequence[ArrayLayout]) -> dict[str, int]:
        """The leading dimensions that these layouts imply. An axis of extent 1 implies none."""
        read: dict[str, tuple[int, ArraySpec]] = {}
        for spec, layout in zip(self._specs, layouts, strict=True):
            if not spec.argument.strides:
                continue
            check_elements(spec, layout)
            entries = zip(spec.argument.strides, spec.shape, layout.strides_of(spec), strict=True)
            for name, extent, stride in ((entry.text, extent, stride) for entry, extent, stride in entries):
                if extent == 1 or name not in self._contiguous:
                    continue
                elements, rest = divmod(stride, spec.element.itemsize)
                if rest:
                    raise _misfit(spec, layout, f"strides must be multiples of {spec.element.itemsize} bytes")
                other, first = read.setdefault(name, (elements, spec))
                if other != elements:
                    raise ArgumentError(
                        f"{name}: is {other} in {first.argument.name} and {elements} in {spec.argument.name}; pass "
                        "arrays with the same value"
                    )
        return {name: elements for name, (elements, _) in read.items()}

    def _with_leading(self, spec: ArraySpec, layout: ArrayLayout, leading: Mapping[str, int]) -> ArraySpec:
        """The spec of an array with these leading dimensions. Raises ArgumentError if `layout` does not meet it."""
        try:
            elements = strides.of(spec.argument, {**self._sizes, **leading})
        except ExpressionError as error:
            raise _misfit(spec, layout, str(error)) from None
        unit = max(1, spec.alignment // spec.element.itemsize)
        if (fault := strides.fault(spec.shape, elements, unit)) is not None:
            raise _misfit(spec, layout, fault)
        strided = spec.with_strides(elements)
        axes = zip(spec.shape, layout.strides_of(spec), strided.strides, strict=True)
        if any(extent > 1 and stride != required for extent, stride, required in axes):
            raise _misfit(spec, layout, f"these are {strided.strides} bytes here")
        for name in {entry.text for entry in spec.argument.strides} & self._types.keys():
            if not self._types[name].holds(leading[name]):
                raise _misfit(spec, layout, f"{name} = {leading[name]} does not fit its {self._types[name].name}")
        return strided


def _misfit(spec: ArraySpec, layout: ArrayLayout, why: str) -> ArgumentError:
    allowed = ", ".join(entry.text for entry in spec.argument.strides)
    return ArgumentError(
        f"{spec.argument.name}: has strides {layout.strides} (bytes); allowed are [{allowed}] elements of "
        f"{spec.element.itemsize} bytes, and {why}; pass a copy"
    )
