"""The signature of a kernel in a Python file, as its text has it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.classes import dataclass
from tuner.space.jit import part
from tuner.space.jit.absence import absent

MISSING = object()  # the default of a parameter that has none
_OTHERS = {"numba": "Numba", "cupyx": "CuPy", "jax": "JAX", "taichi": "Taichi", "warp": "Warp"}  # packages of compilers


@dataclass(frozen=True)
class JitParameter:
    """A parameter of a kernel.

    constant: whether it is `tl.constexpr`, which the compiler gets.
    default: its value if nothing is passed; MISSING without any, and an `ast.expr` if only Python can tell it.
    classes: whether the compiler may assume that it is 1; that it is divisible by 16.
    """

    name: str
    constant: bool
    default: Any
    classes: tuple[bool, bool]

    @property
    def has_default(self) -> bool:
        return self.default is not MISSING


@dataclass(frozen=True)
class JitFunction:
    """A function of a Python file. `is_jit`: whether it is decorated as a kernel. `node` is its syntax.

    foreign: why it is a kernel of another compiler than Triton; empty if it is none.
    """

    name: str
    parameters: tuple[JitParameter, ...]
    is_jit: bool
    node: ast.FunctionDef
    foreign: str

    @property
    def arguments(self) -> tuple[JitParameter, ...]:
        """The parameters that a launch passes."""
        return tuple(each for each in self.parameters if not each.constant)

    @property
    def constants(self) -> tuple[JitParameter, ...]:
        """The parameters that the compiler gets."""
        return tuple(each for each in self.parameters if each.constant)


@functools.lru_cache(maxsize=part.MOST_CACHED)
def functions(text: str) -> dict[str, JitFunction]:
    """The functions at the top level of a Python file, also in branches, by name; the last of a name counts. Raises
    SyntaxError and ValueError."""
    tree = ast.parse(text)
    modules = dict(_modules(tree))
    return {node.name: _function(node, modules) for node in _nodes(tree.body)}


def _modules(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that a file imports, each with the package from which it comes."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((a.asname or a.name.partition(".")[0], a.name.partition(".")[0]) for a in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from ((a.asname or a.name, module.partition(".")[0]) for a in names)


def _nodes(body: Sequence[ast.AST]) -> Iterator[ast.FunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _nodes([*ast.iter_child_nodes(node)])


def _function(node: ast.FunctionDef, modules: Mapping[str, str]) -> JitFunction:
    foreign = next(filter(None, (_foreign(each, modules) for each in node.decorator_list)), "")
    decorator = next((each for each in node.decorator_list if part.is_jit(each)), None)
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    unspecialised, unaligned = (_listed(keywords, f"do_not_specialize{end}") for end in ("", "_on_alignment"))
    arguments = [*node.args.posonlyargs, *node.args.args]
    defaults = [MISSING] * (len(arguments) - len(node.args.defaults)) + list(map(_value, node.args.defaults))
    arguments += node.args.kwonlyargs
    without = absent(node).all
    defaults += [MISSING if each is None else _value(each) for each in node.args.kw_defaults]
    return JitFunction(
        node.name,
        tuple(
            JitParameter(
                a.arg,
                part.is_constexpr(a),
                None if default is MISSING and a.arg in without else default,
                (
                    not {a.arg, position} & unspecialised,
                    not {a.arg, position} & (unspecialised | unaligned),
                ),
            )
            for position, (a, default) in enumerate(zip(arguments, defaults, strict=True))
        ),
        decorator is not None and not foreign,
        node,
        foreign
        and f"{node.name} (line {node.lineno}) is a kernel of {foreign}, and of Python files only kernels in "
        "Triton are supported: write it in CUDA, OpenCL C, C or Triton",
    )


def _foreign(decorator: ast.expr, modules: Mapping[str, str]) -> str:
    """The name of another compiler than Triton, if a decorator is one of its package; else empty."""
    names = (modules.get(each.id, "") for each in ast.walk(decorator) if isinstance(each, ast.Name))
    return next((_OTHERS[name] for name in names if name in _OTHERS), "")


def _listed(keywords: Sequence[ast.keyword], name: str) -> frozenset[Any]:
    """The names and positions in a list of the decorator."""
    for keyword in keywords:
        if keyword.arg == name:
            value = _value(keyword.value)
            return frozenset(value) if isinstance(value, list | tuple | set) else frozenset()
    return frozenset()


def _value(node: ast.expr) -> Any:
    """The value of a literal; the node itself if it is none."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return node
