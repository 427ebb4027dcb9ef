"""Operations on the syntax trees of a grid's extents: find bounds and factors, and substitute values of parameters."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any, cast

from tuner.errors import ExpressionError
from tuner.space.expressions.evaluator import evaluator_of, names_in, value_of

if TYPE_CHECKING:
    from tuner.space.config import Config
    from tuner.space.model import Space


def resolved(tree: ast.expr, space: Space) -> ast.expr:
    """The expression of a derived value if the extent is only its name; else the extent."""
    derived = space.derived.get(tree.id) if isinstance(tree, ast.Name) else None
    return tree if derived is None else resolved(derived.tree, space)


def node_count(tree: ast.expr, space: Space) -> int:
    """The nodes of an extent with derived values expanded, which may grow exponentially, so nothing is expanded."""
    counts: dict[str, int] = {}

    def count(tree: ast.expr) -> int:
        return sum(counts.get(node.id, 1) if isinstance(node, ast.Name) else 1 for node in ast.walk(tree))

    for name, expression in space.derived.items():  # derived values follow those that they depend on
        counts[name] = count(expression.tree)
    return count(tree)


def factors(tree: ast.expr, space: Space) -> list[ast.expr]:
    """The factors whose product an extent is."""
    tree = resolved(tree, space)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        return [*factors(tree.left, space), *factors(tree.right, space)]
    return [tree]


class Substitution(ast.NodeTransformer):
    """Substitutes parameters by their values and derived values by their expressions, and folds constants.

    Each prediction evaluates the remaining expression.
    """

    def __init__(self, space: Space, config: Config) -> None:
        self._space, self._config = space, config

    def visit_Call(self, node: ast.Call) -> ast.Call:
        node.args = [self.visit(argument) for argument in node.args]  # not the function's name
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
                break  # short circuit
        node.values = [v for v in values[:-1] if not isinstance(v, ast.Constant)] + values[-1:]
        return node if len(node.values) > 1 else node.values[0]

    def visit(self, node: ast.AST) -> Any:
        """Visit the node, and replace the result by its value if it contains no names."""
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
        tree = resolved(node, self._space)
        return node if tree is node else cast(ast.expr, self.visit(copy.deepcopy(tree)))


def unbounded(tree: ast.expr, varying: frozenset[str]) -> ast.expr:
    """An extent without its `min` bound: the only argument of `min` that depends on a name in `varying`."""
    if isinstance(tree, ast.Call) and cast(ast.Name, tree.func).id == "min":
        growing = [argument for argument in tree.args if names_in(argument) & varying]
        if len(growing) == 1:
            return unbounded(growing[0], varying)
    return tree
