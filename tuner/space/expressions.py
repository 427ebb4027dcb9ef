"""The only place that evaluates text from a YAML file: a whitelisted subset of Python's expressions.

An expression is parsed once, every node is checked against the whitelist, and the tree is then walked
directly; it is never compiled to Python code. There are no attributes, subscripts, lambdas, comprehensions
or keyword arguments. The only callables are those of `arithmetic`. Text, depth and numbers are bounded: no file can
make an evaluation take longer than microseconds.
"""

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from tuner.errors import ExpressionError
from tuner.paths import quoted, shown
from tuner.space import arithmetic

MAX_CHARACTERS = 1000
MAX_DEPTH = 100


ALLOWED = (
    "numbers, strings, lists, names, + - * / // % **, comparisons, in, and, or, not, "
    "`x if c else y` and " + ", ".join(sorted(arithmetic.FUNCTIONS))
)


@dataclass(frozen=True)
class Expression:
    """A checked expression. Equal texts are equal expressions."""

    text: str

    @property
    def tree(self) -> ast.expr:
        """The checked syntax tree."""
        return _parse(self.text)

    @property
    def names(self) -> frozenset[str]:
        """The names whose values it needs."""
        return names_in(self.tree)

    @property
    def is_name(self) -> bool:
        """Whether it is a name alone."""
        return isinstance(self.tree, ast.Name)

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """Its value; `scope` has the values of its names.

        Only names on the path taken are looked up: `x if c else y` never looks at the other branch.
        Raises ExpressionError, naming the expression, for an unknown name, a division by zero, a number beyond
        2**64, or operands that do not go together.
        """
        return value_of(self.tree, scope, self.text)

    def integer(self, scope: Mapping[str, Any]) -> int:
        """Its value as an integer. Raises ExpressionError for any other value."""
        value = self.evaluate(scope)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            raise ExpressionError(f"`{shown(self.text)}` is {quoted(value)}; a whole number is needed")
        return int(value)


@dataclass(frozen=True)
class ArrayExpression(Expression):
    """A checked expression over arrays. What it needs is imported when it is used: a launch never uses one."""

    @property
    def tree(self) -> ast.expr:
        """The checked syntax tree."""
        from tuner.space import array_expressions

        return array_expressions.tree_of(self.text)

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """Its value, an array or a number. Raises ExpressionError, which begins with the expression."""
        from tuner.space import array_expressions

        return array_expressions.value_of(self.tree, scope, self.text)


def parse(text: object) -> Expression:
    """`text`, or a number, as a checked Expression. Raises ExpressionError if it is not allowed."""
    expression = Expression(text_of(text))
    _parse(expression.text)
    return expression


def text_of(value: object) -> str:
    """The text of an expression in a file, which may be a number there. Raises ExpressionError for anything else."""
    if isinstance(value, bool | int | float):
        value = repr(value)
    if not isinstance(value, str):
        raise ExpressionError(f"{quoted(value)} is not an expression")
    return value.strip()


def check_constants(expression: Expression) -> None:
    """Raise ExpressionError for a constant part that has no value, such as 9**9**9 or 1 // 0."""
    for node in ast.walk(expression.tree):
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Call) and not names_in(node):
            value_of(node, {}, ast.unparse(node))


def depth(tree: ast.expr, depths: Mapping[str, int]) -> int:
    """How deep `tree` is nested, with names that are themselves nested as deep as `depths` says."""
    if isinstance(tree, ast.Name):
        return depths.get(tree.id, 1)
    return 1 + max(
        (depth(child, depths) for child in ast.iter_child_nodes(tree) if isinstance(child, ast.expr)), default=0
    )


def multiplies_matrices(expression: Expression) -> bool:
    """Whether it contains an @."""
    return any(isinstance(node, ast.MatMult) for node in ast.walk(expression.tree))


