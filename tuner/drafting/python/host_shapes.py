"""What the code around a launch says of the shapes of arrays, and which of their strides and extents a kernel gets."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from tuner.drafting.python.launches import PythonGrid, PythonLaunch
from tuner.drafting.python.syntax import last_word, names_in
from tuner.space.dtypes import DTYPES

_LIKE = ("empty_like", "zeros_like", "ones_like", "rand_like", "randn_like", "full_like")
_SAME = ("contiguous", "clone", "detach", "to", "float", "half", "bfloat16", "cuda")
_MADE = ("empty", "zeros", "ones", "rand", "randn", "full", "new_empty", "new_zeros", "new_ones")
_VIEWED = ("view", "reshape")
_ALIASES = {"float": "float32", "half": "float16", "double": "float64", "int": "int32", "long": "int64"}
MOST_STEPS = 10  # from an array to another of the same shape


class HostShapes:
    """Shapes in the words of a kernel: the names of its parameters, and those of the host for what it is not given."""

    def __init__(self, launch: PythonLaunch, arrays: list[str], grid: PythonGrid) -> None:
        """`arrays` are the parameters that are arrays; `grid` is that of the launch."""
        self._grid = grid
        self._passed: Mapping[str, ast.expr] = launch.passed
        self._arrays = {ast.unparse(launch.passed[name]): name for name in arrays if name in launch.passed}
        self._shapes: dict[str, list[ast.expr]] = {}  # by the text of an array
        self._same: dict[str, str] = {}  # an array of the same shape
        self._axes: dict[str, dict[int, ast.expr]] = {}  # extents that have a name, by the text of an array
        self._dtypes: dict[str, str] = {}  # of the arrays that the host makes of a type that it names
        self._changed = set[str]()  # names that stand for something else later: `rotary_dim *= 2`
        for node in ast.walk(launch.around):
            match node:
                case ast.AugAssign(target=ast.Name(id=name)):
                    self._changed.add(name)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                    for target, value in zip(targets, values, strict=False):
                        self._assigned(target, value)
                case ast.Assign(targets=[target], value=value):
                    self._assigned(target, value)
                case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
                    self._equal(left, right)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and (array := _shape_of(value)) is not None:
            self._shapes.setdefault(array, [_named(each, array, axis) for axis, each in enumerate(target.elts)])
        elif isinstance(target, ast.Name) and (extent := _extent_of(value)) is not None:
            self._axes.setdefault(extent[0], {}).setdefault(extent[1], target)
        elif isinstance(target, ast.Name) and isinstance(value, ast.Name):
            self._same.setdefault(target.id, value.id)
        elif isinstance(target, ast.Name) and isinstance(value, ast.Call):
            name = last_word(value.func)
            if target.id in names_in(value):
                return  # it is its former self: `x = x.contiguous()`
            if name in (*_LIKE, *_MADE) and (dtype := _dtype(value)) is not None:
                self._dtypes.setdefault(target.id, dtype)
            if name in _LIKE and value.args:
                self._same.setdefault(target.id, ast.unparse(value.args[0]))
            elif name in _SAME and isinstance(value.func, ast.Attribute):
                self._same.setdefault(target.id, ast.unparse(value.func.value))
            elif name in (*_MADE, *_VIEWED) and value.args:
                first = value.args[0]
                extents = first.elts if isinstance(first, ast.Tuple | ast.List) else value.args
                if (array := _shape_of(first)) is not None:
                    self._same.setdefault(target.id, array)
                elif all(_number(each) != -1 and "torch." not in ast.unparse(each) for each in extents):  # no type
                    self._shapes.setdefault(target.id, list(extents))
            elif name == "numel" and isinstance(value.func, ast.Attribute):
                self._shapes.setdefault(ast.unparse(value.func.value), [target])

    def _equal(self, left: ast.expr, right: ast.expr) -> None:
        array, other = _shape_of(left), _shape_of(right)
        if array is not None and other is not None:
            self._same.setdefault(array, other)
            self._same.setdefault(other, array)
        elif array is not None and isinstance(right, ast.Tuple):
            self._shapes.setdefault(array, right.elts)

    def shape(self, name: str) -> list[str] | None:
        """The extents of an array; None if the host does not say all of them."""
        if name not in self._passed:
            return None
        return self._words(self._extents(ast.unparse(self._passed[name])))

    def likely_shape(self, name: str) -> list[str] | None:
        """The extents of an array to which the host gives names, as by `rows = x.shape[0]`; None unless these are the
        first ones. There may be more."""
        array = ast.unparse(self._passed[name]) if name in self._passed else ""
        axes = self._axes.get(self._root(array), {})
        return self._words([axes[number] for number in sorted(axes)]) if {*axes} == {*range(len(axes))} else None

    def dtype(self, name: str) -> str | None:
        """The type with which the host makes an array; None if it names none."""
        return self._dtypes.get(ast.unparse(self._passed[name])) if name in self._passed else None

    def _words(self, extents: Sequence[ast.expr] | None) -> list[str] | None:
        """Extents in the words of the kernel; None unless all are told."""
        for each in extents or ():
            if isinstance(each, ast.Starred) or names_in(each) & self._changed:
                return None
        words = [self._grid.word(each) for each in extents or ()]
        return None if not words or None in words else [each for each in words if each is not None]

    def _extents(self, array: str) -> list[ast.expr] | None:
        return self._shapes.get(self._root(array))

    def _root(self, array: str) -> str:
        """An array of the same shape of which the host says something."""
        for _ in range(MOST_STEPS):
            if array in self._shapes or array in self._axes or array not in self._same:
                break
            array = self._same[array]
        return array

    def stride(self, name: str) -> tuple[str, int] | None:
        """The array and the axis whose stride is passed for a parameter; of two alternatives, the first counts."""
        match self._first(name):
            case ast.Call(func=ast.Attribute(attr="stride", value=array), args=[axis]):
                known = self._arrays.get(ast.unparse(array))
                number = _number(axis)
                return None if known is None or number is None else (known, number)
        return None

    def number(self, name: str) -> int | None:
        """The number that is passed for a parameter; of two alternatives, the first counts."""
        given = self._first(name)
        return None if given is None else _number(given)

    def _first(self, name: str) -> ast.expr | None:
        """What is passed for a parameter; of two alternatives, the first counts."""
        given = self._grid.value(self._passed[name]) if name in self._passed else None
        return given.body if isinstance(given, ast.IfExp) else given

    def is_extent(self, name: str) -> bool:
        """Whether what is passed for a parameter is an extent of an array."""
        given = self._passed.get(name)
        if given is None:
            return False
        names = {each.id for extents in self._shapes.values() for each in extents if isinstance(each, ast.Name)}
        if isinstance(given, ast.Name) and given.id in names:
            return True
        match self._grid.value(given):
            case ast.Subscript(value=ast.Attribute(attr="shape")):
                return True
            case ast.Call(func=ast.Attribute(attr="size" | "numel")):
                return True
        return False

    def names(self) -> Iterator[str]:
        """The names of the host in the shapes of the kernel's arrays."""
        for array in self._arrays.values():
            for word in self.shape(array) or self.likely_shape(array) or ():
                yield from sorted(names_in(ast.parse(word)))


