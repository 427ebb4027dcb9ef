"""Guesses the extents of arrays from the addresses that a kernel in a Python file computes: `x + row * cols + col`.

The numbers by which indices are multiplied are strides, or products of the faster extents. An extent is what its index
is compared with, divided by for a remainder, or the end of a range.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from tuner.drafting.python.syntax import last_word

MOST_TERMS, MOST_NESTED = 64, 12  # of an address; names in each other
_SAME = ("to", "multiple_of", "max_contiguous", "cast", "broadcast_to", "expand_dims")
Term = tuple[tuple[str, ...], list[ast.expr]]  # the sizes in a product, and its other factors


class LikelyExtents:
    """The likely extents of the arrays of a kernel, with its functions in its text.

    sizes: its sizes.
    strides: its numbers that are strides, with the array and the axis of each.
    """

    def __init__(self, node: ast.FunctionDef, sizes: Collection[str], strides: Mapping[str, tuple[str, int]]) -> None:
        self._sizes, self._strides = sizes, strides
        self._assigned: dict[str, ast.expr] = {}
        self._bounds: dict[str, str] = {}  # what a name is compared with
        self._terms: dict[str, list[Term]] = {}  # of the addresses, by the name at which they begin
        for each in ast.walk(node):
            match each:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._assigned.setdefault(name, value)
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                    for target, value in zip(names, values, strict=False):
                        self._assigned.setdefault(last_word(target), value)
                case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Name(id=bound)]) if bound in sizes:
                    self._bounds.setdefault(_plain(left), bound)
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and last_word(each.func) in ("load", "store") and each.args:
                terms = [*self._sum(each.args[0])][:MOST_TERMS]
                for begin in {_plain(factors[0]) for _, factors in terms if len(factors) == 1}:
                    self._terms.setdefault(begin, []).extend(terms)

    def of(self, array: str, axes: int) -> list[str] | None:
        """The extents of an array with at least so many axes, slowest first; None if addresses do not tell them. Of an
        array with strides, one that they do not tell is a size that is left."""
        by_strides = {axis: name for name, (of, axis) in self._strides.items() if of == array}
        terms = [(sizes, rest) for sizes, rest in self._terms.get(array, ()) if not self._is_begin(array, rest)]
        if by_strides:
            found = dict[int, str]()
            for axis, name in by_strides.items():
                bounds = [bound for sizes, rest in terms if sizes == (name,) and (bound := self._bound(rest))]
                found |= {axis % axes: bounds[0]} if bounds else {}
            plain = [bound for sizes, rest in terms if not sizes and (bound := self._bound(rest))]
            if plain:  # of a stride of 1, which is not passed
                axes += axes - 1 in {axis % axes for axis in by_strides}
                found[axes - 1] = plain[0]
            left = (size for size in self._sizes if size not in found.values())
            return [found.get(axis) or next(left, next(iter(self._sizes))) for axis in range(axes)] if found else None
        strides = sorted({(), *(sizes for sizes, _ in terms)}, key=len)
        extents: list[str] = []
        for near, far in itertools.pairwise(strides):
            if Counter(near) - Counter(far):
                return None
            extents[:0] = (Counter(far) - Counter(near)).elements()
        slowest = [bound for sizes, rest in terms if sizes == strides[-1] and (bound := self._bound(rest))]
        extents[:0] = slowest[:1]
        return extents if slowest and len(extents) >= axes else None

    @staticmethod
    def _is_begin(array: str, factors: list[ast.expr]) -> bool:
        return len(factors) == 1 and _plain(factors[0]) == array

    def _bound(self, factors: list[ast.expr]) -> str:
        """What an index is compared with, or divided by; empty if that is no size."""
        found = ""
        for factor in factors:
            for each in self._names_of(factor):
                found = found or self._bounds.get(each, "")
            match self._value(factor):
                case ast.BinOp(op=ast.Mod(), right=ast.Name(id=name)) if name in self._sizes:
                    found = found or name
                case ast.Call(func=func, args=[ast.Constant(value=0), ast.Name(id=name)]) if (
                    last_word(func) == "arange" and name in self._sizes
                ):
                    found = found or name
        return found if len(factors) == 1 else ""

    def _names_of(self, node: ast.expr) -> Iterator[str]:
        """A name, and the names that it stands for."""
        for _ in range(MOST_NESTED):
            name = _plain(node)
            if not name:
                return
            yield name
            if name not in self._assigned:
                return
            node = self._assigned[name]

    def _value(self, node: ast.expr) -> ast.expr:
        for name in self._names_of(node):
            node = self._assigned.get(name, node)
        return _inner(node)

    def _sum(self, node: ast.expr, depth: int = 0) -> Iterator[Term]:
        """The terms of a sum, also by way of names, each as a product."""
        node = _inner(node)
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                yield from self._sum(left, depth)
                yield from self._sum(right, depth)
            case ast.Name(id=name) if self._is_sum(name) and depth < MOST_NESTED:
                yield from self._sum(self._assigned[name], depth + 1)
            case ast.BinOp(left=left, op=ast.Mult(), right=right) if depth < MOST_NESTED:
                for sizes, rest in self._sum(left, depth + 1):
                    for others, more in self._sum(right, depth + 1):
                        yield tuple(sorted((*sizes, *others))), [*rest, *more]
            case ast.Name(id=name) if name in self._sizes or name in self._strides:
                yield (name,), []
            case _:
                yield (), [node]

    def _is_sum(self, name: str) -> bool:
        """Whether a name stands for a sum, or for a product with a size, and is compared with nothing itself."""
        value = _inner(self._assigned[name]) if name in self._assigned else None
        if name in self._bounds or name in self._sizes or value is None:
            return False
        if isinstance(value, ast.Name):
            return True
        return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Mult)


def _inner(node: ast.expr) -> ast.expr:
    """An expression without axes and conversions: `i[:, None].to(tl.int64)` is i."""
    while True:
        match node:
            case ast.Subscript(value=value):
                node = value
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in _SAME:
                node = value if name == "to" or not node.args else node.args[0]
            case _:
                return node


def _plain(node: ast.expr) -> str:
    """The name that an expression is, without axes and conversions; empty if it is none."""
    node = _inner(node)
    return node.id if isinstance(node, ast.Name) else ""
