"""Reads how the code around a kernel in a Python file launches it: `kernel[grid](x, n, BLOCK=128)`."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tuner.drafting.python.configs import CALLS


@dataclass(frozen=True)
class PythonLaunch:
    """A launch of a kernel: its grid, and what is passed for each parameter. `around` is the function that has it."""

    grid: ast.expr
    passed: Mapping[str, ast.expr]
    around: ast.AST

    def real(self, name: str) -> float | None:
        """The real number that is passed for a parameter: one that is written there, or the default of the function
        around the launch; None if it is anything else."""
        node = self.passed.get(name)
        if isinstance(node, ast.Name) and isinstance(self.around, ast.FunctionDef):
            node = _defaults(self.around.args).get(node.id)
        try:
            number = None if node is None else ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            return None
        return number if isinstance(number, float) and math.isfinite(number) else None


def _defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    plain, defaults = [*arguments.posonlyargs, *arguments.args], arguments.defaults
    found = {each.arg: value for each, value in zip(plain[::-1], defaults[::-1], strict=False)}
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found | {each.arg: value for each, value in pairs if value is not None}


def of(tree: ast.Module, kernel: str, parameters: Sequence[str]) -> PythonLaunch | None:
    """The first launch of a kernel in its file."""
    return next(_launches(tree, tree, kernel, parameters), None)


def _launches(node: ast.AST, around: ast.AST, kernel: str, parameters: Sequence[str]) -> Iterator[PythonLaunch]:
    match node:
        case ast.Call(func=ast.Subscript(value=launched, slice=grid), args=args) if _is(launched, kernel):
            whole = next((n for n, each in enumerate(args) if isinstance(each, ast.Starred)), len(args))
            passed = dict(zip(parameters, args[:whole], strict=False))
            passed |= {k.arg: k.value for k in node.keywords if k.arg is not None and k.arg in parameters}
            yield PythonLaunch(grid, passed, around)
    for child in ast.iter_child_nodes(node):
        inner = child if isinstance(child, ast.FunctionDef) else around
        yield from _launches(child, inner, kernel, parameters)


def _is(node: ast.expr, kernel: str) -> bool:
    """Whether something that is launched is the kernel, or the kernel wrapped, as by `wrap_triton`."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return isinstance(node, ast.Name) and node.id == kernel


class PythonGrid:
    """The grid of a launch in the words of its kernel."""

    def __init__(self, launch: PythonLaunch) -> None:
        self._launch = launch
        self._known = {ast.unparse(value): name for name, value in launch.passed.items()}

    def extents(self) -> list[str] | None:
        """The number of blocks along each axis as expressions of a space; None if one is none."""
        grid, meta = self.value(self._launch.grid), ""
        if isinstance(grid, ast.Lambda):
            meta, grid = grid.args.args[0].arg if grid.args.args else "", grid.body
        axes = grid.elts if isinstance(grid, ast.Tuple | ast.List) else [grid]
        translated = [self._translated(axis, meta) for axis in axes]
        return None if None in translated else [each for each in translated if each is not None]

    def computed(self, name: str) -> str | None:
        """What is passed for a parameter as an expression of other parameters; None if it is something else."""
        value = self.value(self._launch.passed[name])
        if value is self._launch.passed[name] and not isinstance(value, ast.Call | ast.BinOp):
            return None
        translator = _Translator({text: each for text, each in self._known.items() if each != name}, "")
        changed = translator.visit(ast.parse(ast.unparse(value), mode="eval"))
        is_plain = translator.is_plain and any(isinstance(each, ast.Name) for each in ast.walk(changed))
        return ast.unparse(ast.fix_missing_locations(changed)) if is_plain else None

    def word(self, node: ast.expr) -> str | None:
        """An extent in the words of the kernel; a name of the host alone stays as it is, unless the kernel has another
        number of that name. None for anything else."""
        if (known := self._translated(node, "")) is not None:
            return known
        return node.id if isinstance(node, ast.Name) and node.id not in self._launch.passed else None

    def value(self, node: ast.expr) -> ast.expr:
        """What a name of the function around the launch stands for."""
        if isinstance(node, ast.Name):
            for each in ast.walk(self._launch.around):
                match each:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == node.id:
                        return value
                    case ast.FunctionDef(name=name, body=[ast.Return(value=ast.expr() as value)]) if name == node.id:
                        return ast.Lambda(each.args, value)
        return node

    def _translated(self, node: ast.expr, meta: str) -> str | None:
        translator = _Translator(self._known, meta)
        changed = translator.visit(ast.parse(ast.unparse(node), mode="eval"))
        return ast.unparse(ast.fix_missing_locations(changed)) if translator.is_plain else None


class _Translator(ast.NodeTransformer):
    """Puts the names of a kernel in the place of what the host passes for them."""

    def __init__(self, known: Mapping[str, str], meta: str) -> None:
        self._known, self._meta, self.is_plain = known, meta, True

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and (name := self._known.get(ast.unparse(node))) is not None:
            return node if isinstance(node, ast.Constant) else ast.Name(name, ast.Load())
        changed: ast.AST = super().visit(node)
        return changed

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.is_plain = False
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == self._meta and isinstance(node.slice, ast.Constant):
            return ast.Name(str(node.slice.value), ast.Load())
        self.is_plain = False
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.is_plain = False
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        name = CALLS.get(called)
        if name is None or node.keywords:
            self.is_plain = False
            return node
        arguments = [changed for each in node.args if isinstance(changed := self.visit(each), ast.expr)]
        return ast.Call(ast.Name(name, ast.Load()), arguments, [])
