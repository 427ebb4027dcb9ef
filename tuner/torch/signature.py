"""The schema of a PyTorch operator, derived from a kernel's operation; works without torch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tuner.classes import dataclass
from tuner.errors import ArgumentError, RequestError
from tuner.families import problem
from tuner.quoting import quoted
from tuner.space.argument import Argument
from tuner.space.computation import Operation
from tuner.space.expressions import Expression
from tuner.space.scope import Limits

NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Signature:
    """The two overloads of an operator.

    `functional` takes the kernel's inputs and returns new outputs. `out` takes all arrays in the kernel's order. Both
    take by name the options, and the sizes that no array shape determines.
    """

    op: Operation
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    functional_sizes: tuple[str, ...]
    out_sizes: tuple[str, ...]

    @staticmethod
    def of(op: Operation) -> Signature:
        """The signature for an operation. Raises RequestError if the operation has no input or no output."""
        inputs = tuple(a for a in op.arrays if a.role != "out")
        if not op.outputs or not inputs:
            raise RequestError("an operator needs an array that it reads, and one that it writes")
        return Signature(op, inputs, op.outputs, _undetermined(op, inputs), _undetermined(op, op.arrays))

    @property
    def functional(self) -> str:
        """The schema of the functional overload, without the operator's name."""
        results = ", ".join("Tensor" for _ in self.outputs)
        returned = results if len(self.outputs) == 1 else f"({results})"
        tensors = [f"Tensor {a.name}" for a in self.inputs]
        return f"({', '.join([*tensors, *self._named(self.functional_sizes)])}) -> {returned}"

    @property
    def out(self) -> str:
        """The schema of the overload that writes the caller's arrays, without the operator's name."""
        tensors = [
            f"Tensor {a.name}" if a.role == "in" else f"Tensor({chr(ord('a') + position)}!) {a.name}"
            for position, a in enumerate(self.op.arrays)
        ]
        return f"({', '.join([*tensors, *self._named(self.out_sizes)])}) -> ()"

    def _named(self, sizes: Sequence[str]) -> list[str]:
        """The keyword-only part of a schema."""
        defaults = self.op.sizes
        given = [f"SymInt {name}" + ("" if defaults[name] is None else f"={defaults[name]}") for name in sizes]
        options = [f"float {name}={float(value)!r}" for name, value in self.op.options.items()]
        return ["*", *given, *options] if given or options else []

    @property
    def like(self) -> int | None:
        """The position of an input that always has the shape and type of the only result; None if there is none."""
        first, *others = [(a.dtype, a.shape) for a in self.outputs]
        same = [position for position, a in enumerate(self.inputs) if (a.dtype, a.shape) == first]
        return same[0] if same and not others else None

    def result_shapes(
        self, shapes: Sequence[Sequence[Any]], named: Mapping[str, Any], types: Mapping[str, str] = MappingProxyType({})
    ) -> list[tuple[Any, ...]]:
        """The shapes of the results for these input shapes, perhaps symbols.

        `named` has sizes and options. `types` are the chosen types, or else the defaults; see `chosen`.
        """
        sizes = self._sizes(shapes, {name: named[name] for name in self.functional_sizes if name in named})
        used = {name for a in self.outputs for extent in a.shape or () for name in extent.names}
        options = {name: named.get(name, default) for name, default in self.op.options.items() if name in used}
        passed = self.op.scope({}, options, "", Limits(), types).passed_options
        names = {**{name: _whole(value) for name, value in passed.items()}, **sizes}
        return [tuple(_extent(a, extent, names) for extent in a.shape or ()) for a in self.outputs]

    def _sizes(self, shapes: Sequence[Sequence[Any]], given: Mapping[str, Any]) -> dict[str, Any]:
        return problem.sizes_of(_of_arrays(self.op, self.inputs), shapes, given)

    def chosen(self, names: Sequence[str]) -> dict[str, str]:
        """The chosen types for these type names of the inputs."""
        return {a.dtype: name for a, name in zip(self.inputs, names, strict=True) if a.dtype in self.op.types}

    def types(self, names: Sequence[str]) -> list[str]:
        """The type names of the results for these type names of the inputs."""
        chosen = self.chosen(names)
        return [chosen.get(a.dtype, self.op.types.get(a.dtype, (a.dtype,))[0]) for a in self.outputs]


def check_name(name: object) -> str:
    """Return `name`. Raises RequestError if it is not a valid operator name."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise RequestError(f"operator {quoted(name)}: write namespace and name, as mylib::scale")
    return name


def _extent(argument: Argument, extent: Expression, names: Mapping[str, Any]) -> Any:
    """An extent of a result, which may be a symbol. Raises ArgumentError if it is not a whole number."""
    value = _whole(extent.evaluate(names))
    if isinstance(value, float):
        raise ArgumentError(f"{argument.name}: its extent {extent.text} is {value}; a whole number is needed")
    return value


def _whole(value: Any) -> Any:
    """An option or an extent as an integer if it is whole, because a symbol times a float is not a valid extent."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _undetermined(op: Operation, arrays: Sequence[Argument]) -> tuple[str, ...]:
    """The sizes that the shapes of `arrays` do not determine."""
    extents = [extent for a in arrays for extent in a.shape or ()]
    known = {extent.text for extent in extents if extent.is_name}
    others = {**op.options, **dict.fromkeys(op.sizes, 1)}
    for extent in extents:
        unknown = [name for name in extent.names if name in op.sizes and name not in known]
        if len(unknown) == 1 and problem.determines_size(extent, unknown[0], others):
            known.add(unknown[0])
    return tuple(name for name in op.sizes if name not in known)


def _of_arrays(op: Operation, arrays: Sequence[Argument]) -> Operation:
    """The operation with only these of its array arguments."""
    names = {a.name for a in arrays}
    return replace(op, arguments=tuple(a for a in op.arguments if a.name in names or not a.is_array))


def flattened(tensors: Sequence[Any], flat: Sequence[bool]) -> list[Any]:
    """The tensors; those of a vector, which may have any shape, as a vector."""
    return [a.view(-1) if is_flat and a.ndim != 1 else a for a, is_flat in zip(tensors, flat)]  # noqa: B905  # in graphs
