"""The tiles of a launch at any size: how many there are, and how many there would be without rounding up.

A grid is a product of rounded powers of sizes, such as `ceil_div(N, 128)`. It may stop growing, as `min(132, tiles)`
does: then its blocks walk over tiles. Elsewhere each block has a tile of its own.
"""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from tuner.errors import ExpressionError
from tuner.prediction.amounts import Array, Mask
from tuner.space.config import Config
from tuner.space.expressions import Expression
from tuner.space.expressions.evaluator import Evaluator, evaluator_of, names_in, value_of
from tuner.space.model import Space, Step
from tuner.space.scope import Scope

Sizes = tuple[int, ...]  # in the order of the operation
Scopes = Callable[[Sizes], Scope]  # the problem of these sizes
PROBE_SIZE = 4096 * 3 * 5 * 7  # which nearly every block divides; the product of three such sizes is not too large
NEARLY = 0.01  # of the exponent of a size
MOST_CHECKED = 8  # sizes at which grids must be as they are thought to be
MOST_NODES = 4096  # of the extents of a grid, with expressions in the place of derived values
ROUNDING = 1e-4  # of a tile: more than the error of a product, less than any part of a tile


@dataclass(frozen=True, eq=False)
class Measured:
    """A configuration of a kernel, or a library's routine where `space` is None, and its times in ms by size."""

    space: Space | None
    config: Config
    times: Mapping[Sizes, float]


class Extents:
    """What the extents of a step's grid are made of, in all configurations: `whole` without bounds, `split` the
    `factors` that these are products of, which are None where they are too long to be looked at."""

    def __init__(self, step: Step, space: Space) -> None:
        self.step, self.space = step, space
        trees = [_unbounded(_resolved(extent.tree, space), space.sized_names) for extent in step.grid]
        self.whole = [evaluator_of(tree) for tree in trees]
        is_long = sum(_length(tree, space) for tree in trees) > MOST_NODES
        self.factors = None if is_long else [factor for tree in trees for factor in _factors(tree, space)]
        self.split = [evaluator_of(factor) for factor in self.factors or []]


