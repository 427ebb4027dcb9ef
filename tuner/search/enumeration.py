"""The valid configurations of a space at one size, enumerated by Kernel Tuner's Searchspace.

Its solver is fast on text, but reads that text in its own way. Words and conditionals are not understood, and a
division by zero passes through it. Comparisons that look simple are turned into special constraints by pattern, some
of them wrongly: `a < a` with `a >= b`, or `a <= b % a`, give configurations that break them. So a restriction reaches
it only as text written anew from our checked tree (numbers, parameters under neutral names, arithmetic, comparisons),
where that text cannot divide by zero, and in a shape that none of the patterns fits; the solver then evaluates it as it
stands. The other restrictions filter what it returns, through our evaluator.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from kernel_tuner.searchspace import Searchspace

from tuner.errors import ExpressionError, NoConfiguration, SpaceError
from tuner.space.default import no_configuration
from tuner.space.expressions import names_in, walk
from tuner.space.model import Restriction, Scope, Space, Value
from tuner.space.rewriting import divisors, substitute

_ANY_NUMBER_OF_THREADS = 2**62  # our own restrictions know the block
MAX_COMBINATIONS = 10**8
_FEW = 100_000  # combinations that are looked at to prove that a divisor is never zero
_PLAIN = (ast.Compare, ast.BinOp, ast.BoolOp, ast.Name, ast.Tuple, ast.List, ast.operator, ast.cmpop, ast.boolop)


def enumerate_space(space: Space, scope: Scope) -> Searchspace:
    """Every valid configuration of `space`, its values in the order of the parameters, under neutral names.

    Raises SpaceError for more than MAX_COMBINATIONS, NoConfiguration where there is none, and ExpressionError, naming
    the restriction, where one has no value (a division by zero) for a configuration that all others accept."""
    combinations = math.prod(len(values) for values in space.parameters.values())
    if combinations > MAX_COMBINATIONS:
        raise SpaceError(
            f"{space.name}: parameters: {combinations} combinations before restrictions; at most {MAX_COMBINATIONS} "
            "can be searched; declare fewer values"
        )
    values: dict[str, Any] = {k: v for k, v in scope.names.items() if k not in space.parameters}
    for name, expression in space.derived.items():
        values[name] = substitute(expression.tree, values)
    texts: list[str] = []
    filters: list[tuple[Restriction, ast.expr]] = []
    for restriction in space.restrictions:
        tree = substitute(restriction.that.tree, values)
        if not names_in(tree):
            if not _value(restriction, tree, {}):
                raise no_configuration(space, scope)
        elif (text := _kernel_tuner_text(tree, space.parameters)) is not None:
            texts.append(text)
        else:
            filters.append((restriction, tree))
    # Names of its own, because it gives some names (block_size_x) a meaning.
    parameters = {_neutral(i): list(declared) for i, declared in enumerate(space.parameters.values())}
    try:
        found = Searchspace(parameters, texts, _ANY_NUMBER_OF_THREADS)
    except IndexError:  # what its solver raises where a parameter is left without a value
        raise no_configuration(space, scope) from None
    configurations = found.list
    if filters:
        configurations = _filtered(configurations, filters, list(space.parameters))
        if configurations:
            entries = {str(i): dict(zip(parameters, c, strict=True)) for i, c in enumerate(configurations)}
            found = Searchspace(None, None, None, from_cache={"tune_params": parameters, "cache": entries})
    if not configurations:
        raise no_configuration(space, scope)
    return found


def count(space: Space, scope: Scope) -> int:
    """How many configurations are valid; 0 where none is."""
    try:
        return int(enumerate_space(space, scope).size)
    except NoConfiguration:
        return 0


def _value(restriction: Restriction, tree: ast.expr, config: Mapping[str, Value]) -> bool:
    """Whether `config` satisfies the restriction, whose tree has been substituted."""
    try:
        return bool(walk(tree, config))
    except ZeroDivisionError:
        reason = "division by zero"
    except (ExpressionError, ArithmeticError, TypeError, ValueError) as error:
        reason = str(error)
    where = " ".join(f"{name}={value}" for name, value in config.items())
    text = f"restriction {restriction}: {reason}" + (f" at {where}" if where else "")
    raise ExpressionError(f"{text}; let the restriction, or another one, exclude that") from None


def _kernel_tuner_text(tree: ast.expr, parameters: Mapping[str, tuple[Value, ...]]) -> str | None:
    """`tree` as text for Kernel Tuner, or None where its reading of it could differ from ours."""
    tree = _Rewrite().visit(tree)
    for node in ast.walk(tree):
        number = (
            isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
        )
        negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        if not (isinstance(node, (*_PLAIN, ast.expr_context, ast.USub)) or number or negative):
            return None
        if isinstance(node, ast.Pow | ast.MatMult):  # evaluated there without a bound
            return None
    if not isinstance(tree, ast.Compare | ast.BoolOp):
        return None
    if not all(isinstance(v, int | float) for name in names_in(tree) for v in parameters[name]):
        return None
    if any(_may_be_zero(divisor, parameters) for divisor in divisors(tree)):
        return None
    neutral = {name: ast.Name(_neutral(i)) for i, name in enumerate(parameters)}
    return f"1 == 1 and ({ast.unparse(substitute(tree, neutral))})"  # a second comparator, so that no pattern fits


def _neutral(position: int) -> str:
    return f"p{position}"


class _Rewrite(ast.NodeTransformer):
    """ceil_div and round_up in arithmetic; works on a copy, since checked trees are shared."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
            a, b = (self.visit(argument) for argument in node.args)
            rounded = ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), a), ast.FloorDiv(), b))
            if node.func.id == "ceil_div":
                return rounded
            if node.func.id == "round_up":
                return ast.BinOp(rounded, ast.Mult(), b)
        copied = type(node)(**dict(ast.iter_fields(node)))
        return self.generic_visit(_own_lists(copied))