def value_of(tree: ast.expr, scope: Mapping[str, Any], text: str) -> Any:
    """`walk`; every failure becomes an ExpressionError that begins with `text`."""
    try:
        return walk(tree, scope)
    except ZeroDivisionError:
        reason = "division by zero"
    except (ExpressionError, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = str(error)
    raise ExpressionError(f"`{shown(text)}`: {reason}")


def names_in(tree: ast.expr) -> frozenset[str]:
    """The free names of a checked tree."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called)


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    return checked(text, _check)


def checked(text: str, check: Callable[[ast.expr, int], None]) -> ast.expr:
    """The syntax tree of `text`, once `check` has seen it, at depth 0. Raises ExpressionError."""
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"`{text[:40]}...` has {len(text)} characters; at most {MAX_CHARACTERS} are allowed")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "nested too deeply"
        raise ExpressionError(f"`{shown(text)}` is not an expression: {reason}") from None
    try:
        check(tree, 0)
    except ExpressionError as error:
        raise ExpressionError(f"`{shown(text)}`: {error}") from None
    except RecursionError:
        raise ExpressionError(f"`{text[:40]}...`: nested too deeply") from None
    return tree


def _check(node: ast.expr, depth: int) -> None:
    """Raise ExpressionError unless `node` and all its descendants are on the whitelist."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"nested more than {MAX_DEPTH} deep")
    check_node(node)
    if isinstance(node, ast.Call):
        for argument in node.args:
            _check(argument, depth + 1)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _check(child, depth + 1)


def check_node(node: ast.expr, allowed: str = f"allowed are {ALLOWED}") -> None:
    """Raise ExpressionError, which says what is `allowed`, unless `node` itself is on the whitelist."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            arithmetic.bounded(value)
        case ast.Name():
            pass
        case ast.BinOp(op=op) if type(op) in arithmetic.BINARY:
            pass
        case ast.UnaryOp(op=unary) if type(unary) in arithmetic.UNARY:
            pass
        case ast.Compare(ops=ops) if all(type(op) in arithmetic.COMPARE for op in ops):
            pass
        case ast.BoolOp() | ast.IfExp() | ast.Tuple() | ast.List():
            pass
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            if name not in arithmetic.FUNCTIONS:
                raise ExpressionError(
                    f"{shown(name)}() is not allowed; allowed are {', '.join(sorted(arithmetic.FUNCTIONS))}"
                )
        case _:
            raise ExpressionError(f"`{shown(ast.unparse(node))}` is not allowed here; {allowed}")


def walk(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """The value of a checked tree. Evaluation is lazy in `and`, `or` and conditionals, as in Python."""
    return _VALUES[type(node)](node, scope)


def _name(node: ast.Name, scope: Mapping[str, Any]) -> Any:
    try:
        return scope[node.id]
    except KeyError:
        raise ExpressionError(unknown_name(node.id, scope)) from None


def _comparison(node: ast.Compare, scope: Mapping[str, Any]) -> bool:
    value = walk(node.left, scope)
    for compare, comparator in zip(node.ops, node.comparators, strict=True):
        other = walk(comparator, scope)
        if not arithmetic.COMPARE[type(compare)](value, other):
            return False
        value = other
    return True


def _and_or(node: ast.BoolOp, scope: Mapping[str, Any]) -> Any:
    stop = isinstance(node.op, ast.Or)
    value: Any = not stop
    for operand in node.values:
        value = walk(operand, scope)
        if bool(value) == stop:
            break
    return value


def _call(node: ast.Call, scope: Mapping[str, Any]) -> Any:
    function = arithmetic.FUNCTIONS[cast(ast.Name, node.func).id]
    return arithmetic.bounded(function(*(walk(argument, scope) for argument in node.args)))


# By the kind of a node, because thousands of restrictions are evaluated before a user hears anything. A list is no
# tuple: Python compares the two as different things.
_VALUES: Mapping[type[ast.expr], Callable[[Any, Mapping[str, Any]], Any]] = {
    ast.Constant: lambda node, _: node.value,
    ast.Name: _name,
    ast.BinOp: lambda node, scope: arithmetic.binary(node.op, walk(node.left, scope), walk(node.right, scope)),
    ast.UnaryOp: lambda node, scope: arithmetic.UNARY[type(node.op)](walk(node.operand, scope)),
    ast.Compare: _comparison,
    ast.BoolOp: _and_or,
    ast.IfExp: lambda node, scope: walk(node.body if walk(node.test, scope) else node.orelse, scope),
    ast.Tuple: lambda node, scope: tuple(walk(element, scope) for element in node.elts),
    ast.List: lambda node, scope: [walk(element, scope) for element in node.elts],
    ast.Call: _call,
}


def unknown_name(name: str, names: Iterable[str]) -> str:
    """The message for an undeclared name, with the nearest of the declared `names`."""
    import difflib

    names = sorted(names)
    near = difflib.get_close_matches(name, names, n=3)
    return f"unknown name {quoted(name)}; " + (
        f"did you mean {' or '.join(map(shown, near))}?" if near else f"known: {shown(', '.join(names))}"
    )
