"""The number of tiles of a launch as a function of the sizes, with and without rounding up.

A grid is a product of rounded powers of sizes, such as `ceil_div(N, 128)`. A grid such as `min(132, tiles)` is bounded:
it launches persistent blocks, each of which loops over tiles. In every other grid, each block has one tile.
"""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.prediction import grid_trees
from tuner.prediction.amounts import Array, Mask
from tuner.space.config import Config
from tuner.space.expressions import Expression
from tuner.space.expressions.evaluator import Evaluator, evaluator_of, value_of
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.step import Step

Sizes = tuple[int, ...]  # in the operation's order
Scopes = Callable[[Sizes], Scope]  # returns the problem of these sizes
PROBE_SIZE = 4096 * 3 * 5 * 7  # a multiple of nearly every tile; the product of three such sizes is below 2**63
EXPONENT_TOLERANCE = 0.01  # within which the exponent of a size counts as a whole number
MOST_CHECKED = 8  # sizes at which an inferred grid is compared with the real one
MOST_NODES = 4096  # of the syntax trees of a grid, with derived values expanded
ROUNDING = 1e-4  # tiles; larger than the rounding error of a product, smaller than any fraction of a tile


@dataclass(frozen=True, eq=False)
class Measured:
    """The measured times, in ms by size, of a configuration of a kernel, or of the library if `space` is None."""

    space: Space | None
    config: Config
    times: Mapping[Sizes, float]


class Extents:
    """The extents of a step's grid as expressions, for all configurations.

    `whole` evaluates each extent without its `min` bound. `factors` are the syntax trees whose products the extents
    are, and `split` evaluates them; `factors` is None if the trees have more than MOST_NODES nodes.
    """

    def __init__(self, step: Step, space: Space) -> None:
        self.step, self.space = step, space
        trees = [
            grid_trees.unbounded(grid_trees.resolved(extent.tree, space), space.sized_names) for extent in step.grid
        ]
        self.whole = [evaluator_of(tree) for tree in trees]
        is_long = sum(grid_trees.node_count(tree, space) for tree in trees) > MOST_NODES
        self.factors = None if is_long else [factor for tree in trees for factor in grid_trees.factors(tree, space)]
        self.split = [evaluator_of(factor) for factor in self.factors or []]


