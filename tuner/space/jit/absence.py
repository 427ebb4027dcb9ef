"""Which arguments of a kernel may be left out: its decorators compare them with None, or it reads them only where a
constant is true."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Absent:
    """`tested`: the arguments that are compared with None, by the constant that says whether each is there.

    `flagged`: the arguments that are read only where a constant is true, by the constant.
    `all`: both.
    """

    tested: dict[str, str]
    flagged: dict[str, frozenset[str]]
    all: frozenset[str]


def absent(node: ast.FunctionDef) -> Absent:
    """What of a kernel may be left out."""
    tested = dict(_tested(node))
    names = frozenset(each.arg for each in (*node.args.args, *node.args.kwonlyargs))
    constants = {
        a.arg
        for a in (*node.args.args, *node.args.kwonlyargs)
        if a.annotation is not None and "constexpr" in ast.unparse(a.annotation)
    }
    flags = {*tested, *constants}
    outside = set(_outside(node.body, flags))
    inside: dict[str, set[str]] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.If) and (guarded := _branches(each, flags)) is not None:
            read = {n.id for part in guarded[1] for n in ast.walk(part) if isinstance(n, ast.Name)}
            inside.setdefault(guarded[0], set()).update(read & names - outside - constants)
    flagged = {flag: frozenset(found) for flag, found in inside.items() if found}
    return Absent(tested, flagged, frozenset(tested.values()).union(*flagged.values()))


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


def _branches(node: ast.If, flags: Collection[str]) -> tuple[str, list[ast.stmt], list[ast.stmt]] | None:
    """The flag that a branch tests, the statements that run where it is true, and those that run where it is false."""
    match node.test:
        case ast.Name(id=name) if name in flags:
            return name, node.body, node.orelse
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)) if name in flags:
            return name, node.orelse, node.body
    return None


def _outside(body: list[ast.stmt], flags: Collection[str]) -> Iterator[str]:
    """The names that are read where no flag need be true."""
    for each in body:
        if isinstance(each, ast.If) and (branches := _branches(each, flags)) is not None:
            yield from _outside(branches[2], flags)
        elif isinstance(each, ast.If | ast.For | ast.While):
            head = each.iter if isinstance(each, ast.For) else each.test
            yield from (n.id for n in ast.walk(head) if isinstance(n, ast.Name))
            yield from _outside([*each.body, *each.orelse], flags)
        else:
            yield from (n.id for n in ast.walk(each) if isinstance(n, ast.Name))
