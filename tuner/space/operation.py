"""The operation at a problem: parsed sizes and options, shapes, inputs, constants, scalars, and rates."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import RequestError, SpaceError
from tuner.quoting import quoted, shown
from tuner.space import strides
from tuner.space.argument import Argument
from tuner.space.chosen_types import Types, defaults, dtype, dtype_of
from tuner.space.dtypes import DTYPES, DType
from tuner.space.expressions import Expression
from tuner.space.model import Operation
from tuner.space.scope import Scope
from tuner.space.texts import options_text, short_size, size_text
from tuner.space.values import fills
from tuner.space.values.elements import Elements, Held, held
from tuner.space.values.fills import Fill

if TYPE_CHECKING:
    from tuner.space.model import Operation

MAX_SIZE = 2**63 - 1
Array = np.ndarray[Any, np.dtype[Any]]


Size = str | int | Sequence[int] | Mapping[str, int]


def parse_size(text: Size, operation: Operation, types: Types | None = None) -> dict[str, int]:
    """Parse sizes: `4096`, `4096x2048x1024`, `M=100,N=37,K=53` or `1000,batch=100`, a sequence, or a dictionary.

    A single number sets every size that has no default; several numbers set the sizes in order. Both skip the sizes
    that are named, as in `32,batch=1000`. `types` are the chosen types, the defaults if None. Raises RequestError for a
    size that is unknown, missing, not a whole number from 1 to MAX_SIZE, or too large for the kernel's scalar.
    """
    if isinstance(text, Mapping):
        text = ",".join(f"{name}={value}" for name, value in text.items())
    elif not isinstance(text, str | int):
        text = "x".join(map(str, text)) if isinstance(text, Sequence) else text
    text = str(text)
    values: dict[str, int] = {}
    parts = text.replace(" ", "").split(",")
    named = {part.rpartition("=")[0] for part in parts}
    for part in parts:
        for name, value in _parse_part(part, text, operation, named).items():
            if name in values:
                raise RequestError(f"size {quoted(text)}: {name} is given twice; {_examples(operation)}")
            values[name] = value
    default = {name: size for name, size in operation.sizes.items() if size is not None}
    missing = [name for name in operation.sizes if name not in values and name not in default]
    if missing:
        raise RequestError(f"size {quoted(text)}: {', '.join(missing)} not given; {_examples(operation)}")
    sizes = {name: values[name] if name in values else default[name] for name in operation.sizes}
    _check_scalars(sizes, operation, defaults(operation) if types is None else types)
    return sizes


def _parse_part(part: str, text: str, operation: Operation, named: Set[str]) -> dict[str, int]:
    """The sizes in one `part` of `text`: `4096`, `4096x2048x1024` or `K=53`. Numbers skip the sizes in `named`."""
    names = [name for name in operation.sizes if name not in named]
    required = [name for name in _required(operation) if name not in named]
    name, equals, value = part.rpartition("=")
    if equals:
        if name not in operation.sizes:
            near = difflib.get_close_matches(name, list(operation.sizes), n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(operation.sizes)}"
            raise RequestError(f"size {quoted(text)}: no size {quoted(name)}; {hint}")
        return {name: _parse_number(value, text, operation)}
    values = [_parse_number(v, text, operation) for v in part.split("x")]
    if len(values) == 1 and names:
        return dict.fromkeys(required or names, values[0])
    if len(values) not in (len(required), len(names)):
        counted = f"{len(values)} number{'s' if len(values) > 1 else ''}"
        lists = dict.fromkeys(", ".join(each) for each in (required, names) if each)
        left = f"for {', or for '.join(lists)}" if lists else "beside sizes that are all named"
        raise RequestError(f"size {quoted(text)}: {counted} {left}; {_examples(operation)}")
    return dict(zip(names if len(values) == len(names) else required, values, strict=True))


def _parse_number(number: str, text: str, operation: Operation) -> int:
    digits = number.lstrip("0")
    if not re.fullmatch("[0-9]+", number) or not digits:
        problem = "is not a whole number from 1 on"
    elif len(digits) > len(str(MAX_SIZE)) or int(digits) > MAX_SIZE:
        problem = f"is too large; a size is at most {MAX_SIZE}"
    else:
        return int(digits)
    part = quoted(number) if number else "an empty part"
    raise RequestError(f"size {quoted(text)}: {part} {problem}; {_examples(operation)}")


def _required(operation: Operation) -> list[str]:
    return [name for name, default in operation.sizes.items() if default is None]


def _examples(operation: Operation) -> str:
    required = _required(operation)
    ways = dict.fromkeys(["1024", "x".join(["1024"] * len(required)), ",".join(f"{name}=1024" for name in required)])
    *first, last = ways
    return f"write {', '.join(first)} or {last}"


def _check_scalars(sizes: Mapping[str, int], operation: Operation, types: Types) -> None:
    """Raise RequestError for a size that does not fit the kernel's scalar of its name."""
    for argument in operation.scalars:
        element = dtype_of(argument, types)
        if not element.holds(sizes.get(argument.name, 0)):
            raise RequestError(
                f"size {argument.name} = {sizes[argument.name]} does not fit the kernel's {element.name}; "
                f"at most {element.high} is allowed"
            )


