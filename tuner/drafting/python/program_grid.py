"""Guesses a grid from how a kernel numbers its programs: `program_id(0) * BLOCK + arange(0, BLOCK)`, below a bound."""

from __future__ import annotations

import ast
from collections.abc import Mapping


def guessed(function: ast.FunctionDef) -> list[str] | None:
    """The number of programs along each axis as expressions; None if one of the axes that are used is not told."""
    assigned = {
        node.targets[0].id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    }
    axes = {axis for node in ast.walk(function) if (axis := _axis(node, {})) is not None}
    bounds: dict[str, str] = {}  # by the name of something that is compared
    for node in ast.walk(function):
        match node:
            case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Name(id=bound)]):
                bounds.setdefault(_compared(left, assigned), bound)
    found: dict[int, str] = {}
    for name, value in assigned.items():
        match value:
            case ast.BinOp(left=ast.BinOp(left=number, op=ast.Mult(), right=ast.Name(id=block)), op=ast.Add()) if (
                _is_range(value.right, block) and name in bounds and (axis := _axis(number, assigned)) is not None
            ):
                found.setdefault(axis, f"ceil_div({bounds[name]}, {block})")
    if not axes or axes != {*range(len(axes))} or not axes <= found.keys():
        return None
    return [found[axis] for axis in sorted(axes)]


def _axis(node: ast.AST, assigned: Mapping[str, ast.expr]) -> int | None:
    """The axis along which an expression is a program's number."""
    if isinstance(node, ast.Name) and node.id in assigned:
        node = assigned[node.id]
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
        node = node.func.value
    match node:
        case ast.Call(func=ast.Attribute(attr="program_id"), args=[ast.Constant(value=int(axis))]):
            return axis
        case ast.Call(
            func=ast.Attribute(attr="program_id"), keywords=[ast.keyword(value=ast.Constant(value=int(axis)))]
        ):
            return axis
    return None


def _is_range(node: ast.expr, block: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="arange"), args=[ast.Constant(value=0), ast.Name(id=name)]):
            return name == block
    return False


def _compared(node: ast.expr, assigned: Mapping[str, ast.expr]) -> str:
    """The name that is compared, without its axes: `i[:, None]` is i, also under another name."""
    while True:
        match node:
            case ast.Subscript(value=value):
                node = value
            case ast.Name(id=name) if isinstance(assigned.get(name), ast.Subscript):
                node = assigned[name]
                assigned = {other: value for other, value in assigned.items() if other != name}
            case _:
                return node.id if isinstance(node, ast.Name) else ""
