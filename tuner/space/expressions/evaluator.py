"""The only module that evaluates text from a YAML file: a whitelisted subset of Python's expressions.

An expression is parsed once. Every node is checked against the whitelist and becomes a closure that calls those of its
children; nothing is compiled to Python code. There are no attributes, subscripts, lambdas, comprehensions or keyword
arguments. The only callables are those of `arithmetic`. Text length, nesting depth and numbers are bounded, so no file
can make an evaluation take longer than microseconds.
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from tuner.errors import ExpressionError
from tuner.quoting import quoted, shown
from tuner.space.expressions import arithmetic

MAX_CHARACTERS = 1000
MAX_DEPTH = 100
Evaluator = Callable[[Mapping[str, Any]], Any]  # the values of names -> the value of the expression
ALLOWED = (
    "numbers, strings, lists, names, + - * / // % **, comparisons, in, and, or, not, "
    "`x if c else y` and " + ", ".join(sorted(arithmetic.FUNCTIONS))
)


class PythonCall(ast.expr):
    """A call of a Python function, which no file can hold. `call` takes the values of `args` in their order."""

    _fields = ("call", "args")

    call: Callable[[Sequence[Any]], Any]
    args: list[ast.expr]


def text_of(value: object) -> str:
    """The text of an expression from a file, in which it may be a number. Raises ExpressionError for any other type."""
    if isinstance(value, bool | int | float):
        value = repr(value)
    if not isinstance(value, str):
        raise ExpressionError(f"{quoted(value)} is not an expression")
    return value.strip()


def depth(tree: ast.expr, depths: Mapping[str, int]) -> int:
    """The nesting depth of `tree`. `depths` gives the depth of names that stand for expressions."""
    if isinstance(tree, ast.Name):
        return depths.get(tree.id, 1)
    return 1 + max(
        (depth(child, depths) for child in ast.iter_child_nodes(tree) if isinstance(child, ast.expr)), default=0
    )


def value_of(evaluator: Evaluator, scope: Mapping[str, Any], text: str) -> Any:
    """The value that `evaluator` computes from `scope`. Every failure becomes an ExpressionError that begins with
    `text`."""
    try:
        return evaluator(scope)
    except ZeroDivisionError:
        reason = "division by zero"
    except (ExpressionError, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = str(error)
    raise ExpressionError(f"`{shown(text)}`: {reason}")


def names_in(tree: ast.expr) -> frozenset[str]:
    """The names in a checked tree, without those of called functions."""
    names, nodes = set[str](), list[ast.AST]([tree])
    while nodes:  # in place of ast.walk, as a first launch looks at hundreds of trees
        node = nodes.pop()
        if type(node) is ast.Name:
            names.add(node.id)
            continue
        for field in node._fields:
            value = getattr(node, field)
            if type(value) is list:
                nodes += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and not (field == "func" and type(value) is ast.Name):
                nodes.append(value)
    return frozenset(names)


def checked(text: str, check: Callable[[ast.expr, int], None]) -> ast.expr:
    """The syntax tree of `text`, after `check(tree, 0)` accepted it. Raises ExpressionError otherwise."""
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


def check_tree(node: ast.expr, depth: int) -> None:
    """Raise ExpressionError unless `node` and all its descendants are on the whitelist."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"nested more than {MAX_DEPTH} deep")
    check_node(node)
    if isinstance(node, ast.Call):
        for argument in node.args:
            check_tree(argument, depth + 1)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            check_tree(child, depth + 1)


def check_node(node: ast.expr, allowed: str = f"allowed are {ALLOWED}") -> None:
    """Raise ExpressionError unless `node` itself, regardless of its children, is on the whitelist.

    `allowed` is the end of the message: it says what is allowed.
    """
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
    """The value of a checked tree. `and`, `or` and conditionals evaluate lazily, as in Python."""
    return evaluator_of(node)(scope)