def _named(extent: ast.expr, array: str, axis: int) -> ast.expr:
    """An extent of `rows, _ = x.shape`, where `_` is the extent `x_1`."""
    is_named = not isinstance(extent, ast.Name) or extent.id.strip("_")
    return extent if is_named or not array.isidentifier() else ast.Name(f"{array}_{axis}")


def _shape_of(node: ast.expr) -> str | None:
    """The array whose shape an expression is: `x.shape`, `x.size()`."""
    match node:
        case ast.Attribute(attr="shape", value=array):
            return ast.unparse(array)
        case ast.Call(func=ast.Attribute(attr="size", value=array), args=[]):
            return ast.unparse(array)
    return None


def _extent_of(node: ast.expr) -> tuple[str, int] | None:
    """The array and the axis whose extent an expression is: `x.shape[0]`, `x.size(0)`."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape", value=array), slice=axis):
            number = _number(axis)
        case ast.Call(func=ast.Attribute(attr="size", value=array), args=[axis]):
            number = _number(axis)
        case _:
            return None
    return None if number is None or number < 0 else (ast.unparse(array), number)


def _dtype(call: ast.Call) -> str | None:
    """The type in a call that makes an array: `dtype=torch.float32`."""
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg="dtype", value=ast.Attribute(value=ast.Name(id="torch"), attr=name)):
                return _ALIASES.get(name, name if name in DTYPES else None)
    return None


def _number(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value if isinstance(value, int) else None
