"""What the names of a kernel in a Python file are used for: bounds, divisors, extents of blocks, conditions, types."""

from __future__ import annotations

import ast

from tuner.drafting.python.syntax import last_word, names_in

_BLOCKED = ("arange", "range", "static_range", "zeros", "full", "cdiv", "reshape", "view", "broadcast_to")  # of Triton


def compared(node: ast.FunctionDef) -> set[str]:
    """The names in comparisons, and in the first argument of cdiv and the bounds of range."""
    found = set[str]()
    for each in ast.walk(node):
        within: list[ast.expr] = []
        if isinstance(each, ast.Compare):
            within = [each.left, *each.comparators]
        elif isinstance(each, ast.Call):
            name = last_word(each.func)
            within = each.args[:1] if name == "cdiv" else each.args if name == "range" else []
        found |= names_in(*within)
    return found


def types(node: ast.FunctionDef) -> set[str]:
    """The names to which something is converted: `x.to(KIND)`, `dtype=KIND`."""
    found = set[str]()
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Name(id=name), *_]):
                found.add(name)
            case ast.keyword(arg="dtype", value=ast.Name(id=name)):
                found.add(name)
    return found


def texts(node: ast.FunctionDef) -> dict[str, tuple[str, ...]]:
    """The texts with which each name is compared."""
    found: dict[str, tuple[str, ...]] = {}
    for each in ast.walk(node):
        match each:
            case ast.Compare(left=ast.Name(id=name), comparators=[ast.Constant(value=str(text))]):
                found[name] = (*found.get(name, ()), text)
    return {name: tuple(dict.fromkeys(texts)) for name, texts in found.items()}


def cases(node: ast.FunctionDef) -> dict[str, tuple[int, ...]]:
    """The whole numbers with which each name is compared by == or !=, as numbers of cases are."""
    found: dict[str, tuple[int, ...]] = {}
    for each in ast.walk(node):
        match each:
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=int(number))]
            ) if not isinstance(number, bool):
                found[name] = (*found.get(name, ()), number)
    return {name: tuple(dict.fromkeys(numbers)) for name, numbers in found.items()}


def real(node: ast.FunctionDef) -> set[str]:
    """The parameters that their annotations call real numbers: `scale: float`."""
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return {a.arg for a in arguments if a.annotation is not None and last_word(a.annotation).startswith("float")}


def divisors(node: ast.FunctionDef) -> set[str]:
    """The names by which whole numbers are divided: `row // groups`, `i % width`."""
    found = set[str]()
    for each in ast.walk(node):
        match each:
            case ast.BinOp(op=ast.FloorDiv() | ast.Mod(), right=ast.Name(id=name)):
                found.add(name)
    return found


def extents(node: ast.FunctionDef) -> set[str]:
    """The names in extents of blocks, and those that other functions get as they are, which may have blocks."""
    found, assigned = set[str](), dict[str, list[ast.AST]]()
    passed = set[str]()
    for each in ast.walk(node):
        match each:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                assigned.setdefault(name, []).append(value)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args) if name in _BLOCKED:
                found |= names_in(*(args[:1] if name == "full" else args))
            case ast.Call(func=ast.Name(), args=args, keywords=keywords):
                passed |= {n.id for n in (*args, *(k.value for k in keywords)) if isinstance(n, ast.Name)}
    queue = [*found]
    while queue:
        names = names_in(*assigned.pop(queue.pop(), ())) - found
        queue += names
        found |= names
    return found | passed


def stages(node: ast.FunctionDef) -> set[str]:
    """The names of numbers of stages: `tl.range(0, n, num_stages=STAGES)`."""
    keywords = [each for each in ast.walk(node) if isinstance(each, ast.keyword) and each.arg == "num_stages"]
    return {each.value.id for each in keywords if isinstance(each.value, ast.Name)}


def conditions(node: ast.FunctionDef) -> set[str]:
    """The names that are conditions by themselves: `if REVERSE`, `a if not LAST else b`."""
    found = set[str]()
    tests = [each.test for each in ast.walk(node) if isinstance(each, ast.If | ast.IfExp)]
    while tests:
        match tests.pop():
            case ast.Name(id=name):
                found.add(name)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                tests.append(operand)
            case ast.BoolOp(values=values):
                tests += values
    return found


def bounds(node: ast.FunctionDef) -> set[str]:
    """The names that something is compared with which is no literal, by < or >: `columns < n`."""
    found = set[str]()
    for each in ast.walk(node):
        match each:
            case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE()], comparators=[ast.Name(id=name)]) if not isinstance(
                left, ast.Constant
            ):
                found.add(name)
    return found