def _own_lists(node: ast.AST) -> ast.AST:
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            setattr(node, field, list(value))
    return node


def _may_be_zero(divisor: ast.expr, parameters: Mapping[str, tuple[Value, ...]]) -> bool:
    """Whether some combination of declared values makes `divisor` zero, or there are too many to tell."""
    names = sorted(names_in(divisor))
    combinations = itertools.product(*(parameters[name] for name in names))
    for looked_at, values in enumerate(combinations):
        if looked_at >= _FEW:
            return True
        try:
            if walk(divisor, dict(zip(names, values, strict=True))) == 0:
                return True
        except (ExpressionError, ArithmeticError, TypeError, ValueError):
            return True
    return False


def _filtered(
    configurations: list[tuple[Value, ...]], filters: list[tuple[Restriction, ast.expr]], order: list[str]
) -> list[tuple[Value, ...]]:
    """The configurations that satisfy every filter.

    A filter is evaluated once for each distinct combination of the parameters it names. One without a value is an
    error only for a configuration that the other filters accept, in whatever order they stand.
    """
    undecided: dict[tuple[Value, ...], ExpressionError] = {}
    for restriction, tree in filters:
        names = [name for name in order if name in names_in(tree)]
        pick = itemgetter(*(order.index(name) for name in names))
        verdicts: dict[Any, bool | ExpressionError] = {}
        kept = []
        for configuration in configurations:
            part = pick(configuration)
            verdict = verdicts.get(part)
            if verdict is None:
                values = dict(zip(names, part if len(names) > 1 else (part,), strict=True))
                try:
                    verdict = _value(restriction, tree, values)
                except ExpressionError as error:
                    verdict = error
                verdicts[part] = verdict
            if isinstance(verdict, ExpressionError):
                undecided.setdefault(configuration, verdict)
            if verdict:
                kept.append(configuration)
        configurations = kept
    for configuration in configurations if undecided else []:
        if configuration in undecided:
            raise undecided[configuration]
    return configurations
