"""The functions that references may call: NumPy's and SciPy's, with their names and meanings.

They take arrays by position, and `axis`, `keepdims` and `mode` by keyword. A call that would need more elements or
products than `Bounds` allows is refused before it is computed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.space import dtypes
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import correlation
from tuner.space.expressions.bounds import check_elements, check_products, most_elements

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ArrayFunction:
    """A function that references may call.

    usage: its call syntax, for messages.
    least, most: how many positional arguments it takes.
    keywords: the keywords that it takes.
    elements: computes the number of elements of the result from the arguments; None if the result cannot be larger than
    the arguments.
    counts: positions of arguments that must be integers. An option is a float, so a float with an integer value is
    converted, as is every keyword except `value`.
    """

    call: Callable[..., Any]
    usage: str
    least: int = 1
    most: int = 1
    keywords: frozenset[str] = frozenset()
    elements: Callable[..., int] | None = None
    counts: tuple[int, ...] = ()

    def __call__(self, name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The value of the call. Raises ExpressionError if the arguments do not match `usage`, or the result is too
        large."""
        if not self.least <= len(arguments) <= self.most or keywords.keys() - self.keywords:
            too_many = len(arguments) > self.most and self.keywords
            by_name = f": write the name of {' and '.join(sorted(self.keywords))}" if too_many else ""
            raise ExpressionError(f"{name}() is called as {self.usage}{by_name}")
        arguments = [whole(each) if i in self.counts else each for i, each in enumerate(arguments)]
        keywords = {name: value if name == "value" else whole(value) for name, value in keywords.items()}
        if self.elements is not None:
            check_elements(self.elements(*arguments, **keywords), f"{name}()")
        return self.call(*arguments, **keywords)


