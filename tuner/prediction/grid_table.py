"""The grids of the entries of a time model, and their form in a file, so that a trained model need not infer them."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tuner.prediction.grids import (
    Extents,
    Measured,
    Sizes,
    TiledGrid,
    is_in_outputs,
    parameters_of,
    reads_input,
    scope_at,
)
from tuner.space import expressions
from tuner.space.scope import Scope

UNKNOWN = TiledGrid(np.array([np.nan]), np.zeros((1, 1)), np.zeros(1, bool))  # stands for an unknown grid


class GridTable(NamedTuple):
    """The grids of all entries, and the index of the entry that owns each of them; ascending."""

    grids: list[TiledGrid]
    owners: list[int]

    @staticmethod
    def of(measured: Sequence[Measured], scope: Scope, sizes: Sequence[Sizes]) -> GridTable:
        """Infer the grids of the steps of each entry, and check them at some of the `sizes`.

        A routine of the library has an unknown grid, which the tiles replace that the library reports.
        """
        scopes = functools.cache(functools.partial(scope_at, scope))  # many grids are evaluated at the same sizes
        parameters: dict[int, list[str]] = {}
        extents: dict[int, list[tuple[Extents, bool]]] = {}
        inferred: dict[tuple[object, ...], list[TiledGrid]] = {}
        table = GridTable([], [])
        for number, (space, config) in enumerate((entry.space, entry.config) for entry in measured):
            if space is None:
                table.grids.append(UNKNOWN)
                table.owners.append(number)
                continue
            if id(space) not in parameters:
                parameters[id(space)] = parameters_of(space)
                extents[id(space)] = [(Extents(step, space), reads_input(step, space)) for step in space.steps]
            key = id(space), *(config.get(name) for name in parameters[id(space)])
            if key not in inferred:
                of_steps = [(TiledGrid.of(each, config, scopes, sizes), reads) for each, reads in extents[id(space)]]
                known = [(grid, reads) for grid, reads in of_steps if grid is not None]
                products = [(grid, reads) for grid, reads in known if grid.is_product] or known
                reading, in_outputs = [grid for grid, reads in products if reads], is_in_outputs(space)
                is_all = any(grid.powers[:, in_outputs].any(axis=0).all() for grid in reading)
                inferred[key] = (reading if is_all else [grid for grid, _ in products]) or [UNKNOWN]
            for grid in inferred[key]:
                table.grids.append(grid)
                table.owners.append(number)
        return table

    def to_json(self) -> dict[str, Any]:
        """The form in a file, in which equal grids are written once."""
        texts = [_to_json(grid) for grid in self.grids]
        distinct = [*{repr(each): each for each in texts}.values()]
        numbers = {repr(each): number for number, each in enumerate(distinct)}
        return {"grids": distinct, "numbers": [numbers[repr(each)] for each in texts], "owners": self.owners}

    @staticmethod
    def from_json(data: Any) -> GridTable:
        """The table of a file's form. Raises LookupError, TypeError, ValueError or ExpressionError if it is invalid."""
        grids = [UNKNOWN if each is None else _from_json(each) for each in data["grids"]]
        return GridTable([grids[number] for number in data["numbers"]], [int(owner) for owner in data["owners"]])


def _to_json(grid: TiledGrid) -> list[Any] | None:
    if grid is UNKNOWN:
        return None
    most = None if math.isinf(grid.most) else int(grid.most)
    flags = grid.is_depth.tolist(), grid.agrees, grid.is_product
    return [grid.factors.tolist(), grid.powers.tolist(), most, *flags, [ast.unparse(term) for term in grid.terms]]


def _from_json(data: Sequence[Any]) -> TiledGrid:
    factors, powers, most, is_depth, agrees, is_product, terms = data
    trees = tuple(expressions.parse(text).tree for text in terms)
    arrays = np.array(factors, float), np.array(powers, float), np.array(is_depth, bool)
    return TiledGrid(*arrays, math.inf if most is None else float(most), bool(agrees), bool(is_product), trees)
