"""Which arguments of a kernel may be left out: its decorators compare them with None, or it reads them only where a
constant is true."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence

from tuner.classes import dataclass
from tuner.space.jit import part


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
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    names = frozenset(each.arg for each in arguments)
    constants = {each.arg for each in arguments if part.is_constexpr(each)}
    flags = {*tested, *constants}
    outside = set(_outside(node.body, flags))
    inside: dict[str, set[str]] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.If | ast.IfExp) and (branches := _branches(each, flags)) is not None:
            read = set(_outside(branches[1], flags))
            inside.setdefault(branches[0], set()).update(read & names - outside - constants)
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


def _branches(
    node: ast.If | ast.IfExp, flags: Collection[str]
) -> tuple[str, Sequence[ast.AST], Sequence[ast.AST]] | None:
    """The flag that a branch tests, what runs where it is true, and what runs where it is false."""
    first, second = (node.body, node.orelse) if isinstance(node, ast.If) else ([node.body], [node.orelse])
    match node.test:
        case ast.Name(id=name) if name in flags:
            return name, first, second
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)) if name in flags:
            return name, second, first
    return None


def _outside(nodes: Iterable[ast.AST], flags: Collection[str]) -> Iterator[str]:
    """The names that are read where no flag need be true."""
    for each in nodes:
        if isinstance(each, ast.If | ast.IfExp) and (branches := _branches(each, flags)) is not None:
            yield from _outside(branches[2], flags)
        elif isinstance(each, ast.Name):
            yield each.id
        else:
            yield from _outside(ast.iter_child_nodes(each), flags)
