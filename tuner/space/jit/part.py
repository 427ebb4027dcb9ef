"""The part of a Python file that a function needs: the statements at the top level that it reaches by name.

A script around a kernel, which may need a GPU, is thus neither run by the compiler nor part of the kernel's identity.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence

from tuner.classes import dataclass

MOST_CACHED = 256
EVERYTHING = "*"  # the name for all statements
_ALWAYS = re.compile(r"from\s+__future__\b|.*\bsys\.path\b", re.DOTALL)
_PROFILED = ("repr", "launch_metadata")
_FOR_PROFILERS = re.compile(rf"\b(?:{'|'.join(_PROFILED)})\s*=")
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Imported:
    """An import statement: the dots before the module's name, that name, and the names taken from it; none if the
    module itself is meant."""

    level: int
    module: str
    names: frozenset[str]


@dataclass(frozen=True)
class Part:
    """A part of a file.

    text: the file, with all other lines blank.
    code: its statements without comments and blank lines.
    imports: its import statements.
    """

    text: str
    code: str
    imports: tuple[Imported, ...]


@functools.lru_cache(maxsize=MOST_CACHED)
def of(text: str, names: frozenset[str], kernel: str = "") -> Part:
    """The part of the file `text` that defines `names`. Raises SyntaxError and ValueError.

    kernel: a function of which only the decorator that compiles it counts.
    """
    text = _without_names_of_binaries(text)
    lines, tree = text.splitlines(), ast.parse(text)
    hidden = [line for node in _defined(tree.body, kernel) for each in _others(node) for line in _lines(each)]
    statements = [each for each in tree.body if not _is_text(each)]
    kept = {line for each in _reached(statements, names, kernel) for line in _lines(each)}.difference(hidden)
    shown = "\n".join(line if number in kept else "" for number, line in enumerate(lines, start=1))
    return Part(shown, _without_comments(shown), tuple(_imports(ast.parse(shown))))


def _without_names_of_binaries(text: str) -> str:
    """The text of a file whose `@triton.jit(repr=..., launch_metadata=...)` lack these. They describe binaries
    to profilers, often by modules that need torch or a GPU. All lines keep their numbers."""
    if not _FOR_PROFILERS.search(text):
        return text
    lines = text.splitlines()
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    for each in (decorator for function in functions for decorator in function.decorator_list if is_jit(decorator)):
        if isinstance(each, ast.Call) and any(keyword.arg in _PROFILED for keyword in each.keywords):
            kept = [keyword for keyword in each.keywords if keyword.arg not in _PROFILED]
            plain = ast.Call(each.func, each.args, kept) if each.args or kept else each.func
            places = range(each.lineno - 1, each.end_lineno or each.lineno)
            lines[places[0]] = f"{' ' * (each.col_offset - 1)}@{ast.unparse(plain)}"
            for place in places[1:]:
                lines[place] = ""
    return "\n".join(lines)


def is_jit(decorator: ast.expr) -> bool:
    """Whether a decorator compiles its function: `@triton.jit`, `@jit(...)`."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "jit"


def is_constexpr(argument: ast.arg) -> bool:
    """Whether an argument is a constant of the compiler: `BLOCK: tl.constexpr`."""
    return argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)


def names_read(function: ast.FunctionDef) -> set[str]:
    """The names that the body of a function reads from outside of it."""
    return _read(ast.Module([ast.FunctionDef(**{**vars(function), "decorator_list": []})], []), "")


def _others(function: ast.FunctionDef) -> list[ast.expr]:
    """The decorators that do not compile a function, such as `@triton.autotune(...)`."""
    return [each for each in function.decorator_list if not is_jit(each)]


def _defined(body: Sequence[ast.stmt], name: str) -> Iterator[ast.FunctionDef]:
    """The functions of this name at the top level, also in branches."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            if statement.name == name:
                yield statement
        elif not isinstance(statement, ast.ClassDef):
            yield from _defined([each for each in ast.walk(statement) if isinstance(each, ast.FunctionDef)], name)


def _lines(node: ast.stmt | ast.expr) -> range:
    """The numbers of a node's lines, those of its decorators included."""
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is only a text, such as the documentation of a file."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _reached(statements: Sequence[ast.stmt], names: Iterable[str], kernel: str) -> list[ast.stmt]:
    """The statements that define `names` and all names that those read."""
    bound = [frozenset(_bound(each)) for each in statements]
    chosen = {number for number, each in enumerate(statements) if _ALWAYS.match(ast.unparse(each))}
    queue, visited = [*names, *(name for number in chosen for name in _read(statements[number], kernel))], set[str]()
    while queue:
        name = queue.pop()
        if name in visited:
            continue
        visited.add(name)
        for number, own in enumerate(bound):
            if number not in chosen and (name in own or name == EVERYTHING or EVERYTHING in own):
                chosen.add(number)
                queue += _read(statements[number], kernel)
    return [each for number, each in enumerate(statements) if number in chosen]


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a statement gives a value or changes; EVERYTHING if it may be any."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.Attribute(value=value, ctx=ast.Store()) | ast.Subscript(value=value, ctx=ast.Store()):
            yield from (each.id for each in ast.walk(value) if isinstance(each, ast.Name))
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _bound(child)


def _read(node: ast.AST, kernel: str) -> set[str]:
    """The names that a node reads from outside of its functions."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, _Function):
        arguments = node.args
        own = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        own |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
        body = node.body if isinstance(node.body, list) else [node.body]
        given = {name for each in body for name in _bound(each)}
        shared = {name for each in body for n in ast.walk(each) if isinstance(n, ast.Global) for name in n.names}
        inner = {name for each in body for name in _read(each, kernel)} - ((own | given) - shared)
        return inner | {name for each in _around(node, kernel) for name in _read(each, kernel)}
    return {name for child in ast.iter_child_nodes(node) for name in _read(child, kernel)}


def _around(function: _Function, kernel: str) -> list[ast.AST]:
    """What of a function is evaluated outside of it: decorators, defaults, annotations."""
    nodes: list[ast.AST] = [function.args]
    if not isinstance(function, ast.Lambda):
        is_kernel = function.name == kernel
        nodes += [each for each in function.decorator_list if not is_kernel or is_jit(each)]
        nodes += [function.returns] if function.returns is not None else []
    return nodes


def _imports(tree: ast.Module) -> Iterator[Imported]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (Imported(0, alias.name, frozenset()) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                yield Imported(level, module or "", frozenset(alias.name for alias in names))


def _without_comments(text: str) -> str:
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())
