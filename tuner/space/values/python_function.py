"""References to functions in Python files that a space names: parsing, checking and identifying them.

Nothing in this module runs these functions.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TypeVar

from tuner.classes import dataclass
from tuner.errors import SpaceError
from tuner.quoting import quoted, shown
from tuner.space import snapshot

T = TypeVar("T")
GENERATOR = "rng"  # the parameter of a fill function that gets a NumPy generator
MOST_TEXT = 1_000_000  # characters of a Python file; parsing them takes a second


@dataclass(frozen=True)
class PythonFunction:
    """The function `name` of a Python file. Only tuning and verification run it."""

    file: Path
    name: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.name}"


def parse(value: object, folder: Path) -> PythonFunction:
    """The function that text such as `check.py:expected` names; the file is relative to `folder`. Raises ValueError if
    `value` is not such text."""
    match = re.fullmatch(r"([^:\0]+\.py):([A-Za-z_]\w*)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{quoted(value)} does not name a function; write FILE.py:FUNCTION")
    return PythonFunction(folder / match[1], match[2])


def check(function: PythonFunction, allowed: Collection[str]) -> None:
    """Raise SpaceError unless the file can be read, is valid Python, and may define the function, and unless the
    `allowed` parameters are enough for a function whose text shows what it requires."""
    tree = read(function.file, ast.parse)
    names = set(_bound_names(tree.body))
    if function.name not in names and "*" not in names:
        defined = ", ".join(sorted(node.name for node in tree.body if isinstance(node, ast.FunctionDef)))
        hint = f"it defines {shown(defined)}" if defined else "it defines no functions"
        raise SpaceError(f"{shown(function.file)}: there is no function {function.name}; {hint}")
    if (definition := _definition(function, tree)) is not None:
        declared = definition.args
        positional = [*declared.posonlyargs, *declared.args]
        named = zip(declared.kwonlyargs, declared.kw_defaults, strict=True)
        required = [
            *positional[: len(positional) - len(declared.defaults)],
            *(argument for argument, default in named if default is None),
        ]
        for name in [each.arg for each in required if each.arg not in allowed]:
            origin = f"{shown(function.file)}:{definition.lineno}: {function.name}()"
            raise SpaceError(_refusal(origin, name, allowed))


def parameters(function: PythonFunction) -> list[str] | None:
    """The names of the function's parameters, read from the text of the file.

    None if it takes all that there is, by `**`, or if the text does not show: the file imports or computes it, or
    cannot be read.
    """
    try:
        definition = _definition(function, read(function.file, ast.parse))
    except SpaceError:
        return None
    if definition is None or definition.args.kwarg is not None:
        return None
    declared = definition.args
    return [each.arg for each in (*declared.posonlyargs, *declared.args, *declared.kwonlyargs)]


def _definition(function: PythonFunction, tree: ast.Module) -> ast.FunctionDef | None:
    """The statement that defines the function; None if the file imports, computes, decorates or redefines it."""
    binding = [each for each in tree.body if function.name in _bound_names([each])]
    if len(binding) != 1 or not isinstance(binding[0], ast.FunctionDef) or binding[0].decorator_list:
        return None
    return binding[0]


def requested(signature: inspect.Signature, origin: str, names: Collection[str]) -> list[str]:
    """Those of `names` that a function takes as parameters; all if it has `**`.

    Raises ValueError, which begins with `origin`, if it has any other required parameter.
    """
    parameters = signature.parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        wanted = list(names)
    else:
        wanted = [parameter.name for parameter in parameters if parameter.name in names]
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in parameters:
        if parameter.kind in several or parameter.name in names or parameter.default is not parameter.empty:
            continue
        raise ValueError(_refusal(origin, parameter.name, names))
    return wanted


def _refusal(origin: str, name: str, names: Collection[str]) -> str:
    return (
        f"{origin} asks for {shown(name)}; it may ask for {shown(', '.join(names))}, and for no tuning parameter: all "
        "configurations must compute the same from the same inputs"
    )


def closure(file: Path) -> list[Path]:
    """The file, then the files in its folder that it imports, directly or indirectly, sorted.

    Imports are read from the text of the files. Raises SpaceError if a file cannot be read or is not valid Python.
    """
    visited, queue = dict[Path, None](), [file]
    while queue:
        path = queue.pop()
        if path not in visited:
            visited[path] = None
            queue += [module for name in _imported(read(path, ast.parse)) for module in _modules(file.parent, name)]
    return [file, *sorted(path for path in visited if path != file)]


def text_of(file: Path) -> str:
    """The text of a Python file. Raises SpaceError."""
    try:
        return snapshot.read_text(file, MOST_TEXT)
    except OSError as error:
        raise SpaceError(f"{shown(file)}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpaceError(f"{shown(file)}: not a text file in UTF-8") from None


def read(file: Path, parse: Callable[[str], T]) -> T:
    """What `parse` makes of the text of a Python file. Raises SpaceError if that is not Python."""
    text = text_of(file)
    try:
        return parse(text)
    except SyntaxError as error:
        raise SpaceError(f"{shown(file)}:{error.lineno or 1}: not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # a NUL, or nested too deeply
        reason = shown(error) or "nested too deeply"
        raise SpaceError(f"{shown(file)}: not Python: {reason}") from None


def _imported(tree: ast.Module) -> Iterator[str]:
    """The names of imported modules, from import statements at any nesting level and from calls such as
    `importlib.import_module("check")`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def _modules(folder: Path, name: str) -> list[Path]:
    """The files in `folder` that an import of `name` may run: a module, or every module of a package."""
    top = name.partition(".")[0]
    module, package = folder / f"{top}.py", folder / top
    files = snapshot.once(("modules", package), lambda: sorted(package.rglob("*.py")) if package.is_dir() else None)
    if files is None:
        return [module] if snapshot.stamp(module) else []
    return files


def _bound_names(statements: list[ast.stmt]) -> Iterator[str]:
    """The names that module-level statements may bind, also in branches; `*` if a star import may bind any name."""
    queue: list[ast.AST] = [*statements]
    while queue:
        match queue.pop():
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
            case ast.Name(id=name):
                yield name
            case node:
                queue += ast.iter_child_nodes(node)
