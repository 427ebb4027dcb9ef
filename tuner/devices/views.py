"""Arrays whose rows may lie apart: which strides a call passes, and the leading dimensions that a kernel then takes."""

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
    """What a kernel with leading dimensions may be called with. `specs` are those of contiguous arrays."""

    def __init__(self, program: Program, specs: Sequence[ArraySpec]) -> None:
        op = program.space.operation
        self._specs, self._sizes = specs, program.scope.sizes
        self._contiguous = operation.contiguous(op, program.scope)
        self._types = {a.name: dtype(a, program.scope) for a in op.scalars if a.name in self._contiguous}

    def of(self, layouts: Sequence[ArrayLayout]) -> tuple[list[ArraySpec], dict[str, int]]:
        """The specs of arrays that lie like these, and the leading dimensions, by name.

        Raises ArgumentError for an array that does not meet its strides, and where two arrays disagree.
        """
        leading = {**self._contiguous, **self._read(layouts)}
        found: list[ArraySpec] = []
        for spec, layout in zip(self._specs, layouts, strict=True):
            found.append(self._placed(spec, layout, leading) if spec.argument.strides else spec)
        return found, leading

    def _read(self, layouts: Sequence[ArrayLayout]) -> dict[str, int]:
        """The leading dimensions that these arrays tell: along an axis of extent 1, none."""
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
                    raise _misfit(spec, layout, f"rows lie a multiple of {spec.element.itemsize} bytes apart")
                other, first = read.setdefault(name, (elements, spec))
                if other != elements:
                    raise ArgumentError(
                        f"{name}: is {other} in {first.argument.name} and {elements} in {spec.argument.name}; pass "
                        "arrays in which it is the same"
                    )
        return {name: elements for name, (elements, _) in read.items()}

    def _placed(self, spec: ArraySpec, layout: ArrayLayout, leading: Mapping[str, int]) -> ArraySpec:
        """The spec of an array with these leading dimensions, which `layout` meets."""
        try:
            elements = strides.of(spec.argument, {**self._sizes, **leading})
        except ExpressionError as error:
            raise _misfit(spec, layout, str(error)) from None
        unit = max(1, spec.alignment // spec.element.itemsize)
        if (fault := strides.fault(spec.shape, elements, unit)) is not None:
            raise _misfit(spec, layout, fault)
        placed = spec.with_strides(elements)
        given = zip(spec.shape, layout.strides_of(spec), placed.strides, strict=True)
        if any(extent > 1 and stride != needed for extent, stride, needed in given):
            raise _misfit(spec, layout, f"which are {placed.strides} bytes here")
        for name in {entry.text for entry in spec.argument.strides} & self._types.keys():
            if not self._types[name].holds(leading[name]):
                raise _misfit(spec, layout, f"{name} = {leading[name]} does not fit its {self._types[name].name}")
        return placed


def _misfit(spec: ArraySpec, layout: ArrayLayout, why: str) -> ArgumentError:
    allowed = ", ".join(entry.text for entry in spec.argument.strides)
    return ArgumentError(
        f"{spec.argument.name}: has strides {layout.strides} (bytes); allowed are [{allowed}] elements of "
        f"{spec.element.itemsize} bytes, and {why}; pass a copy"
    )
