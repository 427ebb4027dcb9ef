"""Reads the configurations of `@triton.autotune`, and what else it says of a kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from tuner.drafting.python.syntax import filled, last_word, names_in, translated

MOST_VALUES = 1000
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")

Config = dict[str, Any]


@dataclass(frozen=True)
class Autotuned:
    """What decorators say of a kernel.

    values: the values of each parameter, in the order in which they are written.
    default: the first configuration.
    count: how many configurations there are; None if only Python can tell.
    key: the arguments on whose change Triton tunes again.
    restored, zeroed: the arrays that it restores, and those that it sets to zero, before each launch.
    pruned: the text of the function that leaves out configurations, or its name if it is in another file; None if there
        is none.
    ranked: whether a model chooses among the configurations.
    heuristics: the constants that follow from arguments, as expressions of a space; None for one that is none.
    """

    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    default: Config = field(default_factory=dict)
    count: int | None = 0
    key: tuple[str, ...] = ()
    restored: frozenset[str] = frozenset()
    zeroed: frozenset[str] = frozenset()
    pruned: str | None = None
    ranked: bool = False
    heuristics: Mapping[str, str | None] = field(default_factory=dict)


def of(function: ast.FunctionDef, tree: ast.Module) -> Autotuned:
    """What the decorators of a kernel say; `tree` is its file."""
    calls = {last_word(each.func): each for each in function.decorator_list if isinstance(each, ast.Call)}
    heuristics = dict(_heuristics(calls.get("heuristics")))
    call = next((each for name, each in calls.items() if name.endswith("autotune")), None)  # also a project's own
    if call is None:
        return Autotuned(heuristics=heuristics)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    given |= dict(zip(("configs", "key"), call.args, strict=False))
    taken = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    reader = _Configs(tree, taken)
    found = [*reader.read(given["configs"])] if "configs" in given else []
    values: dict[str, dict[Any, None]] = {}
    for config in found:
        for name, value in config.items():
            values.setdefault(name, {})[value] = None
    return Autotuned(
        {name: tuple(each) for name, each in values.items()},
        found[0] if found else {},
        len(found) if reader.is_complete else None,
        _names(given.get("key")),
        frozenset(_names(given.get("restore_value"))),
        frozenset(_names(given.get("reset_to_zero"))),
        *_pruning(given.get("prune_configs_by"), tree),
        heuristics,
    )


def _pruning(given: ast.expr | None, tree: ast.Module) -> tuple[str | None, bool]:
    """What `prune_configs_by` says: `pruned` and `ranked`."""
    if given is None:
        return None, False
    if isinstance(given, ast.Name):
        given = next((each.value for each in tree.body if _assigns(each, given.id)), given)
    if not isinstance(given, ast.Dict):
        return ast.unparse(given), False
    by = {k.value: v for k, v in zip(given.keys, given.values, strict=True) if isinstance(k, ast.Constant)}
    pruner = by.get("early_config_prune")
    name = "" if pruner is None else last_word(pruner)
    defined = (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name)
    function = next(defined, pruner)
    return None if function is None else ast.unparse(function), "perf_model" in by or "top_k" in by


def _assigns(node: ast.stmt, name: str) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and any(last_word(target) == name for target in node.targets)


def _heuristics(call: ast.Call | None) -> Iterator[tuple[str, str | None]]:
    table = call.args[0] if call is not None and call.args else None
    for key, value in zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(value, ast.Lambda) and value.args.args:
            yield str(key.value), translated(value.body, {}, value.args.args[0].arg)
        elif isinstance(key, ast.Constant):
            yield str(key.value), None


class _Configs:
    """Reads lists of configurations, also from functions and variables of the file that they name."""

    def __init__(self, tree: ast.Module, taken: set[str]) -> None:
        self._taken, self.is_complete = taken, True
        self._definitions: dict[str, list[ast.AST]] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self._definitions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._definitions.setdefault(target.id, []).append(node.value)

    def read(self, node: ast.AST, names: Mapping[str, Any] | None = None, depth: int = 0) -> Iterator[Config]:
        """The configurations in an expression; `names` are the values of its variables."""
        names = names or {}
        if isinstance(node, ast.Call) and last_word(node.func) == "Config":
            config = self._config(node, names)
            if config is not None:
                yield config
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            for each in self._loops(node.generators, names):
                yield from self.read(node.elt, each, depth)
        elif isinstance(node, ast.Name) or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            name = node.id if isinstance(node, ast.Name) else last_word(node.func)
            for definition in self._definitions.get(name, ()) if depth < 8 else ():
                yield from self.read(definition, {}, depth + 1)
            for argument in node.args if isinstance(node, ast.Call) else ():  # `filter(keep, configs)`
                self.is_complete = False
                yield from self.read(argument, names, depth)
        else:
            for child in ast.iter_child_nodes(node):
                yield from self.read(child, names, depth)

    def _loops(self, generators: Sequence[ast.comprehension], names: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if not generators:
            yield dict(names)
            return
        first, *rest = generators
        values = self._value(first.iter, names)
        if isinstance(values, range | list | tuple) and all(_bound(first.target, value) for value in values):
            for value in values[:MOST_VALUES]:
                inner = {**names, **_bound(first.target, value)}
                if all(self._value(test, inner) is not False for test in first.ifs):
                    yield from self._loops(rest, inner)
        else:
            self.is_complete = False

    def _config(self, call: ast.Call, names: Mapping[str, Any]) -> Config | None:
        """A configuration; None if it is for another kernel or another make of GPU."""
        config: Config = {}
        table = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "kwargs"), None)
        pairs = [*zip(table.keys, table.values, strict=True)] if isinstance(table, ast.Dict) else []
        named = [(key.value, value) for key, value in pairs if isinstance(key, ast.Constant)]
        if isinstance(table, ast.Call) and last_word(table.func) == "dict":
            named += [(keyword.arg, keyword.value) for keyword in table.keywords if keyword.arg is not None]
        named += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg in _OPTIONS]
        named += zip(("num_warps", "num_stages"), call.args[1:], strict=False)
        for name, node in named:
            value = self._value(node, names)
            if name not in self._taken and name not in _OPTIONS:
                return None
            if isinstance(value, bool | int | float | str):
                config[str(name)] = value
            elif value is not None:
                self.is_complete = False
        return config

    def _value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        """The value of an expression of literals, of variables of the file, and of these names; else a node."""
        if isinstance(node, ast.Name) and node.id not in names:
            # A list of configurations may replace the list of numbers from which it is made.
            known = [
                d for d in self._definitions.get(node.id, ()) if isinstance(d, ast.expr) and node.id not in names_in(d)
            ]
            return self._value(known[0], {}) if len(known) == 1 else node
        try:
            if isinstance(node, ast.Call) and last_word(node.func) == "range":
                return range(*(self._value(each, names) for each in node.args))
            return ast.literal_eval(filled(node, {name: ast.Constant(value) for name, value in names.items()}))
        except (ValueError, TypeError, SyntaxError):
            return self._computed(node, names)

    def _computed(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        """The value of arithmetic and comparisons of numbers; else the node."""
        from tuner.errors import ExpressionError
        from tuner.space import expressions

        try:
            return expressions.parse(ast.unparse(node)).evaluate(dict(names))
        except (ExpressionError, KeyError, TypeError):
            return node


def _bound(target: ast.expr, value: Any) -> dict[str, Any]:
    """The names that a loop sets to a value; empty if it does something else with it."""
    match target:
        case ast.Name(id=name):
            return {name: value}
        case ast.Tuple(elts=elements) if isinstance(value, tuple | list) and len(value) == len(elements):
            if all(isinstance(each, ast.Name) for each in elements):
                return {e.id: v for e, v in zip(elements, value, strict=True) if isinstance(e, ast.Name)}
    return {}


def _names(node: ast.expr | None) -> tuple[str, ...]:
    """The texts in a list."""
    elements = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else []
    return tuple(each.value for each in elements if isinstance(each, ast.Constant) and isinstance(each.value, str))
