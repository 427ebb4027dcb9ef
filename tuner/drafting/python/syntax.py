"""Pieces of Python syntax that several readers of a file take apart, and expressions of it in the words of a space."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

# Functions of host code that expressions of a space have, too.
CALLS = {"cdiv": "ceil_div", "min": "min", "max": "max", "next_power_of_2": "next_power_of_2"}
# Methods that leave a list or table as it is.
READING = ("index", "count", "copy", "get", "items", "keys", "values")


def last_word(node: ast.expr) -> str:
    """The last word of a dotted name: of a function that is called."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def on_nvidia(test: ast.expr) -> bool | None:
    """Whether a condition about the make of the GPU is true on NVIDIA's; None for any other condition."""
    match test:
        case ast.Attribute() if ast.unparse(test) == "torch.version.hip":
            return False
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as how], comparators=[ast.Constant(value=None)]) if (
            ast.unparse(left) == "torch.version.hip"
        ):
            return isinstance(how, ast.Is)
        case ast.Call(func=func, args=[]):
            return {"is_cuda": True, "is_hip": False, "is_rocm": False, "is_xpu": False}.get(last_word(func))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = on_nvidia(operand)
            return None if inner is None else not inner
        case ast.BoolOp(op=how, values=values):
            known = [on_nvidia(each) for each in values]
            decides = isinstance(how, ast.Or)
            return decides if decides in known else None if None in known else not decides
    return None


def names_in(*nodes: ast.AST) -> set[str]:
    """The names in expressions."""
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def mutated(statement: ast.stmt) -> set[str]:
    """The names of lists that a statement may change in place: `sizes.append(64)`, `sizes[0] = 64`."""
    found = set[str]()
    for each in ast.walk(statement):
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method not in READING:
                found.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                found.add(name)
    return found


def filled(node: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    """An expression with values in the place of names."""
    changed: ast.Expression = _Filled(values).visit(ast.parse(ast.unparse(node), mode="eval"))
    return changed.body


def itself(node: ast.expr) -> ast.expr:
    """What an expression stands for where nothing is told."""
    return node


def translated(
    node: ast.expr, known: Mapping[str, str], table: str, value_of: Callable[[ast.expr], ast.expr] = itself
) -> str | None:
    """An expression of the host as one of a space; None if it is none.

    known: the names of the space by the expressions of the host that stand for them.
    table: the name of the host's table of parameters, as in `META["BLOCK"]`; empty without one.
    value_of: what an expression of the host stands for, or the expression itself.
    """
    translator = _Translator(known, table, value_of)
    changed = translator.visit(ast.parse(ast.unparse(node), mode="eval"))
    return ast.unparse(ast.fix_missing_locations(changed)) if translator.is_plain else None


class _Filled(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._values.get(node.id, node)


class _Translator(ast.NodeTransformer):
    """Puts the names of a space in the place of what stands for them."""

    def __init__(self, known: Mapping[str, str], table: str, value_of: Callable[[ast.expr], ast.expr]) -> None:
        self._known, self._table, self._value_of, self.is_plain = known, table, value_of, True
        self._followed: list[str] = []  # the names whose values are being translated

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and (name := self._known.get(ast.unparse(node))) is not None:
            return node if isinstance(node, ast.Constant) else ast.Name(name, ast.Load())
        changed: ast.AST = super().visit(node)
        return changed

    def visit_Name(self, node: ast.Name) -> ast.AST:
        value = self._value_of(node)
        if value is node or node.id in self._followed:
            return self._other(node)
        self._followed.append(node.id)
        changed = self.visit(value)
        self._followed.pop()
        return changed

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        chosen = self._value_of(node)
        return self._other(node) if chosen is node else self.visit(chosen)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)) if name == self._table:
                return ast.Name(str(key), ast.Load())
        return self._other(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._other(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = CALLS.get(last_word(node.func))
        if name is None or node.keywords:
            return self._other(node)
        arguments = [changed for each in node.args if isinstance(changed := self.visit(each), ast.expr)]
        return ast.Call(ast.Name(name, ast.Load()), arguments, [])

    def _other(self, node: ast.AST) -> ast.AST:
        self.is_plain = False
        return node
