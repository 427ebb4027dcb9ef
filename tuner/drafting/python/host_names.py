"""What the names of the code around a launch stand for when it launches a kernel."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any

from tuner.drafting.python.syntax import filled, names_in

_COMPOUND = (ast.FunctionDef, ast.If, ast.With, ast.For, ast.While, ast.Try)


class HostNames:
    """The expressions that the names of a function stand for at one of its lines.

    A condition is decided by the defaults of the function, and by what is None. What only one of two other branches
    says is not told, nor what a loop or a method changes.
    """

    def __init__(self, around: ast.AST, line: int, left_out: Collection[str]) -> None:
        """`left_out` are the expressions that are None, as the kernel's argument is left out."""
        self._line, self._left_out = line, left_out
        self._defaults = defaults(around)
        self._known: dict[str, ast.expr] = {}
        self._changed = set[str]()
        self._run(getattr(around, "body", []))

    def value(self, node: ast.expr) -> ast.expr:
        """What an expression stands for: the value of a name, the alternative that a condition decides."""
        if isinstance(node, ast.Name):
            node = self._known.get(node.id, node)
        if isinstance(node, ast.IfExp) and (is_true := self._decided(node.test)) is not None:
            node = node.body if is_true else node.orelse
        return node

    def _decided(self, test: ast.expr) -> bool | None:
        """Whether a condition is true in a call with the defaults; None if these do not tell."""
        match test:
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as how], comparators=[ast.Constant(value=None)]):
                is_none = ast.unparse(left) in self._left_out
                return is_none == isinstance(how, ast.Is)
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Eq() | ast.NotEq() as how], comparators=[ast.Constant(value=value)]
            ) if name in self._usual:
                return bool(self._usual[name] == value) == isinstance(how, ast.Eq)
            case ast.Name(id=name) if isinstance(self._usual.get(name), bool):
                return bool(self._usual[name])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._decided(operand)
                return None if inner is None else not inner
        return None

    @property
    def _usual(self) -> dict[str, Any]:
        """The literal defaults of the parameters that are as they were passed."""
        constants = {n: v.value for n, v in self._defaults.items() if isinstance(v, ast.Constant)}
        return {name: value for name, value in constants.items() if name not in self._changed}

    def _run(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            reached = statement.lineno if isinstance(statement, _COMPOUND) else (statement.end_lineno or 0) + 1
            if reached > self._line:
                return
            match statement:
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(
                    values
                ):
                    self._assign([*zip(targets, values, strict=True)])
                case ast.Assign(targets=targets, value=value):
                    self._assign([(target, value) for target in targets])
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign([(target, value)])
                case ast.AugAssign(target=ast.Name(id=name) as target, op=how, value=value):
                    self._assign([(target, ast.BinOp(ast.Name(name, ast.Load()), how, value))])
                case ast.FunctionDef(name=name, body=[*texts, ast.Return(value=ast.expr() as value)]) if all(
                    isinstance(each, ast.Expr) for each in texts
                ):
                    self._known[name] = ast.Lambda(statement.args, value)
                case ast.If():
                    self._branch(statement)
                case ast.With() | ast.For() | ast.While() | ast.Try():
                    self._run(statement.body)

    def _branch(self, statement: ast.If) -> None:
        second, end = statement.orelse, statement.end_lineno or 0
        is_first = self._decided(statement.test)
        if self._line <= end:  # the launch is in one of them
            is_first = not second or self._line < second[0].lineno
        if is_first is not None:
            self._run(statement.body if is_first else second)
            return
        before = dict(self._known)
        self._run(statement.body)
        found, self._known = self._known, before
        self._run(second)
        same = {name: value for name, value in self._known.items() if name in found}
        self._known = {name: value for name, value in same.items() if ast.dump(value) == ast.dump(found[name])}

    def _assign(self, pairs: Sequence[tuple[ast.expr, ast.expr]]) -> None:
        """Assign to several targets at once: none of the values sees a new one."""
        before = dict(self._known)
        for target, value in pairs:
            names = names_in(target)
            self._changed.update(names)
            for name in names:
                self._known.pop(name, None)
            if not isinstance(target, ast.Name):
                continue
            if target.id not in names_in(value):
                self._known[target.id] = value
            elif target.id in before:
                self._known[target.id] = filled(value, {target.id: before[target.id]})


def defaults(function: ast.AST) -> dict[str, ast.expr]:
    """The defaults of the parameters of a function; of nothing else."""
    if not isinstance(function, ast.FunctionDef):
        return {}
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    found = {each.arg: value for each, value in zip(plain[::-1], arguments.defaults[::-1], strict=False)}
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found | {each.arg: value for each, value in pairs if value is not None}
