"""Problems: sizes as users write them, inputs to run on, and the answer to compare with."""

from __future__ import annotations

import ast
import copy
import difflib
import math
import re
from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from tuner.errors import ExpressionError, RequestError, SpaceError
from tuner.space.expressions import Expression, names_in, parse, walk
from tuner.space.model import Argument, Operation, Scope, size_text
from tuner.space.reference_cache import Products

Array = np.ndarray[Any, np.dtype[Any]]


def parse_size(text: str | int | Mapping[str, int], operation: Operation) -> dict[str, int]:
    """Sizes from `4096`, `4096x2048x1024`, `M=100,N=37,K=53` or `1000,batch=100`.

    One bare number is every size that has no default; several are the sizes in their order. Raises RequestError for
    a size that is unknown, missing, or not a whole number from 1 on.
    """
    if isinstance(text, Mapping):
        text = ",".join(f"{name}={value}" for name, value in text.items())
    text = str(text)
    sizes: dict[str, int | None] = dict(operation.sizes)
    needed = [name for name, default in operation.sizes.items() if default is None]
    allowed = f"write {_examples(operation)}"
    given: dict[str, int] = {}
    for part in text.replace(" ", "").split(","):
        for name, value in _named(part, text, needed, operation, allowed).items():
            if name in given:
                raise RequestError(f"size {text!r}: {name} is given twice; {allowed}")
            given[name] = value
    sizes.update(given)
    missing = [name for name, value in sizes.items() if value is None]
    if missing:
        raise RequestError(f"size {text!r}: {', '.join(missing)} not given; {allowed}")
    whole = {name: value for name, value in sizes.items() if value is not None}
    _fits(whole, operation)
    return whole


def _named(part: str, text: str, needed: list[str], operation: Operation, allowed: str) -> dict[str, int]:
    """The sizes that one part of `text` gives: `4096`, `4096x2048x1024` or `K=53`."""
    names = list(operation.sizes)
    name, equals, value = part.rpartition("=")
    if equals:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise RequestError(f"size {text!r}: no size {name!r}; {hint}")
        return {name: _whole(value, text, allowed)}
    values = [_whole(v, text, allowed) for v in part.split("x")]
    if len(values) == 1:
        return dict.fromkeys(needed or names, values[0])
    if len(values) not in (len(needed), len(names)):
        raise RequestError(f"size {text!r}: {len(values)} numbers for {', '.join(needed)}; {allowed}")
    return dict(zip(names if len(values) == len(names) else needed, values, strict=True))


def _examples(operation: Operation) -> str:
    needed = [name for name, default in operation.sizes.items() if default is None]
    return f"1024, {'x'.join(['1024'] * len(needed))} or {','.join(f'{name}=1024' for name in needed)}"