def whole(value: Any) -> Any:
    """`value` with every whole float as an integer, also in lists: options are floats, but shapes and lengths are
    integers."""
    if isinstance(value, tuple | list):
        return type(value)(whole(each) for each in value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _special(function: str) -> Callable[..., Any]:
    def call(*arguments: Any, **keywords: Any) -> Any:
        from scipy import special

        return getattr(special, function)(*arguments, **keywords)

    return call


def joint_size(*arrays: Any, **_: Any) -> int:
    """The number of elements of `arrays`, broadcast together. Raises ExpressionError if their shapes do not match."""
    shapes = [np.shape(array) for array in arrays]
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        listed = " and ".join(str(shape) for shape in dict.fromkeys(shapes) if shape)
        raise ExpressionError(
            f"arrays of shapes {listed} do not match (their extents, from the last one on, must be equal or 1; "
            "keepdims=True keeps a reduced axis, expand_dims(x, axis=1) adds one)"
        ) from None


def _total(shape: Any, *_: Any, **__: Any) -> int:
    return math.prod(abs(int(extent)) for extent in (shape if isinstance(shape, tuple | list) else (shape,)))


def _extreme(reduce: Callable[..., Any], pair: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """max() or min(): reduces one array; compares several element by element, as Python's do with numbers."""

    def call(*arrays: Any, **keywords: Any) -> Any:
        if len(arrays) == 1:
            return reduce(arrays[0], **keywords)
        if keywords:
            raise ExpressionError("max() and min() of several arrays take no keywords")
        value = arrays[0]
        for other in arrays[1:]:
            value = pair(value, other)
        return value

    return call


def _astype(array: Any, dtype: Any) -> Any:
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ExpressionError(f"astype(x, {dtype!r}): unknown type; known are {', '.join(DTYPES)}")
    return np.asarray(array).astype(DTYPES[dtype].numpy)


def _take(array: Any, indices: Any, axis: int | None = None) -> Any:
    return np.take(array, np.asarray(indices, dtype=np.int64), axis=axis)


def _taken(array: Any, indices: Any, axis: int | None = None) -> int:
    return np.size(indices) * (1 if axis is None else np.size(array) // max(1, np.shape(array)[axis]))


def _bincount(array: Any, weights: Any = None, minlength: int = 0) -> Any:
    values = np.asarray(array).reshape(-1)
    integers = values.astype(np.int64)
    if not np.array_equal(integers, values):
        raise ExpressionError("bincount() counts whole numbers; write floor(x) or astype(x, 'int64')")
    if (least := int(integers.min(initial=0))) < 0:
        cure = "give x a fill, such as fill: {integers: [0, bins - 1]}, or write where() or clip()"
        raise ExpressionError(f"bincount() counts numbers from 0, but one is {least}; {cure}")
    check_elements(int(integers.max(initial=0)) + 1, "bincount()")
    return np.bincount(integers, None if weights is None else np.asarray(weights).reshape(-1), minlength)


def _pad(array: Any, width: Any, mode: Any = "constant", value: float = 0.0) -> Any:
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise ExpressionError(f"pad(): mode {mode!r}; known are constant, edge, reflect, symmetric, wrap")
    constant = {"constant_values": value} if mode == "constant" else {}
    return np.pad(array, width, mode, **constant)


def _padded(array: Any, width: Any, **_: Any) -> int:
    most = int(np.max(np.abs(np.asarray(width))))
    return math.prod(extent + 2 * most for extent in np.shape(array))


def _einsum(subscripts: Any, *arrays: Any) -> Any:
    return np.einsum(subscripts, *arrays, optimize=("greedy", most_elements()))


def _einsum_elements(subscripts: Any, *arrays: Any) -> int:
    if not isinstance(subscripts, str) or "->" not in subscripts or "." in subscripts:
        raise ExpressionError("einsum() is called as einsum('ij,jk->ik', a, b): with an arrow, without dots")
    inputs, _, output = subscripts.replace(" ", "").partition("->")
    extents: dict[str, int] = {}
    for letters, array in zip(inputs.split(","), arrays, strict=False):
        for letter, extent in zip(letters, np.shape(array), strict=False):
            extents[letter] = max(extent, extents.get(letter, 1))
    check_products(math.prod(extents.values()), "einsum()")
    return math.prod(extents.get(letter, 1) for letter in output)


def _convolved(array: Any, kernel: Any, **_: Any) -> int:
    check_products(np.size(array) * np.size(kernel), "the convolution")
    return math.prod(a + k for a, k in zip(np.shape(array), np.shape(kernel), strict=True))


def matrix_product(left: Any, right: Any) -> Any:
    """`left @ right`. A product of integers is exact; float64 computes it if no partial sum reaches 2**53."""
    left, right = np.asarray(left), np.asarray(right)
    if left.ndim and right.ndim:
        batch = math.prod(np.broadcast_shapes(left.shape[:-2], right.shape[:-2]))
        rows, columns = (left.shape[-2] if left.ndim > 1 else 1), (right.shape[-1] if right.ndim > 1 else 1)
        check_elements(batch * rows * columns, "the matrix product")
        check_products(batch * rows * columns * left.shape[-1], "the matrix product")
    if left.ndim and all(dtypes.of(side.dtype).kind == "integer" for side in (left, right)):
        largest = [int(np.max(np.abs(side.astype(np.float64)), initial=0)) for side in (left, right)]
        if left.shape[-1] * largest[0] * largest[1] < 2**53:
            return np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)
    return np.matmul(left, right)


def _alike() -> dict[str, ArrayFunction]:
    """Functions of which several are called in the same way."""
    axis = frozenset({"axis", "keepdims"})
    table = {
        name: ArrayFunction(getattr(np, name), f"{name}(x)")
        for name in (
            "abs", "arccos", "arcsin", "arctan", "cbrt", "ceil", "conj", "cos", "cosh", "exp", "exp2", "expm1",
            "floor", "imag", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "real", "rint", "sign",
            "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
        )
    }  # fmt: skip
    table |= {name: ArrayFunction(_special(name), f"{name}(x)") for name in ("erf", "erfc", "gamma", "gammaln")}
    table |= {
        name: ArrayFunction(getattr(np, name), f"{name}(x, y)", 2, 2, elements=joint_size)
        for name in ("arctan2", "fmod", "hypot", "maximum", "minimum")
    }
    table |= {
        name: ArrayFunction(getattr(np, name), f"{name}(x, axis=None, keepdims=False)", keywords=axis)
        for name in ("all", "any", "mean", "prod", "std", "sum", "var")
    }
    table |= {
        name: ArrayFunction(
            _extreme(reduce, pair), f"{name}(x, axis=None, keepdims=False), or {name}(x, y)", 1, 100, axis, joint_size
        )
        for name, reduce, pair in (("max", np.max, np.maximum), ("min", np.min, np.minimum))
    }
    return table | {
        name: ArrayFunction(getattr(np, name), f"{name}(x, axis=None)", keywords=frozenset({"axis"}))
        for name in ("argmax", "argmin", "argsort", "cumprod", "cumsum", "flip", "sort", "squeeze")
    }


def _others() -> dict[str, ArrayFunction]:
    """Functions that are called each in its own way."""
    only_axis = frozenset({"axis"})
    return {
        "arange": ArrayFunction(np.arange, "arange(n)", elements=_total),
        "astype": ArrayFunction(_astype, "astype(x, 'float32')", 2, 2),
        "bincount": ArrayFunction(
            _bincount, "bincount(x, weights=None, minlength=0)", keywords=frozenset({"weights", "minlength"}),
            elements=lambda array, weights=None, minlength=0: minlength,
        ),
        "broadcast_to": ArrayFunction(
            np.broadcast_to, "broadcast_to(x, (m, n))", 2, 2, elements=lambda array, shape: _total(shape), counts=(1,)
        ),
        "clip": ArrayFunction(np.clip, "clip(x, low, high)", 3, 3, elements=joint_size),
        "concatenate": ArrayFunction(np.concatenate, "concatenate((x, y), axis=0)", keywords=only_axis),
        "convolve": ArrayFunction(
            correlation.convolve, "convolve(x, k, mode='full')", 2, 2, frozenset({"mode"}), _convolved
        ),
        "correlate": ArrayFunction(
            correlation.correlate, "correlate(x, k, mode='full')", 2, 2, frozenset({"mode"}), _convolved
        ),
        "diagonal": ArrayFunction(np.diagonal, "diagonal(x)"),
        "einsum": ArrayFunction(_einsum, "einsum('ij,jk->ik', a, b)", 2, 9, elements=_einsum_elements),
        "expand_dims": ArrayFunction(np.expand_dims, "expand_dims(x, axis=0)", keywords=only_axis),
        "full": ArrayFunction(np.full, "full((m, n), value)", 2, 2, elements=_total, counts=(0,)),
        "matmul": ArrayFunction(matrix_product, "matmul(a, b)", 2, 2),
        "ones": ArrayFunction(np.ones, "ones((m, n))", elements=_total, counts=(0,)),
        "pad": ArrayFunction(
            _pad, "pad(x, width, mode='constant', value=0)", 2, 2, frozenset({"mode", "value"}), _padded, (1,)
        ),
        "repeat": ArrayFunction(
            np.repeat, "repeat(x, count, axis=None)", 2, 2, only_axis,
            lambda array, count, axis=None: int(np.size(array) * np.max(count)), (1,),
        ),
        "reshape": ArrayFunction(np.reshape, "reshape(x, (m, n))", 2, 2, counts=(1,)),
        "roll": ArrayFunction(np.roll, "roll(x, shift, axis=None)", 2, 2, only_axis, counts=(1,)),
        "round": ArrayFunction(np.round, "round(x)"),
        "stack": ArrayFunction(np.stack, "stack((x, y), axis=0)", keywords=only_axis),
        "take": ArrayFunction(_take, "take(x, indices, axis=None)", 2, 2, only_axis, _taken),
        "tile": ArrayFunction(
            np.tile, "tile(x, (2, 3))", 2, 2, elements=lambda array, times: np.size(array) * _total(times), counts=(1,)
        ),
        "transpose": ArrayFunction(np.transpose, "transpose(x, (1, 0))", 1, 2),
        "tril": ArrayFunction(np.tril, "tril(x)"),
        "triu": ArrayFunction(np.triu, "triu(x)"),
        "where": ArrayFunction(np.where, "where(condition, x, y)", 3, 3, elements=joint_size),
        "zeros": ArrayFunction(np.zeros, "zeros((m, n))", elements=_total, counts=(0,)),
    }  # fmt: skip


ARRAY_FUNCTIONS: Mapping[str, ArrayFunction] = dict(sorted({**_alike(), **_others()}.items()))