@dataclass(frozen=True)
class TiledGrid:
    """The tiles of a step along x, y and z, without rounding up: `factors` times the powers of sizes (a row each).
    Where these do not tell the blocks, but those of the factors of products do, each factor has a row.

    `most` is the number of blocks that the grid does not exceed. It `agrees` where it gave the blocks of all sizes
    that were tried; else tiles are to be counted as the product of `terms`, the factors of its extents, which sizes and
    options alone change. Where it is no product, none of them is thought to be cut.

    `is_depth` tells of each factor, of `terms` where there are any, whether it parts the depth of the result's tiles:
    only sizes that no result has change it. Of a grid that is cut where it still grows, no factor is thought to.
    """

    factors: Array
    powers: Array
    is_depth: Mask
    most: float = math.inf
    agrees: bool = True
    is_product: bool = True
    terms: tuple[ast.expr, ...] = ()

    @staticmethod
    def of(extents: Extents, config: Config, scopes: Scopes, sizes: Sequence[Sizes]) -> TiledGrid | None:
        """The grid of a configuration, which is compared with what it is at `sizes`; None if it has no value somewhere,
        or is too long to be looked at."""
        step, space = extents.step, extents.space
        grid = TiledGrid._of(step, extents.whole, space, config, scopes, sizes)
        # Where blocks walk over tiles, factors tell which of them are of the result.
        if grid is None or (grid.agrees and math.isinf(grid.most)):
            return grid
        if extents.factors is None:
            return grid if grid.agrees else None
        split, large = TiledGrid._of(step, extents.split, space, config, scopes, sizes), _large(space)
        if split is not None and split.agrees and math.isclose(*(g.along(large).prod() for g in (split, grid))):
            return split
        if grid.agrees:
            return grid
        values = _Values(space, config)
        terms = tuple(values.visit(copy.deepcopy(factor)) for factor in extents.factors)
        return replace(grid, terms=terms, is_depth=np.zeros(len(terms), bool) if split is None else split.is_depth)

    @staticmethod
    def _of(
        step: Step, extents: Sequence[Evaluator], space: Space, config: Config, scopes: Scopes, sizes: Sequence[Sizes]
    ) -> TiledGrid | None:
        """The same with these factors."""
        large = tuple(map(int, _large(space)))

        def counts(point: Sizes) -> list[int]:
            return counted(extents, space.names(config, scopes(point)))

        try:
            there = counts(large)
            doubled = [counts((*large[:i], 2 * PROBE_SIZE, *large[i + 1 :])) for i in range(len(large))]
            exponents = np.array([[math.log2(b / a) for b in more] for a, *more in zip(there, *doubled, strict=True)])
            powers = np.round(exponents)
            factors = np.array(there, float) / float(PROBE_SIZE) ** powers.sum(axis=1)
            names = space.names(config, scopes(large))
            blocks = math.prod(extent.integer(names) for extent in step.grid)
            most = blocks if blocks < math.prod(there) else math.inf
            changed, in_results = abs(exponents) > NEARLY, is_in_results(space)
            is_depth = np.array([each.any() and not each[in_results].any() for each in changed], bool)
            if is_depth.any() and math.isfinite(most):
                larger = space.names(config, scopes(tuple(2 * size for size in large)))
                is_depth &= blocks == math.prod(extent.integer(larger) for extent in step.grid)
            grid = TiledGrid(factors, powers, is_depth, most)
            if (abs(exponents - powers) > NEARLY).any():
                return replace(grid, agrees=False, is_product=False)
            for point in sizes[:: max(1, len(sizes) // MOST_CHECKED)]:
                if (np.ceil(grid.along(np.array(point, float)) - ROUNDING) != counts(point)).any():
                    return replace(grid, agrees=False)
        except (ExpressionError, ArithmeticError, ValueError):
            return None
        return grid

    def along(self, sizes: Array) -> Array:
        """The tiles along each axis at these sizes, which need not be whole numbers."""
        tiles: Array = self.factors * np.prod(sizes**self.powers, axis=1)
        return tiles


class CountedTiles:
    """The tiles of those of several grids that are to be counted: `rows` are their numbers. A term that several have is
    evaluated once."""

    def __init__(self, grids: Sequence[TiledGrid]) -> None:
        self.rows = np.array([row for row, grid in enumerate(grids) if not grid.agrees], int)
        texts = [[ast.dump(term) for term in grids[row].terms] for row in self.rows]
        terms = {
            text: term
            for row, each in zip(self.rows, texts, strict=True)
            for text, term in zip(each, grids[row].terms, strict=True)
        }
        numbers = {text: number for number, text in enumerate(terms)}
        self._constants = np.ones(len(terms) + 1)  # the last one for grids of fewer terms, and results without depth
        self._terms: list[tuple[int, Evaluator]] = []
        for number, term in enumerate(terms.values()):
            if isinstance(term, ast.Constant) and isinstance(term.value, int | float):
                self._constants[number] = term.value
            else:
                self._terms.append((number, evaluator_of(term)))
        self._factors = np.full((2, len(texts), max(map(len, texts), default=0)), len(numbers))
        for row, each in enumerate(texts):
            self._factors[:, row, : len(each)] = [numbers[text] for text in each]
            self._factors[1, row, : len(each)][grids[self.rows[row]].is_depth] = len(numbers)

    def at(self, names: Mapping[str, Any]) -> Array:
        """The tiles of these grids, and those of the result that they are parts of, by the values of sizes and options;
        not a number where they cannot be counted."""
        values = self._constants.copy()
        for number, term in self._terms:
            try:
                values[number] = value_of(term, names, "a grid")
            except (ExpressionError, ArithmeticError, ValueError):
                values[number] = np.nan
        tiles: Array = np.ceil(values[self._factors].prod(axis=2) - ROUNDING)
        return tiles


def counted(extents: Sequence[Evaluator], names: Mapping[str, Any]) -> list[int]:
    """The values of extents. Raises ExpressionError."""
    return [int(value_of(extent, names, "a grid")) for extent in extents]


def at(scope: Scope, sizes: Sizes) -> Scope:
    """The problem of these sizes, which are in the order of those of `scope`."""
    return scope.at(dict(zip(scope.sizes, sizes, strict=True)))


def parameters_of(space: Space) -> list[str]:
    """The parameters that the grids of a space depend on."""
    return space.parameters_behind(name for step in space.steps for extent in step.grid for name in extent.names)


def work_of(space: Space, scope: Scope) -> tuple[float, float]:
    """What an operation says that it computes, or else moves; and what it moves, or else holds."""
    op, elements = space.operation, float(math.prod(scope.sizes.values()))

    def amount(expression: Expression | None, otherwise: float) -> float:
        try:
            return otherwise if expression is None else float(expression.evaluate(scope.names))
        except (ExpressionError, TypeError, ValueError):
            return otherwise

    moved = amount(op.bytes, elements)
    return amount(op.flops, moved), moved


def is_in_results(space: Space) -> Mask:
    """Of each size, whether a result has it."""
    names = {name for a in space.operation.outputs for extent in a.shape or () for name in extent.names}
    return np.array([name in names for name in space.operation.sizes])


def _large(space: Space) -> Array:
    return np.full(len(space.operation.sizes), float(PROBE_SIZE))


def _resolved(tree: ast.expr, space: Space) -> ast.expr:
    """What an extent is that is but the name of a derived value."""
    derived = space.derived.get(tree.id) if isinstance(tree, ast.Name) else None
    return tree if derived is None else _resolved(derived.tree, space)


def _length(tree: ast.expr, space: Space) -> int:
    """The nodes of an extent with expressions in the place of derived values: each may double those that it needs."""
    lengths: dict[str, int] = {}

    def of(tree: ast.expr) -> int:
        return sum(lengths.get(node.id, 1) if isinstance(node, ast.Name) else 1 for node in ast.walk(tree))

    for name, expression in space.derived.items():  # each stands behind those that it needs
        lengths[name] = of(expression.tree)
    return of(tree)


def _factors(tree: ast.expr, space: Space) -> list[ast.expr]:
    """What an extent is a product of."""
    tree = _resolved(tree, space)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        return [*_factors(tree.left, space), *_factors(tree.right, space)]
    return [tree]


class _Values(ast.NodeTransformer):
    """Puts values in the place of parameters, and expressions in that of derived values. What values decide is folded,
    since each choice evaluates the rest."""

    def __init__(self, space: Space, config: Config) -> None:
        self._space, self._config = space, config

    def visit_Call(self, node: ast.Call) -> ast.Call:
        node.args = [self.visit(argument) for argument in node.args]  # its function is no value
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            return cast(ast.expr, self.visit(node.body if test.value else node.orelse))
        node.test, node.body, node.orelse = test, self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        stops, values = isinstance(node.op, ast.Or), list[ast.expr]()
        for value in map(self.visit, node.values):
            values.append(value)
            if isinstance(value, ast.Constant) and bool(value.value) == stops:
                break  # the others are never looked at
        node.values = [v for v in values[:-1] if not isinstance(v, ast.Constant)] + values[-1:]
        return node if len(node.values) > 1 else node.values[0]

    def visit(self, node: ast.AST) -> Any:
        """The same, or its value where it has no names any more."""
        folded = super().visit(node)
        if not isinstance(folded, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Call) or names_in(folded):
            return folded
        try:
            return ast.Constant(value_of(evaluator_of(folded), {}, "a grid"))
        except ExpressionError:
            return folded

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._config:
            return ast.Constant(self._config[node.id])
        tree = _resolved(node, self._space)
        return node if tree is node else cast(ast.expr, self.visit(copy.deepcopy(tree)))


def _unbounded(tree: ast.expr, varying: frozenset[str]) -> ast.expr:
    """An extent without the bounds of `min`: of its arguments, the one that these names change."""
    if isinstance(tree, ast.Call) and cast(ast.Name, tree.func).id == "min":
        growing = [argument for argument in tree.args if names_in(argument) & varying]
        if len(growing) == 1:
            return _unbounded(growing[0], varying)
    return tree
