"""Reads how the code around a kernel in a Python file launches it: `kernel[grid](x, n, BLOCK=128)`."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.classes import dataclass
from tuner.drafting.python.host_names import HostNames, defaults
from tuner.drafting.python.syntax import names_in, translated
from tuner.errors import TunerError
from tuner.space.values import python_function

MOST_FILES = 400  # beside a kernel's that are looked at


@dataclass(frozen=True)
class PythonLaunch:
    """A launch of a kernel: its grid, and what is passed for each parameter. `around` is the function that has it, in
    `line`."""

    grid: ast.expr
    passed: Mapping[str, ast.expr]
    around: ast.AST
    line: int

    def literal(self, name: str) -> Any:
        """The literal that is passed for a parameter: one that is written there, or the default of the function around
        the launch; None if it is anything else."""
        node = self.passed.get(name)
        if isinstance(node, ast.Name):
            node = defaults(self.around).get(node.id)
        try:
            return None if node is None else ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            return None

    def real(self, name: str) -> float | None:
        """The real number that is passed for a parameter; None if it is anything else."""
        number = self.literal(name)
        return number if isinstance(number, float) and math.isfinite(number) else None


def of(tree: ast.Module, kernel: str, parameters: Sequence[str], file: Path) -> PythonLaunch | None:
    """The first launch of a kernel in its file, whose content is `tree`, else in a file beside it."""
    every = (
        each
        for beside in (tree, *_beside(kernel, file))
        for name in (kernel, *_wrapped(beside, kernel))
        for each in _launches(beside, beside, name, parameters)
    )
    return next(every, None)


def _wrapped(tree: ast.Module, kernel: str) -> Iterator[str]:
    """The names that a kernel gets by a call of a decorator: `tuned = triton.autotune(configs, key)(kernel)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Call(), args=[ast.Name(id=given)])
            ) if given == kernel != name:
                yield name


def _beside(kernel: str, file: Path) -> Iterator[ast.Module]:
    """The files beside a kernel's that import it and may launch it."""
    imported = re.compile(rf"^[ \t]*from\s[^\n]*\b{re.escape(file.stem)}\s+import\b", re.MULTILINE)
    for other in sorted(file.absolute().parent.glob("*.py"))[:MOST_FILES]:
        try:
            text = python_function.text_of(other) if other.name != file.name else ""
            if f"{kernel}[" in text and imported.search(text):
                yield ast.parse(text)
        except (TunerError, SyntaxError, ValueError):
            continue


def _launches(node: ast.AST, around: ast.AST, kernel: str, parameters: Sequence[str]) -> Iterator[PythonLaunch]:
    match node:
        case ast.Call(func=ast.Subscript(value=launched, slice=grid), args=args) if _is(launched, kernel):
            whole = next((n for n, each in enumerate(args) if isinstance(each, ast.Starred)), len(args))
            passed = dict(zip(parameters, args[:whole], strict=False))
            passed |= {k.arg: k.value for k in node.keywords if k.arg is not None and k.arg in parameters}
            yield PythonLaunch(grid, passed, around, node.lineno)
    for child in ast.iter_child_nodes(node):
        inner = child if isinstance(child, ast.FunctionDef) else around
        yield from _launches(child, inner, kernel, parameters)


def _is(node: ast.expr, kernel: str) -> bool:
    """Whether something that is launched is the kernel, or the kernel wrapped, as by `wrap_triton`."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return isinstance(node, ast.Name) and node.id == kernel


class PythonGrid:
    """The grid of a launch, and what else the host computes, in the words of its kernel."""

    def __init__(self, launch: PythonLaunch, left_out: Collection[str]) -> None:
        """`left_out` are the parameters that are left out."""
        self._launch = launch
        self._known = {ast.unparse(value): name for name, value in launch.passed.items()}
        absent = {ast.unparse(value) for name, value in launch.passed.items() if name in left_out}
        usual = defaults(launch.around)
        absent |= {n for n, v in usual.items() if isinstance(v, ast.Constant) and v.value is None} - self._known.keys()
        self.value = HostNames(launch.around, launch.line, absent).value
        for given, name in [*self._known.items()]:  # another name of what is passed: `HEAD = dim`
            passed, seen = launch.passed[name], set[str]()  # `src, dst = dst, src` leads back to src
            while (
                isinstance(passed, ast.Name)
                and passed.id not in seen
                and isinstance(other := self.value(passed), ast.Name)
                and other is not passed
            ):
                seen.add(passed.id)
                passed = other
                self._known.setdefault(other.id, self._known[given])
        for node in ast.walk(launch.around):  # of `b, n = x.shape`, x.shape[1] is n
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Attribute(attr="shape", value=array)):
                    for axis, each in enumerate(names):
                        if (word := self._known.get(ast.unparse(each))) is not None:
                            for number in (axis, axis - len(names)):
                                self._known.setdefault(f"{ast.unparse(array)}.shape[{number}]", word)
                                self._known.setdefault(f"{ast.unparse(array)}.size({number})", word)

    @property
    def text(self) -> str:
        """The host's grid, as it is written."""
        return ast.unparse(self.value(self._launch.grid))

    def extents(self, sizes: Collection[str]) -> list[str] | None:
        """The number of blocks along each axis as expressions of a space; None if one is none. `sizes` are those of the
        draft, of which the kernel may get no number."""
        grid, meta = self.value(self._launch.grid), ""
        if isinstance(grid, ast.Lambda):
            meta, grid = grid.args.args[0].arg if grid.args.args else "", grid.body
        axes = grid.elts if isinstance(grid, ast.Tuple | ast.List) else [grid]
        own = {name: name for name in sizes if name not in self._launch.passed} | self._known
        found = [self._translated(axis, self._known, meta) or self._translated(axis, own, meta) for axis in axes]
        return None if None in found else [each for each in found if each is not None]

    def computed(self, name: str) -> str | None:
        """What is passed for a parameter as an expression of other parameters; None if it is something else."""
        value = self.value(self._launch.passed[name])
        if value is self._launch.passed[name] and not isinstance(value, ast.Call | ast.BinOp):
            return None
        own = ast.unparse(self._launch.passed[name])
        text = self._translated(
            value, {text: each for text, each in self._known.items() if text != own and each != name}
        )
        return text if text is not None and names_in(ast.parse(text)) else None

    def word(self, node: ast.expr) -> str | None:
        """An extent in the words of the kernel; a name of the host alone stays as it is, unless the kernel has another
        number of that name. None for anything else."""
        if (text := self._translated(node, self._known)) is not None:
            return text
        while isinstance(node, ast.Name) and isinstance(value := self.value(node), ast.Name) and value is not node:
            node = value  # another name of it
        is_own = isinstance(node, ast.Name) and node.id not in self._launch.passed
        return node.id if is_own and isinstance(node, ast.Name) else None

    def _translated(self, node: ast.expr, known: Mapping[str, str], meta: str = "") -> str | None:
        return translated(node, known, meta, self.value)