def evaluator_of(node: ast.expr) -> Evaluator:
    """A closure that computes `walk` of a checked tree.

    It dispatches on node types once, not at each evaluation: a restriction is evaluated thousands of times before a run
    prints its first line.
    """
    return _EVALUATORS[type(node)](node)


def _constant(node: ast.Constant) -> Evaluator:
    value = node.value
    return lambda scope: value


def _name(node: ast.Name) -> Evaluator:
    name = node.id

    def look_up(scope: Mapping[str, Any]) -> Any:
        try:
            return scope[name]
        except KeyError:
            raise ExpressionError(unknown_name(name, scope)) from None

    return look_up


def _binary(node: ast.BinOp) -> Evaluator:
    operate, left, right = arithmetic.BINARY[type(node.op)], evaluator_of(node.left), evaluator_of(node.right)
    if isinstance(node.right, ast.Constant):
        value = node.right.value
        return lambda scope: operate(left(scope), value)
    return lambda scope: operate(left(scope), right(scope))


def _unary(node: ast.UnaryOp) -> Evaluator:
    operate, operand = arithmetic.UNARY[type(node.op)], evaluator_of(node.operand)
    return lambda scope: operate(operand(scope))


def _comparison(node: ast.Compare) -> Evaluator:
    first, *others = (evaluator_of(part) for part in (node.left, *node.comparators))
    pairs = [(arithmetic.COMPARE[type(op)], other) for op, other in zip(node.ops, others, strict=True)]
    if len(pairs) == 1:
        ((compare, second),) = pairs
        return lambda scope: bool(compare(first(scope), second(scope)))

    def chain(scope: Mapping[str, Any]) -> bool:
        value = first(scope)
        for compare, evaluate in pairs:
            other = evaluate(scope)
            if not compare(value, other):
                return False
            value = other
        return True

    return chain


def _and_or(node: ast.BoolOp) -> Evaluator:
    stop, operands = isinstance(node.op, ast.Or), [evaluator_of(operand) for operand in node.values]

    def short_circuit(scope: Mapping[str, Any]) -> Any:
        value: Any = not stop
        for operand in operands:
            value = operand(scope)
            if bool(value) == stop:
                break
        return value

    return short_circuit


def _conditional(node: ast.IfExp) -> Evaluator:
    test, body, otherwise = (evaluator_of(part) for part in (node.test, node.body, node.orelse))
    return lambda scope: body(scope) if test(scope) else otherwise(scope)


def _list(node: ast.List) -> Evaluator:
    elements = [evaluator_of(element) for element in node.elts]
    return lambda scope: [element(scope) for element in elements]


def _tuple(node: ast.Tuple) -> Evaluator:
    elements = [evaluator_of(element) for element in node.elts]
    return lambda scope: tuple(element(scope) for element in elements)


def _call(node: ast.Call) -> Evaluator:
    function = arithmetic.FUNCTIONS[cast(ast.Name, node.func).id]
    arguments = [evaluator_of(argument) for argument in node.args]
    return lambda scope: arithmetic.bounded(function(*[argument(scope) for argument in arguments]))


def _python_call(node: PythonCall) -> Evaluator:
    call, arguments = node.call, [evaluator_of(argument) for argument in node.args]
    return lambda scope: call([argument(scope) for argument in arguments])


# Lists and tuples stay apart, because in Python a list never equals a tuple.
_EVALUATORS: Mapping[type[ast.expr], Callable[[Any], Evaluator]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _comparison,
    ast.BoolOp: _and_or,
    ast.IfExp: _conditional,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Call: _call,
    PythonCall: _python_call,
}


def unknown_name(name: str, names: Iterable[str]) -> str:
    """The message for an undeclared name. It suggests up to three similar names from `names`, or lists all of them."""
    import difflib

    names = sorted(set(names))
    near = difflib.get_close_matches(name, names, n=3)
    return f"unknown name {quoted(name)}; " + (
        f"did you mean {' or '.join(map(shown, near))}?" if near else f"known: {shown(', '.join(names))}"
    )
