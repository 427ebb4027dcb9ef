"""Which arguments of a kernel may be left out, since its decorators test whether they are None."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Absent:
    """`tested`: the arguments that are compared with None, by the constant that says whether each is there.

    `all`: they, and the arguments that are read only where such a constant is true.
    """

    tested: dict[str, str]
    all: frozenset[str]


def absent(node: ast.FunctionDef) -> Absent:
    """What of a kernel may be left out."""
    tested = dict(_tested(node))
    names = frozenset(each.arg for each in node.args.args)
    inside = {n for each in ast.walk(node) for n in _guarded(each, tested)} & names
    outside = set(_outside(node.body, tested))
    return Absent(tested, frozenset(tested.values()) | inside - outside)


def _tested(node: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """The constants of `@triton.heuristics` that say whether an argument is there, each with the argument."""
    for call in node.decorator_list:
        table = call.args[0] if isinstance(call, ast.Call) and call.args else None
        for key, value in zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ():
            match key, value:
                case (
                    ast.Constant(value=str(constant)),
                    ast.Lambda(
                        body=ast.Compare(
                            left=ast.Subscript(slice=ast.Constant(value=str(name))),
                            ops=[ast.IsNot()],
                            comparators=[ast.Constant(value=None)],
                        )
                    ),
                ):
                    yield constant, name


def _guarded(node: ast.AST, tested: dict[str, str]) -> Iterator[str]:
    """The names that a branch reads which is taken only if an argument is there."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id in tested:
        yield from (n.id for each in node.body for n in ast.walk(each) if isinstance(n, ast.Name))


def _outside(body: list[ast.stmt], tested: dict[str, str]) -> Iterator[str]:
    """The names that are read outside of such branches."""
    for each in body:
        if isinstance(each, ast.If) and isinstance(each.test, ast.Name) and each.test.id in tested:
            yield from _outside(each.orelse, tested)
        elif isinstance(each, ast.If | ast.For | ast.While):
            head = each.iter if isinstance(each, ast.For) else each.test
            yield from (n.id for n in ast.walk(head) if isinstance(n, ast.Name))
            yield from _outside([*each.body, *each.orelse], tested)
        else:
            yield from (n.id for n in ast.walk(each) if isinstance(n, ast.Name))