@dataclass(frozen=True)
class TiledGrid:
    """The tiles of a step, as a product over axes of `factors` times powers of the sizes, each rounded up.

    `factors` is [axes]; `powers`, [axes, sizes], has the exponent of each size. The axes are x, y and z, or, if only
    that reproduces the grid, the factors whose products the extents are.

    `most` is the upper bound of the number of blocks, infinite if there is none. `agrees` is True if the product was
    right at all sizes that were checked. If not, tiles are counted by evaluating `terms`: the factors of the extents,
    as expressions of sizes and options only. `is_product` is False if an exponent is not a whole number; then the tiles
    without rounding up are unknown, and all tiles count as whole.

    `is_depth` marks the factors (or `terms`, if any) that split the depth of an output tile, as split-K does: they
    depend only on sizes that no output has. None are marked if the bound takes effect while the grid still grows.
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
        """Infer the grid of a configuration, and check it at some of the `sizes`.

        None if an expression has no value at one of them, or if the expressions are too long to split.
        """
        step, space = extents.step, extents.space
        grid = TiledGrid._inferred(step, extents.whole, space, config, scopes, sizes)
        # For persistent blocks, the factors say which tiles are output tiles.
        if grid is None or (grid.agrees and math.isinf(grid.most)):
            return grid
        if extents.factors is None:
            return grid if grid.agrees else None
        split, large = TiledGrid._inferred(step, extents.split, space, config, scopes, sizes), _large(space)
        if split is not None and split.agrees and math.isclose(*(g.along(large).prod() for g in (split, grid))):
            return split
        if grid.agrees:
            return grid
        substitute = grid_trees.Substitution(space, config)
        terms = tuple(substitute.visit(copy.deepcopy(factor)) for factor in extents.factors)
        return replace(grid, terms=terms, is_depth=np.zeros(len(terms), bool) if split is None else split.is_depth)

    @staticmethod
    def _inferred(
        step: Step, extents: Sequence[Evaluator], space: Space, config: Config, scopes: Scopes, sizes: Sequence[Sizes]
    ) -> TiledGrid | None:
        """Infer one row of factors and powers for each of these extents, by evaluating them at large sizes."""
        large = tuple(map(int, _large(space)))

        def counts(point: Sizes) -> list[int]:
            return counted(extents, space.names(config, scopes(point)))

        try:
            tiles = counts(large)
            doubled = [counts((*large[:i], 2 * PROBE_SIZE, *large[i + 1 :])) for i in range(len(large))]
            exponents = np.array([[math.log2(b / a) for b in more] for a, *more in zip(tiles, *doubled, strict=True)])
            powers = np.round(exponents)
            factors = np.array(tiles, float) / float(PROBE_SIZE) ** powers.sum(axis=1)
            names = space.names(config, scopes(large))
            blocks = math.prod(extent.integer(names) for extent in step.grid)
            most = blocks if blocks < math.prod(tiles) else math.inf
            depends, in_outputs = abs(exponents) > EXPONENT_TOLERANCE, is_in_outputs(space)
            is_depth = np.array([each.any() and not each[in_outputs].any() for each in depends], bool)
            if is_depth.any() and math.isfinite(most):
                larger = space.names(config, scopes(tuple(2 * size for size in large)))
                is_depth &= blocks == math.prod(extent.integer(larger) for extent in step.grid)
            grid = TiledGrid(factors, powers, is_depth, most)
            if (abs(exponents - powers) > EXPONENT_TOLERANCE).any():
                return replace(grid, agrees=False, is_product=False)
            for point in sizes[:: max(1, len(sizes) // MOST_CHECKED)]:
                if (np.ceil(grid.along(np.array(point, float)) - ROUNDING) != counts(point)).any():
                    return replace(grid, agrees=False)
        except (ExpressionError, ArithmeticError, ValueError):
            return None
        return grid

    def along(self, sizes: Array) -> Array:
        """The tiles along each axis at these sizes, without rounding up."""
        tiles: Array = self.factors * np.prod(sizes**self.powers, axis=1)
        return tiles


class CountedTiles:
    """Counts the tiles of those grids that are no product of powers, by evaluating their terms.

    `rows` are the indices of these grids. A term that several grids share is evaluated once.
    """

    def __init__(self, grids: Sequence[TiledGrid]) -> None:
        self.rows = np.array([row for row, grid in enumerate(grids) if not grid.agrees], int)
        texts = [[ast.dump(term) for term in grids[row].terms] for row in self.rows]
        terms = {
            text: term
            for row, each in zip(self.rows, texts, strict=True)
            for text, term in zip(each, grids[row].terms, strict=True)
        }
        numbers = {text: number for number, text in enumerate(terms)}
        self._constants = np.ones(len(terms) + 1)  # the last 1 pads grids of fewer terms, and replaces depth terms
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
        """The tiles and the output tiles of these grids, [2, rows], NaN if a term has no value.

        `names` has the values of sizes and options. Several tiles share an output tile if its depth is split.
        """
        values = self._constants.copy()
        for number, term in self._terms:
            try:
                values[number] = value_of(term, names, "a grid")
            except (ExpressionError, ArithmeticError, ValueError):
                values[number] = np.nan
        tiles: Array = np.ceil(np.multiply.reduce(values[self._factors], axis=2) - ROUNDING)
        return tiles


def counted(extents: Sequence[Evaluator], names: Mapping[str, Any]) -> list[int]:
    """Evaluate extents. Raises ExpressionError if one has no value."""
    return [int(value_of(extent, names, "a grid")) for extent in extents]


def scope_at(scope: Scope, sizes: Sizes) -> Scope:
    """`scope` with other sizes, given in the same order."""
    return scope.at(dict(zip(scope.sizes, sizes, strict=True)))


def parameters_of(space: Space) -> list[str]:
    """The parameters on which the grids of a space depend."""
    return space.parameters_behind(name for step in space.steps for extent in step.grid for name in extent.names)


def work_of(space: Space, scope: Scope) -> tuple[float, float]:
    """The work and the bytes moved of a problem, as the operation declares them.

    The work is `flops`; if that is not declared, the bytes moved. These are `bytes`; if that is not declared, the
    product of the sizes.
    """
    op, elements = space.operation, float(math.prod(scope.sizes.values()))

    def amount(expression: Expression | None, otherwise: float) -> float:
        try:
            return otherwise if expression is None else float(expression.evaluate(scope.names))
        except (ExpressionError, TypeError, ValueError):
            return otherwise

    moved = amount(op.bytes, elements)
    return amount(op.flops, moved), moved


def is_in_outputs(space: Space) -> Mask:
    """For each size, whether the shape of an output depends on it."""
    names = {name for a in space.operation.outputs for extent in a.shape or () for name in extent.names}
    return np.array([name in names for name in space.operation.sizes])


def reads_input(step: Step, space: Space) -> bool:
    """Whether a step takes an array that it may only read, or an object that describes one."""
    taken = [a for a in space.operation.arguments if a.name in step.arguments]
    described = {name for a in taken if a.kind is not None for name in a.kind.describes}
    return any(a.role == "in" and (a in taken or a.name in described) for a in space.operation.arguments)


def _large(space: Space) -> Array:
    return np.full(len(space.operation.sizes), float(PROBE_SIZE))