def parse_options(settings: Mapping[str, float], operation: Operation, types: Types | None = None) -> dict[str, float]:
    """The operation's options, with `settings` in place of defaults. `types` are the chosen types.

    Raises RequestError for an unknown option, and for a value that does not fit the kernel's argument of that name.
    """
    types = defaults(operation) if types is None else types
    for name, value in settings.items():
        if name not in operation.options:
            names = ", ".join(operation.options) or "none"
            raise RequestError(f"option {shown(name)}: no such option; there are: {names}")
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not _is_finite(value):
            raise RequestError(f"option {name} = {quoted(value)}: a finite number is needed")
        for argument in operation.scalars:
            if argument.name == name and not (element := dtype_of(argument, types)).holds(value):
                raise RequestError(f"option {name} = {quoted(value)} does not fit the kernel's {element.name}")
    return {**operation.options, **{name: float(value) for name, value in settings.items()}}


def taken_options(options: Mapping[str, float], operation: Operation, types: Types) -> dict[str, int | float]:
    """`options` as the kernel takes them: those for integer arguments as integers."""
    kinds = {argument.name: dtype_of(argument, types).kind for argument in operation.scalars}
    return {name: int(value) if kinds.get(name) == "integer" else value for name, value in options.items()}


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


def shape(argument: Argument, scope: Scope) -> tuple[int, ...]:
    """The shape of an array argument at this size, in elements. Raises SpaceError for an extent below 1."""
    assert argument.shape is not None
    extents = tuple(extent.integer(scope.names) for extent in argument.shape)
    if min(extents, default=1) < 1:
        raise SpaceError(
            f"argument {argument.name}: its shape is {extents} at {size_text(scope.sizes)}; "
            "each extent must be at least 1"
        )
    return extents


def array_bytes(operation: Operation, scope: Scope) -> int:
    """Total bytes of the arrays that the caller passes."""
    return sum(nbytes(argument, scope) for argument in operation.arrays)


def nbytes(argument: Argument, scope: Scope) -> int:
    """Bytes of one array argument."""
    return math.prod(shape(argument, scope)) * dtype(argument, scope).itemsize


def inputs(
    operation: Operation, scope: Scope, seed: int = 0, filled: Mapping[str, Array] = MappingProxyType({})
) -> dict[str, Elements]:
    """The contents of the arrays, by name: those that the caller passes, filled with this seed, and the constants.

    `filled` has the contents that Python functions computed. Raises SpaceError for a fill that does not fit.
    """
    arrays: dict[str, Elements] = {}
    for position, argument in enumerate(operation.arrays):
        element, size = dtype(argument, scope), shape(argument, scope)
        if argument.name in filled:
            arrays[argument.name] = Held(filled[argument.name])
        elif argument.fill is None:
            arrays[argument.name] = fills.standard(element, size, seed, position)
        else:
            fill = _fill_at(argument.name, argument.fill, scope, element)
            arrays[argument.name] = fills.contents(fill, argument.name, element, size, seed, position)
    return arrays | held(constants(operation, scope))


def _fill_at(name: str, fill: Fill, scope: Scope, element: DType) -> Fill:
    try:
        return fill.at(scope.sizes, element)
    except SpaceError as error:
        raise SpaceError(f"argument {name}: {error}, at {size_text(scope.sizes)}") from None


def constants(operation: Operation, scope: Scope) -> dict[str, Array]:
    """The contents of the constant arrays, by name. Raises SpaceError if an element does not fit its dtype."""
    arrays: dict[str, Array] = {}
    for argument in operation.constants:
        numbers = [_value(argument, expression, scope) for expression in argument.value]
        values = np.array(numbers, dtype(argument, scope).numpy)
        arrays[argument.name] = values.reshape(shape(argument, scope))
    return arrays