def _whole(text: str, whole: str, allowed: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
        raise RequestError(f"size {whole!r}: {text!r} is not a whole number from 1 on; {allowed}")
    return int(text)


def _fits(sizes: Mapping[str, int], operation: Operation) -> None:
    """Sizes that are scalars of the kernel must fit their type."""
    for argument in operation.arguments:
        limits = np.iinfo(argument.dtype) if "int" in argument.dtype else None
        if argument.shape is None and limits is not None and sizes.get(argument.name, 0) > limits.max:
            raise RequestError(
                f"size {argument.name} = {sizes[argument.name]} does not fit the kernel's {argument.dtype}; "
                f"at most {limits.max} is allowed"
            )


def parse_options(settings: Mapping[str, float], operation: Operation) -> dict[str, float]:
    """The operation's options with `settings` put in. Raises RequestError for one that it does not have, or that does
    not fit the kernel's argument of its name."""
    for name, value in settings.items():
        if name not in operation.options:
            known = ", ".join(operation.options) or "none"
            raise RequestError(f"option {name}: no such option; there are: {known}")
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not _is_finite(value):
            raise RequestError(f"option {name} = {value!r}: a finite number is needed")
        dtypes = [a.dtype for a in operation.arguments if a.name == name]
        for dtype in dtypes:
            if not _representable(value, dtype):
                raise RequestError(f"option {name} = {value!r} does not fit the kernel's {dtype}")
    return {**operation.options, **{name: float(value) for name, value in settings.items()}}


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _representable(value: float, dtype: str) -> bool:
    """Whether `value` is within what `dtype` holds, and whole where that holds whole numbers."""
    if "int" in dtype:
        return value == int(value) and np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max
    return bool(abs(value) <= float(np.finfo(dtype).max))


def shape(argument: Argument, scope: Scope) -> tuple[int, ...]:
    """The shape of an array argument at this size."""
    assert argument.shape is not None
    found = tuple(extent.integer(scope.names) for extent in argument.shape)
    if min(found, default=1) < 1:
        raise SpaceError(
            f"argument {argument.name}: its shape is {found} at {size_text(scope.sizes)}; extents begin at 1"
        )
    return found


def array_bytes(operation: Operation, scope: Scope) -> int:
    """Bytes of all arrays that a caller gives together."""
    return sum(nbytes(argument, scope) for argument in operation.arrays)


def nbytes(argument: Argument, scope: Scope) -> int:
    """Bytes of one array argument."""
    return math.prod(shape(argument, scope)) * np.dtype(argument.dtype).itemsize


def inputs(operation: Operation, scope: Scope, seed: int = 0) -> dict[str, Array]:
    """Random contents for every array that a caller gives, and the constants, by name.

    Floating-point values have random sign and magnitude in [0.5, 1.5): then a product of two is at least 0.25
    whatever was drawn, so that a kernel which drops a single one differs by far more than rounding does. Integers
    are drawn from -8 to 8 without 0 (1 to 8 where unsigned).
    """
    made: dict[str, Array] = {}
    for position, argument in enumerate(operation.arrays):
        generator = np.random.default_rng([seed, position])
        dtype, size = np.dtype(argument.dtype), shape(argument, scope)
        if dtype.kind == "f":
            values = generator.random(size, dtype=np.float32)
            values += np.float32(0.5)
            np.copysign(values, generator.random(size, dtype=np.float32) - np.float32(0.5), out=values)
            made[argument.name] = values.astype(dtype, copy=False)
        else:
            magnitude = generator.integers(1, 9, size)
            sign = generator.integers(0, 2, size) * 2 - 1 if dtype.kind == "i" else 1
            made[argument.name] = (magnitude * sign).astype(dtype)
    return made | constants(operation, scope)


def constants(operation: Operation, scope: Scope) -> dict[str, Array]:
    """The contents of every array that has a value, by name. Raises SpaceError where one does not fit its dtype."""
    made: dict[str, Array] = {}
    for argument in operation.constants:
        values = np.array([_value(argument, expression, scope) for expression in argument.value])
        made[argument.name] = values.reshape(shape(argument, scope))
    return made


def _value(argument: Argument, expression: Expression, scope: Scope) -> np.generic:
    """An expression of the argument's `value:` at this size, of its dtype."""
    value = expression.evaluate(scope.names)
    if not isinstance(value, int | float) or not _representable(value, argument.dtype):
        raise SpaceError(
            f"argument {argument.name}: `{expression.text}` is {value!r} at {size_text(scope.sizes)}, and does not fit "
            f"its {argument.dtype}; try a smaller size, or declare a wider dtype"
        )
    typed: np.generic = np.dtype(argument.dtype).type(value)
    return typed


def answers(
    operation: Operation, scope: Scope, given: Mapping[str, Array], products: Products | None = None
) -> tuple[dict[str, Array], frozenset[str]]:
    """The right contents of each output, in float64, and the names of the arrays that were read for them.

    `products` keeps the matrix products of whole arrays, which do not depend on options. An output that its own
    reference does not read (C at beta = 0) may hold anything before the launch. Raises SpaceError where a reference
    does not have the shape of its output.
    """
    reader = _Reader({**scope.names}, given, products or Products())
    found: dict[str, Array] = {}
    for name, expression in operation.reference.items():
        try:
            tree = _Products(given.keys()).visit(copy.deepcopy(expression.tree))
            value = np.asarray(walk(tree, reader), dtype=np.float64)
        except (TypeError, ValueError, ArithmeticError, ExpressionError) as error:
            raise SpaceError(f"reference `{expression.text}`: {error}") from None
        if value.shape != given[name].shape:
            raise SpaceError(f"reference `{expression.text}` has shape {value.shape}; {name} has {given[name].shape}")
        found[name] = value
    return found, frozenset(reader.read)


class _Products(ast.NodeTransformer):
    """Puts a name, the text `A @ B`, in the place of each product of whole arrays."""

    def __init__(self, arrays: Container[str]) -> None:
        self._arrays = arrays

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, ast.MatMult) and all(name in self._arrays for name in names_in(node)):
            return ast.Name(ast.unparse(node))
        self.generic_visit(node)
        return node


class _Reader(dict[str, Any]):
    """Names for a reference: arrays become float64 when they are first read, and reading is remembered."""

    def __init__(self, scalars: Mapping[str, Any], arrays: Mapping[str, Array], products: Products) -> None:
        super().__init__(scalars)
        self._arrays, self._products = arrays, products
        self.read: set[str] = set()

    def __missing__(self, name: str) -> Array:
        if "@" in name:
            product = parse(name)
            self.read |= product.names
            return self._products.get(name, lambda: walk(product.tree, self))
        self.read.add(name)
        self[name] = self._arrays[name].astype(np.float64)
        value: Array = self[name]
        return value


def scalars(operation: Operation, scope: Scope) -> list[np.generic]:
    """The values of the scalar arguments, in order, each of its declared type. Raises SpaceError where the value of
    one does not fit."""
    made = []
    for argument in operation.arguments:
        if argument.shape is None and argument.value:
            made.append(_value(argument, argument.value[0], scope))
        elif argument.shape is None:
            made.append(np.dtype(argument.dtype).type(scope.names[argument.name]))
    return made


def gflops(operation: Operation, scope: Scope, time_ms: float) -> float | None:
    """Rate in GFLOP/s of a run that took `time_ms`; None where the operation does not count its work."""
    if operation.flops is None:
        return None
    return float(operation.flops.evaluate(scope.names)) / (time_ms * 1e6)


def gbytes(operation: Operation, scope: Scope, time_ms: float) -> float | None:
    """Rate in GB/s at which a run that took `time_ms` moved the least bytes that it had to; None where the operation
    does not count them."""
    if operation.bytes is None:
        return None
    return float(operation.bytes.evaluate(scope.names)) / (time_ms * 1e6)
