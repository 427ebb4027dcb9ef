"""Reads lists of Triton's configurations: literals, comprehensions, and functions with loops that append to them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from tuner.drafting.python.definitions import PythonDefinitions
from tuner.drafting.python.host_names import HostNames, defaults
from tuner.drafting.python.syntax import filled, last_word, mutated, names_in, on_nvidia

MOST_VALUES = 1000  # of a loop
MOST_PASSES = 20_000  # of all loops
MOST_NESTED = 8  # functions and variables in each other
DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": 0}  # of a configuration that names no value
OPTIONS = tuple(DEFAULTS)

Config = dict[str, Any]
Names = Mapping[str, Any]
End = type[ast.stmt] | None


class ConfigLists:
    """Reads lists of configurations, also from the functions and variables that they name, with the values that loops
    give to names. `taken` are the parameters of the kernel. `is_complete`: Python would find no other ones."""

    def __init__(self, definitions: PythonDefinitions, taken: set[str]) -> None:
        self._definitions, self._taken, self.is_complete, self._passes = definitions, taken, True, 0
        self._own = set[str]()  # variables of the function that is read, which hide those of the file

    def read(self, node: ast.AST, names: Names | None = None, depth: int = 0) -> Iterator[Config]:
        """The configurations in an expression or a function; `names` are the values of its variables."""
        names = names or {}
        if isinstance(node, ast.Call) and last_word(node.func) == "Config":
            config = self._config(node, names)
            if config is not None:
                yield config
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            for each in self._loops(node.generators, names):
                yield from self.read(node.elt, each, depth)
        elif isinstance(node, ast.FunctionDef):
            yield from self._block(node.body, dict(names), depth)
        elif isinstance(node, ast.Name) or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            yield from self._named(node, names, depth)
        else:
            for child in ast.iter_child_nodes(node):
                yield from self.read(child, names, depth)

    def read_within(self, node: ast.expr, around: ast.FunctionDef | None) -> Iterator[Config]:
        """The configurations in an expression of a function, which may be one of its variables."""
        if not isinstance(node, ast.Name) or around is None or node.id not in _stored(around):
            yield from self.read(node)
            return
        value = HostNames(around, node.lineno, ()).value(node)
        if value is not node and node.id not in mutated(around):
            yield from self.read(value)
            return
        self.is_complete, self._own = False, _stored(around)  # loops make it, and other lists may be beside it
        yield from self._block([each for each in around.body if each.lineno < node.lineno], {}, 0)

    def _named(self, node: ast.Name | ast.Call, names: Names, depth: int) -> Iterator[Config]:
        """The configurations of a variable, or of a call of a function."""
        name = node.id if isinstance(node, ast.Name) else last_word(node.func)
        if name in self._own:
            return
        where, found = self._definitions.of(name) if depth < MOST_NESTED else (self._definitions, ())
        reader = self if where is self._definitions else ConfigLists(where, self._taken)
        self.is_complete &= not where.is_changed(found)
        for definition in found:
            given = self._given(definition, node, names) if isinstance(node, ast.Call) else {}
            yield from reader.read(definition, given, depth + 1)
        self.is_complete &= reader.is_complete
        for argument in node.args if isinstance(node, ast.Call) else ():  # `filter(keep, configs)`
            if isinstance(self._value(argument, names), ast.AST):
                self.is_complete = False
                yield from self.read(argument, names, depth)

    def _given(self, function: ast.AST, call: ast.Call, names: Names) -> dict[str, Any]:
        """The values of the parameters of a function in a call of it, as far as the text tells them."""
        if not isinstance(function, ast.FunctionDef):
            return {}
        every = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        passed = {**defaults(function), **dict(zip(every, call.args, strict=False))}
        passed |= {each.arg: each.value for each in call.keywords if each.arg is not None}
        values = {name: self._value(node, names) for name, node in passed.items()}
        return {name: value for name, value in values.items() if not isinstance(value, ast.AST)}

    def _block(self, body: Sequence[ast.stmt], names: dict[str, Any], depth: int) -> Generator[Config, None, End]:
        """The configurations in statements, which change `names`. The result: with what they end the pass of the loop
        around them, the loop, or the function; None if they do not."""
        for statement in body:
            match statement:
                case ast.For() | ast.While():
                    if (yield from self._loop(statement, names, depth)) is ast.Return:
                        return ast.Return
                case ast.If():
                    of_make = on_nvidia(statement.test)
                    truth = self._value(statement.test, names) if of_make is None else of_make
                    if isinstance(truth, ast.AST):  # one of them runs, and only Python can tell which
                        self.is_complete &= not names
                        for branch in (statement.body, statement.orelse):
                            end = yield from self._block(branch, dict(names), depth)
                            self.is_complete &= end in (None, ast.Return)
                    elif end := (yield from self._block(statement.body if truth else statement.orelse, names, depth)):
                        return end
                case ast.With() | ast.Try():
                    if end := (yield from self._block(statement.body, names, depth)):
                        self.is_complete &= isinstance(statement, ast.With)
                        return end
                case ast.Continue() | ast.Break():
                    return type(statement)
                case ast.Return():
                    yield from self.read(statement, names, depth)
                    return ast.Return
                case ast.FunctionDef():
                    pass
                case _:
                    self._note(statement, names)
                    yield from self.read(statement, names, depth)
        return None

    def _loop(self, loop: ast.For | ast.While, names: dict[str, Any], depth: int) -> Generator[Config, None, End]:
        """The configurations in the passes of a loop, each of which begins with what the one before it has changed."""
        before = self._passes
        for bound in (
            self._bindings(loop.target, loop.iter, names)
            if isinstance(loop, ast.For)
            else self._while(loop.test, names)
        ):
            names |= bound
            end = yield from self._block(loop.body, names, depth)
            if end is ast.Return:
                return end
            if end is ast.Break:
                return None
        if self._passes == before:  # none, or only Python can tell which
            for name in _stored(loop):
                names.pop(name, None)
        return (yield from self._block(loop.orelse, names, depth))

    def _while(self, test: ast.expr, names: Names) -> Iterator[dict[str, Any]]:
        """The passes of a `while`, up to the first after which only Python can tell whether it goes on."""
        for _ in range(min(MOST_VALUES, MOST_PASSES - self._passes)):
            truth = self._value(test, names)
            if not truth:
                return
            self.is_complete &= not isinstance(truth, ast.AST)
            self._passes += 1
            yield {}
            if not self.is_complete:
                return
        self.is_complete = False

    def _note(self, statement: ast.stmt, names: dict[str, Any]) -> None:
        """Note the value of the variable that a statement assigns to, or that it is unknown."""
        for name in mutated(statement):
            if isinstance(self._value(ast.Name(name, ast.Load()), names), list | dict):
                self.is_complete = False
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=given)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as given)
            ):
                value = self._value(given, names)
                names.pop(name, None)
                if not isinstance(value, ast.AST) and value != []:
                    names[name] = value
            case ast.AugAssign(target=ast.Name(id=name), op=how, value=given) if name in names:
                value = self._value(ast.BinOp(ast.Name(name, ast.Load()), how, given), names)
                names.pop(name)
                if not isinstance(value, ast.AST):
                    names[name] = value
            case _:
                for name in _stored(statement):
                    names.pop(name, None)

    def _loops(self, generators: Sequence[ast.comprehension], names: Names) -> Iterator[dict[str, Any]]:
        if not generators:
            yield dict(names)
            return
        first, *rest = generators
        for bound in self._bindings(first.target, first.iter, names):
            inner = {**names, **bound}
            if all(self._value(test, inner) is not False for test in first.ifs):
                yield from self._loops(rest, inner)

    def _bindings(self, target: ast.expr, over: ast.expr, names: Names) -> Iterator[dict[str, Any]]:
        """What a loop gives to its variables in each pass; nothing if only Python can tell."""
        values = self._value(over, names)
        if not isinstance(values, range | list | tuple) or not all(_bound(target, value) for value in values):
            self.is_complete = False
            return
        for value in values[:MOST_VALUES]:
            self._passes += 1
            if self._passes > MOST_PASSES:
                self.is_complete = False
                return
            yield _bound(target, value)

    def _config(self, call: ast.Call, names: Names) -> Config | None:
        """A configuration; None if it is for another kernel or another make of GPU."""
        config: Config = {}
        table = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "kwargs"), None)
        pairs = [*zip(table.keys, table.values, strict=True)] if isinstance(table, ast.Dict) else []
        named = [(self._value(key, names), value) for key, value in pairs if key is not None]
        if isinstance(table, ast.Call) and last_word(table.func) == "dict":
            named += [(keyword.arg, keyword.value) for keyword in table.keywords if keyword.arg is not None]
        named += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg in OPTIONS]
        named += zip(("num_warps", "num_stages"), call.args[1:], strict=False)
        for name, node in named:
            value = self._value(node, names)
            if name not in self._taken and name not in OPTIONS:
                return None
            if isinstance(value, bool | int | float | str):
                config[str(name)] = value
            elif value is not None:
                self.is_complete = False
        return config

    def _value(self, node: ast.expr, names: Names) -> Any:
        """The value of an expression of literals, of variables of the file, and of these names; else a node."""
        if isinstance(node, ast.Name) and node.id not in names:
            # A list of configurations may replace the list of numbers from which it is made.
            where, found = self._definitions.of(node.id)
            known = [d for d in found if isinstance(d, ast.expr) and node.id not in names_in(d)]
            self.is_complete &= not where.is_changed(found)
            reader = self if where is self._definitions else ConfigLists(where, self._taken)
            return reader._value(known[0], {}) if len(known) == 1 else node
        try:
            if isinstance(node, ast.Call) and last_word(node.func) in _LISTS and not node.keywords:
                return _LISTS[last_word(node.func)](*(self._value(each, names) for each in node.args))
            return ast.literal_eval(filled(node, {name: ast.Constant(value) for name, value in names.items()}))
        except (ValueError, TypeError, SyntaxError, MemoryError):
            return self._computed(node, names)

    def _computed(self, node: ast.expr, names: Names) -> Any:
        """The value of arithmetic and comparisons of numbers, or both lists between which a condition chooses that only
        Python can decide; else the node."""
        from tuner.errors import ExpressionError
        from tuner.space import expressions

        if isinstance(node, ast.IfExp) and (of_make := on_nvidia(node.test)) is not None:
            return self._value(node.body if of_make else node.orelse, names)
        if isinstance(node, ast.IfExp) and isinstance(self._value(node.test, names), ast.AST):
            both = [self._value(each, names) for each in (node.body, node.orelse)]
            if not all(isinstance(each, list) for each in both):
                return node
            return both[0] + [value for value in both[1] if value not in both[0]]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            both = [self._value(each, names) for each in (node.left, node.right)]
            if all(isinstance(each, list) for each in both):
                return both[0] + both[1]
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            passes = [*self._loops(node.generators, names)]
            values = [self._value(node.elt, each) for each in passes]
            return node if not passes or any(isinstance(each, ast.AST) for each in values) else values
        try:
            return expressions.parse(ast.unparse(node)).evaluate(dict(names))
        except (ExpressionError, KeyError, TypeError, ArithmeticError):
            return node


def _product(*given: Sequence[Any]) -> list[Any]:
    return [*itertools.islice(itertools.product(*(each[:MOST_VALUES] for each in given)), MOST_VALUES)]


def _zipped(*given: Sequence[Any]) -> list[Any]:
    return [*zip(*(each[:MOST_VALUES] for each in given), strict=False)]


_LISTS: dict[str, Callable[..., Any]] = {"range": range, "product": _product, "zip": _zipped}


def _stored(statement: ast.stmt) -> set[str]:
    """The names that a statement assigns to."""
    found = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
    return {each.id for each in found if not isinstance(each.ctx, ast.Load)}


def _bound(target: ast.expr, value: Any) -> dict[str, Any]:
    """The names that a loop sets to a value; empty if it does something else with it."""
    match target:
        case ast.Name(id=name):
            return {name: value}
        case ast.Tuple(elts=elements) if isinstance(value, tuple | list) and len(value) == len(elements):
            if all(isinstance(each, ast.Name) for each in elements):
                return {e.id: v for e, v in zip(elements, value, strict=True) if isinstance(e, ast.Name)}
    return {}