def _value(argument: Argument, expression: Expression, scope: Scope) -> np.generic:
    """The value of `expression`, one of the argument's `value`, in the argument's dtype. Raises SpaceError."""
    value, element = expression.evaluate(scope.names), dtype(argument, scope)
    if not isinstance(value, int | float) or not (math.isfinite(value) and element.holds(value)):
        raise SpaceError(
            f"argument {argument.name}: `{expression.text}` is {quoted(value)} at {size_text(scope.sizes)}, and does "
            f"not fit its {element.name}; try a smaller size, or declare a wider dtype"
        )
    return element.scalar(value)


def scalars(operation: Operation, scope: Scope, leading: Mapping[str, int] | None = None) -> list[np.generic]:
    """The values of the scalar arguments, in order, in their dtypes.

    `leading` has the leading dimensions, by name; if None, arrays are contiguous. Raises SpaceError for a value that
    does not fit.
    """
    names = {**scope.names, **(contiguous(operation, scope) if leading is None else leading)}
    return [
        _value(argument, argument.value[0], scope)
        if argument.value
        else dtype(argument, scope).scalar(names[argument.name])
        for argument in operation.scalars
    ]


def contiguous(operation: Operation, scope: Scope) -> dict[str, int]:
    """The leading dimensions of contiguous arrays, by name. Raises SpaceError if no values fit all arrays."""
    return _fitting(operation, scope, strides.unpadded(operation, _strided_shapes(operation, scope), scope.sizes))


def padded(operation: Operation, scope: Scope, alignment: int) -> dict[str, int]:
    """Leading dimensions, by name, of arrays with padded rows, each row aligned to `alignment` bytes.

    Raises SpaceError if no values fit all arrays.
    """
    units = {a.name: max(1, alignment // dtype(a, scope).itemsize) for a in operation.strided}
    shapes = _strided_shapes(operation, scope)
    return _fitting(operation, scope, strides.padded(operation, shapes, scope.sizes, units))


def _strided_shapes(operation: Operation, scope: Scope) -> dict[str, tuple[int, ...]]:
    return {argument.name: shape(argument, scope) for argument in operation.strided}


def _fitting(operation: Operation, scope: Scope, leading: dict[str, int]) -> dict[str, int]:
    """`leading`, checked: raises SpaceError if a value does not fit the kernel's scalar."""
    for argument in operation.scalars:
        value, element = leading.get(argument.name, 0), dtype(argument, scope)
        if not element.holds(value):
            raise SpaceError(
                f"argument {argument.name}: is {value} at {size_text(scope.sizes)}, and does not fit its "
                f"{element.name}; try a smaller size, or declare a wider dtype"
            )
    return leading


def gflops(operation: Operation, scope: Scope, time_ms: float) -> float | None:
    """The rate of a run of `time_ms`, in GFLOP/s; None if the operation has no `flops`."""
    return _giga_per_second(operation.flops, scope, time_ms)


def gbytes(operation: Operation, scope: Scope, time_ms: float) -> float | None:
    """The rate of a run of `time_ms` in GB/s, from the operation's `bytes`; None if it has none."""
    return _giga_per_second(operation.bytes, scope, time_ms)


def _giga_per_second(amount: Expression | None, scope: Scope, time_ms: float) -> float | None:
    return None if amount is None else float(amount.evaluate(scope.names)) / (time_ms * 1e6)


def problem_words(
    operation: Operation, sizes: Mapping[str, int], types: Mapping[str, str], options: Mapping[str, float]
) -> str:
    """A problem as on the command line: `4096 --type real=float16 --set alpha=2`, without what is at its default."""
    defaults = {name: allowed[0] for name, allowed in operation.types.items()}
    words = [f"--type {name}={value}" for name, value in types.items() if value != defaults.get(name)]
    words += [f"--set {text}" for text in options_text(options, operation.options).split(", ")[1:]]
    return " ".join([short_size(sizes), *words])


def integers_without_fill(op: Operation) -> list[str]:
    """The integer inputs without a `fill`. In every other input set, one in nine of their elements is 0."""
    return [
        a.name
        for a in op.arrays
        if a.role in ("in", "inout") and a.fill is None and not a.value
        if any(DTYPES[dtype].kind == "integer" for dtype in op.types.get(a.dtype, (a.dtype,)))
    ]
