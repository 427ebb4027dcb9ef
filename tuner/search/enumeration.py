"""The valid configurations of a space at one size, built up one parameter at a time.

Prefixes, which have values for the first parameters, are extended by every value of the next one. A restriction removes
a prefix as soon as the bounds of the other parameters show that no extension can satisfy it. If there would be more
than MOST_EXTENDED, a random part of the prefixes is extended; if more than MOST_PREFIXES remain, a random part is kept.
Each valid configuration is equally likely to be in the result, which is then a sample.

Kernel Tuner's solver is not used. It has other semantics than our evaluator: no strings, no conditional expressions,
divisions by zero that count as false, and for `a < a` with `a >= b` configurations that violate it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.classes import dataclass
from tuner.errors import ExpressionError, SpaceError
from tuner.search import intervals
from tuner.search.derived import Derived, holds
from tuner.search.pool import Pool, type_of_positions
from tuner.space.config import Value
from tuner.space.default import no_configuration
from tuner.space.expressions.evaluator import Evaluator, evaluator_of, names_in
from tuner.space.expressions.rewriting import substitute
from tuner.space.model import Restriction, Space
from tuner.space.scope import Scope

MOST_EXTENDED = 20_000_000  # at any time: some hundred MB
MOST_PREFIXES = 4_000_000  # of which each restriction is evaluated: seconds
BLOCK = 1 << 18  # prefixes whose bounds are computed at once
MOST_DRAWN = 200_000  # configurations of a sample
SEEDS = 3  # at most so many samples are drawn, until one has a valid configuration

Rows = NDArray[np.integer]  # positions of values, one column for each parameter


@dataclass(frozen=True)
class _Condition:
    """A restriction, its evaluator, and the parameters on which it depends.

    `tree` is the restriction with derived values replaced by their expressions; None if it would be too large.
    """

    restriction: Restriction
    evaluator: Evaluator
    parameters: tuple[str, ...]
    tree: ast.expr | None


def enumerated(space: Space, scope: Scope) -> Pool:
    """The valid configurations of `space` in the order of the declared values, or a random sample if they are too many
    to list.

    The same space and scope give the same sample. Raises NoConfiguration if no configuration is valid, and SpaceError
    if the samples contain no valid one. Raises ExpressionError, which names the restriction, if a restriction has no
    value for a configuration that all other restrictions accept.
    """
    derived = Derived(space, scope)
    checks = _checks(space, scope, derived)
    for seed in range(SEEDS):
        prefixes = _Prefixes(space.parameters, derived, np.random.default_rng(seed))
        prefixes.extend(_order(space.parameters, checks), checks)
        if len(prefixes.rows):
            return prefixes.pool()
        if not prefixes.is_sample:
            raise no_configuration(space, scope)
    raise SpaceError(
        f"{space.name}: restrictions: so few of {math.prod(map(len, space.parameters.values())):.1e} combinations are "
        "valid that none was drawn; declare fewer values, or split restrictions that read many parameters"
    )


def _checks(space: Space, scope: Scope, derived: Derived) -> list[_Condition]:
    """The restrictions that depend on parameters. Raises NoConfiguration if another one is false."""
    checks = []
    for restriction in space.restrictions:
        tree = substitute(restriction.that.tree, derived.constants)
        if names_in(tree):
            depends_on = derived.parameters(tree)
            names = tuple(name for name in space.parameters if name in depends_on)
            checks.append(_Condition(restriction, evaluator_of(tree), names, derived.written_out(tree)))
        elif not holds(restriction, evaluator_of(tree), {}):
            raise no_configuration(space, scope)
    return checks


def _order(parameters: Mapping[str, Sequence[Value]], checks: Iterable[_Condition]) -> list[str]:
    """The parameters in an order in which restrictions can be evaluated early.

    Each step adds the missing parameters of one restriction: the one whose missing parameters have the fewest
    combinations of values.
    """
    order: list[str] = []
    open_checks = [check.parameters for check in checks]

    def missing(names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in order]

    while open_checks := [names for names in open_checks if missing(names)]:
        order += missing(min(open_checks, key=lambda names: math.prod(len(parameters[n]) for n in missing(names))))
    return order + missing([*parameters])


class _Prefixes:
    """Prefixes as rows, one column for each parameter in the order in which they were added."""

    def __init__(
        self, parameters: Mapping[str, Sequence[Value]], derived: Derived, random: np.random.Generator
    ) -> None:
        self._parameters, self._derived, self._random = parameters, derived, random
        self.rows: Rows = np.zeros((1, 0), type_of_positions(parameters))
        self.is_sample = False
        self._order: list[str] = []
        self._share = 1.0  # the number of rows, divided by the number that there would be without sampling
        self._undecided: list[tuple[_Condition, dict[tuple[int, ...], ExpressionError]]] = []

    def extend(self, order: Iterable[str], checks: Iterable[_Condition]) -> None:
        """Add the parameters in this order, and remove prefixes that violate one of the `checks`."""
        waiting, names = list(checks), list(order)
        for done, name in enumerate(names):
            count, left = len(self._parameters[name]), names[done:]
            if not waiting and len(self.rows) * self._combinations(left) > MOST_PREFIXES:
                self._complete(left)
                break
            self._keep(max(1, MOST_EXTENDED // count))
            self._order.append(name)
            ready = [check for check in waiting if set(check.parameters) <= set(self._order)]
            few = [check for check in ready if self._combinations(check.parameters) <= BLOCK]  # to evaluate is faster
            bounded = [check for check in waiting if name in check.parameters and check not in few]
            trees = [check.tree for check in bounded if check.tree is not None]
            step = max(1, BLOCK // count)
            blocks = [self.rows[begin : begin + step] for begin in range(0, max(1, len(self.rows)), step)]
            self.rows = np.concatenate([self._extended(block, count, trees) for block in blocks])
            self._keep(MOST_PREFIXES)
            waiting = [check for check in waiting if check not in ready]
            for check in ready:
                self._apply(check)
        self._raise_undecided()

    def _combinations(self, names: Iterable[str]) -> int:
        """The number of combinations of the values of these parameters."""
        return math.prod(len(self._parameters[name]) for name in names)

    def _complete(self, names: Sequence[str]) -> None:
        """Give random prefixes random values of the other parameters, which no restriction reads."""
        wanted = len(self.rows) * self._combinations(names)
        chosen = self.rows[self._random.integers(len(self.rows), size=MOST_DRAWN)]
        counts = [len(self._parameters[name]) for name in names]
        values = [self._random.integers(count, size=MOST_DRAWN, dtype=self.rows.dtype) for count in counts]
        self.rows, _ = _distinct(np.column_stack([chosen, *values]))
        self._order += names
        self._share *= len(self.rows) / wanted
        self.is_sample = True

    def _keep(self, most: int) -> None:
        """Keep at most `most` random rows."""
        if len(self.rows) > most:
            self._share *= most / len(self.rows)
            self.is_sample = True
            self.rows = self.rows[np.sort(self._random.choice(len(self.rows), most, replace=False))]

    def _apply(self, check: _Condition) -> None:
        """Remove the prefixes that violate a restriction.

        The restriction is evaluated once for each combination of its parameters' values. If it has no value for a
        prefix, the prefix stays, because another restriction may remove it.
        """
        columns = [self._order.index(name) for name in check.parameters]
        combinations, which = _distinct(self.rows[:, columns])
        accepted = np.ones(len(combinations), bool)
        undecided: dict[tuple[int, ...], ExpressionError] = {}
        for number, positions in enumerate(combinations.tolist()):
            values = {name: self._parameters[name][p] for name, p in zip(check.parameters, positions, strict=True)}
            try:
                accepted[number] = holds(check.restriction, check.evaluator, self._derived.names(values))
            except ExpressionError as error:
                undecided[tuple(positions)] = error
        if undecided:
            self._undecided.append((check, undecided))
        self.rows = self.rows[accepted[which]]

    def _extended(self, rows: Rows, count: int, trees: Iterable[ast.expr]) -> Rows:
        """These prefixes with each of `count` values, unless no values of the other parameters satisfy a restriction
        among `trees`."""
        values = np.tile(np.arange(count, dtype=rows.dtype), len(rows))
        rows = np.column_stack([np.repeat(rows, count, axis=0), values])
        for tree in trees:
            bounds = {name: self._bounds(name, rows) for name in names_in(tree)}
            rows = rows[np.broadcast_to(intervals.may_hold(tree, bounds), len(rows))]
        return rows

    def _bounds(self, name: str, rows: Rows) -> intervals.Interval:
        """The bounds of a parameter in each of these prefixes."""
        values = self._parameters[name]
        low, high = intervals.of_values(values)
        if name not in self._order or not np.isfinite((low, high)).all():
            return low, high
        column = np.array(values, float)[rows[:, self._order.index(name)]]
        return column, column

    def _raise_undecided(self) -> None:
        """Raise the error of a restriction that has no value for one of the remaining rows."""
        for check, undecided in self._undecided:
            columns = [self._order.index(name) for name in check.parameters]
            combinations, _ = _distinct(self.rows[:, columns])
            for positions in map(tuple, combinations.tolist()):
                if positions in undecided:
                    raise undecided[positions]

    def pool(self) -> Pool:
        """The rows, sorted by the parameters in their order."""
        valid = math.ceil(len(self.rows) / self._share)
        if self.is_sample:
            self._keep(MOST_DRAWN)
        rows = self.rows[:, [self._order.index(name) for name in self._parameters]]
        rows = rows[np.lexsort(rows.T[::-1])] if rows.shape[1] else rows
        return Pool.of_rows(self._parameters, rows, valid if self.is_sample else None)


def _distinct(rows: Rows) -> tuple[Rows, NDArray[np.intp]]:
    """The distinct rows, and for each row its position among them."""
    if not rows.shape[1]:
        return rows[:1], np.zeros(len(rows), np.intp)
    whole = np.dtype((np.void, rows.itemsize * rows.shape[1]))  # a row as one element
    _, first, which = np.unique(np.ascontiguousarray(rows).view(whole), return_index=True, return_inverse=True)
    return rows[first], which.reshape(-1)
