"""Derived values during enumeration: each is computed once per configuration and shared by all restrictions."""

import ast
from collections.abc import Mapping
from typing import Any

from tuner.errors import ExpressionError
from tuner.space.config import Value
from tuner.space.expressions.evaluator import Evaluator, evaluator_of, names_in
from tuner.space.expressions.rewriting import substitute
from tuner.space.model import Restriction, Space
from tuner.space.scope import LazyNames, Scope

_MAX_NODES = 1_000  # of an expression with its derived values inlined


class Derived:
    """The derived values of a space at one size on one device.

    `constants` holds those that are the same for every configuration, and the names of the scope. The others remain
    names, and are computed once per configuration: inlining derived values in one another would grow exponentially.
    """

    def __init__(self, space: Space, scope: Scope) -> None:
        self.constants: dict[str, Any] = {k: v for k, v in scope.names.items() if k not in space.parameters}
        self._evaluators: dict[str, Evaluator] = {}
        self._written_out: dict[str, ast.expr] = {}
        self._nodes: dict[str, int] = {}
        self._parameters: dict[str, frozenset[str]] = {}
        for name, expression in space.derived.items():
            tree = substitute(expression.tree, self.constants)
            if isinstance(tree, ast.Constant):
                self.constants[name] = tree
            else:
                self._nodes[name] = self._count(tree)
                self._parameters[name] = self.parameters(tree)
                self._evaluators[name] = evaluator_of(tree)
                if (whole := self.written_out(tree)) is not None:
                    self._written_out[name] = whole

    def parameters(self, tree: ast.expr) -> frozenset[str]:
        """The parameters that `tree` depends on."""
        return frozenset().union(*(self._parameters.get(name, {name}) for name in names_in(tree)))

    def written_out(self, tree: ast.expr) -> ast.expr | None:
        """`tree` with its derived values inlined; None if that would be too large."""
        if self._count(tree) > _MAX_NODES:
            return None
        return substitute(tree, self._written_out)

    def names(self, config: Mapping[str, Value]) -> Mapping[str, Any]:
        """Parameters and derived values by name; derived ones are computed when first read."""
        return LazyNames(config, self._evaluators)

    def _count(self, tree: ast.expr) -> int:
        """The number of nodes of `tree` with its derived values inlined."""
        nodes = (self._nodes.get(node.id, 1) if isinstance(node, ast.Name) else 1 for node in ast.walk(tree))
        return sum(nodes)


def holds(restriction: Restriction, substituted: Evaluator, names: Mapping[str, Value]) -> bool:
    """Whether the restriction, as `substituted`, holds for `names`. Raises ExpressionError if it has no value."""
    config = dict(names)
    try:
        return bool(substituted(names))
    except ZeroDivisionError:
        reason = "division by zero"
    except (ExpressionError, ArithmeticError, TypeError, ValueError) as error:
        reason = str(error)
    where = " ".join(f"{name}={value}" for name, value in config.items())
    text = f"restriction {restriction}: {reason}" + (f" at {where}" if where else "")
    raise ExpressionError(f"{text}; exclude that by this restriction or another one") from None
