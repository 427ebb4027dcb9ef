"""What a Python file defines at its top level, and what it imports from other files of its program."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.drafting.python.syntax import mutated, on_nvidia
from tuner.errors import TunerError
from tuner.space.values import python_function

MOST_IMPORTS = 4  # files between a name and its definition
MOST_FOLDERS = 8  # above a file, in which a module that it imports may be


class PythonDefinitions:
    """The definitions of a file, also those in branches: functions, and the values of variables."""

    def __init__(self, tree: ast.Module, file: Path) -> None:
        self._file, self._found = file, dict[str, list[ast.AST]]()
        self._imports = dict[str, tuple[str, ast.ImportFrom]]()
        self._changed = set[str]()
        for node in _statements(tree.body):
            self._changed |= mutated(node) if isinstance(node, ast.Expr | ast.Assign | ast.For | ast.While) else set()
            match node:
                case ast.AugAssign(target=ast.Name(id=name)):
                    self._changed.add(name)
                case ast.FunctionDef(name=name):
                    self._found.setdefault(name, []).append(node)
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        if isinstance(target, ast.Name):
                            self._found.setdefault(target.id, []).append(value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self._found.setdefault(name, []).append(value)
                case ast.ImportFrom(names=names):
                    self._imports |= {each.asname or each.name: (each.name, node) for each in names}

    def is_changed(self, found: Sequence[ast.AST]) -> bool:
        """Whether statements of the file change the variable with these definitions in place."""
        return any(found is self._found.get(name) for name in self._changed)

    def of(self, name: str, depth: int = 0) -> tuple[PythonDefinitions, Sequence[ast.AST]]:
        """The definitions of a name, with those of the file that has them; none if no file of the program has any."""
        if name in self._found or name not in self._imports or depth == MOST_IMPORTS:
            return self, self._found.get(name, ())
        own, imported = self._imports[name]
        for file in _files(self._file, imported):
            try:
                there = PythonDefinitions(ast.parse(python_function.text_of(file)), file)
            except (TunerError, SyntaxError, ValueError):
                continue
            return there.of(own, depth + 1)
        return self, ()


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a file, also those in branches."""
    for each in body:
        yield each
        if isinstance(each, ast.If):
            is_first = on_nvidia(each.test)
            yield from _statements(each.body if is_first is not False else [])
            yield from _statements(each.orelse if is_first is not True else [])
        elif isinstance(each, ast.Try):
            yield from _statements([*each.body, *(s for handler in each.handlers for s in handler.body)])


def _files(file: Path, imported: ast.ImportFrom) -> Iterator[Path]:
    """The files that a module may be in: relative to the importing file, or in a folder above it."""
    above = [*file.absolute().parents]
    folders = above[imported.level - 1 : imported.level] if imported.level else above[:MOST_FOLDERS]
    for folder in folders:
        module = folder.joinpath(*filter(None, (imported.module or "").split(".")))
        yield from (each for each in (module.with_name(f"{module.name}.py"), module / "__init__.py") if each.is_file())
