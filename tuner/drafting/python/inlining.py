"""Puts the functions that a kernel in a Python file calls into its text, so that what they do counts as its own."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence

from tuner.drafting.python.definitions import PythonDefinitions
from tuner.drafting.python.syntax import last_word

MOST_NESTED = 4  # functions in each other
MOST_CALLS = 200  # of all functions together


def inlined(kernel: ast.FunctionDef, definitions: PythonDefinitions) -> ast.FunctionDef:
    """The kernel with the statements of the functions of its program before those that call them.

    A parameter to which a name is passed, and to which the function does not assign, gets this name. All other names of
    a function are new ones. The text is for reading: a condition around a `return` is not followed.
    """
    found = copy.deepcopy(kernel)
    found.body = _Inliner().statements(found.body, definitions, (kernel.name,))
    return found


class _Inliner:
    def __init__(self) -> None:
        self._count = 0
        self._known = dict[tuple[PythonDefinitions, str], tuple[PythonDefinitions, Sequence[ast.AST]]]()

    def statements(
        self, body: Sequence[ast.stmt], where: PythonDefinitions, callers: tuple[str, ...]
    ) -> list[ast.stmt]:
        """Statements with those of the functions that they call."""
        found: list[ast.stmt] = []
        for statement in body:
            for name in ("body", "orelse", "finalbody"):
                if isinstance(inner := getattr(statement, name, None), list):
                    setattr(statement, name, self.statements(inner, where, callers))
            calls = _Calls(self, where, callers)
            if isinstance(statement, ast.If | ast.While):
                statement.test = calls.visit(statement.test)
            elif not hasattr(statement, "body"):
                statement = calls.visit(statement)
            found += [*calls.before, statement]
        return found

    def call(
        self, call: ast.Call, where: PythonDefinitions, callers: tuple[str, ...]
    ) -> tuple[list[ast.stmt], ast.expr] | None:
        """The statements of a called function, and the value that it returns; None if it is none of the program's."""
        name = last_word(call.func)
        if not isinstance(call.func, ast.Name) or name in callers or len(callers) > MOST_NESTED:
            return None
        if (where, name) not in self._known:
            self._known[where, name] = where.of(name)
        there, known = self._known[where, name]
        function = next((each for each in known if isinstance(each, ast.FunctionDef)), None)
        if function is None or function.args.vararg or any(isinstance(each, ast.Starred) for each in call.args):
            return None
        self._count += 1
        if self._count > MOST_CALLS:
            return None
        function = copy.deepcopy(function)
        names, given = _names(function, call, self._count)
        body = [each for each in function.body if not isinstance(each, ast.Expr) or isinstance(each.value, ast.Call)]
        renamed: list[ast.stmt] = [_Renamed(names).visit(each) for each in body]
        returned = [each.value for each in _returns(renamed) if each.value is not None]
        inner = self.statements([each for each in renamed if not isinstance(each, ast.Return)], there, (*callers, name))
        value = returned[-1] if returned else ast.Constant(None)
        calls = _Calls(self, there, (*callers, name))
        value = calls.visit(value)
        begun = [ast.Assign([ast.Name(names[each], ast.Store())], passed) for each, passed in given.items()]
        return [*map(_placed, begun), *inner, *calls.before], value


class _Calls(ast.NodeTransformer):
    """Puts the values that functions return in the place of their calls; `before` are the functions' statements."""

    def __init__(self, inliner: _Inliner, where: PythonDefinitions, callers: tuple[str, ...]) -> None:
        self._inliner, self._where, self._callers = inliner, where, callers
        self.before: list[ast.stmt] = []

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        found = self._inliner.call(node, self._where, self._callers)
        if found is None:
            return node
        self.before += found[0]
        return found[1]


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name(self._names.get(node.id, node.id), node.ctx), node)


def _names(function: ast.FunctionDef, call: ast.Call, number: int) -> tuple[dict[str, str], dict[str, ast.expr]]:
    """The new names of a function's parameters and variables, and the values that parameters begin with."""
    parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    stored = {each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    passed = dict(zip(parameters, call.args, strict=False))
    passed |= {each.arg: each.value for each in call.keywords if each.arg in parameters and each.arg is not None}
    names = {name: f"{name}_{number}" for name in {*parameters, *stored}}
    plain = {name: value.id for name, value in passed.items() if isinstance(value, ast.Name) and name not in stored}
    return names | plain, {name: value for name, value in passed.items() if name not in plain}


def _returns(body: Sequence[ast.stmt]) -> Iterator[ast.Return]:
    return (each for statement in body for each in ast.walk(statement) if isinstance(each, ast.Return))


def _placed(statement: ast.stmt) -> ast.stmt:
    return ast.fix_missing_locations(statement)
