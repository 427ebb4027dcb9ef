"""The parts that the formula of an output may lack: terms and factors that name an array, divisors, bounds and absolute
values."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Set
from typing import Any

from tuner.classes import dataclass
from tuner.quoting import shown
from tuner.space import expressions
from tuner.space.expressions import Expression
from tuner.space.expressions.evaluator import names_in


@dataclass(frozen=True)
class FormulaPart:
    """A part of a formula, the node `part`. Without it, `kept` stands in the place of the node `old`. Its name is as in
    "term `a * x`"."""

    name: str
    part: ast.expr
    old: ast.expr
    kept: ast.expr

    def left_out_of(self, formula: Expression) -> Expression:
        """The formula without this part. Raises ExpressionError if it is then too long: its text has other blanks than
        the user's."""
        return expressions.parse_array(ast.unparse(copy.deepcopy(formula.tree, {id(self.old): self.kept})))


def of(formula: Expression, arrays: Set[str]) -> Iterator[FormulaPart]:
    """The parts of a formula. Branches that depend on a condition are left as they are, because the other one may be
    computed."""
    conditions = [node for node in ast.walk(formula.tree) if isinstance(node, ast.IfExp)]
    branches = [branch for node in conditions for branch in (node.body, node.orelse)]
    conditional = {id(node) for branch in branches for node in ast.walk(branch)}
    for old in ast.walk(formula.tree):
        if isinstance(old, ast.expr) and id(old) not in conditional:
            for name, part, kept in _parts(old, arrays):
                yield FormulaPart(name, part, old, kept)


def _parts(node: ast.AST, arrays: Set[str]) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """What `node` may lack, by name and node, and what it then is."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            if not _is(left, ast.Add | ast.Sub) and _names(left, arrays):
                kept = right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), right)
                yield f"term `{_text(left)}`", left, kept
            if not _is(right, ast.Add | ast.Sub) and _names(right, arrays):
                yield f"term `{_text(right)}`", right, left
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            if isinstance(node.op, ast.Mult) and not _is(left, ast.Mult | ast.Div) and _names(left, arrays):
                yield f"factor `{_text(left)}`", left, right
            if not _is(right, ast.Mult | ast.Div) and _names(right, arrays):
                kind = "factor" if isinstance(node.op, ast.Mult) else "divisor"
                yield f"{kind} `{_text(right)}`", right, left
        case ast.Call(func=ast.Name(id="clip"), args=[value, low, _]):  # often, one of its bounds is there for safety
            yield f"bounds of `{_text(node)}`", low, value
        case ast.Call(func=ast.Name(id="maximum" | "minimum"), args=[value, other]):
            yield f"`{_text(other)}` of `{_text(node)}`", other, value
            yield f"`{_text(value)}` of `{_text(node)}`", value, other
        case ast.Call(func=ast.Name(id="abs"), args=[value]):
            yield f"`{_text(node)}`", node, value


def _is(node: ast.expr, operators: Any) -> bool:
    """Whether `node` is a sum or product itself, whose parts follow."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, operators)


def _names(node: ast.expr, arrays: Set[str]) -> bool:
    return not arrays.isdisjoint(names_in(node))


def _text(node: ast.expr) -> str:
    return shown(ast.unparse(node))
