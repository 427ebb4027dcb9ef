"""Reads the configurations of `@triton.autotune`, and what else it says of a kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeGuard

from tuner.classes import dataclass
from tuner.drafting.python.config_lists import DEFAULTS, Config, ConfigLists
from tuner.drafting.python.definitions import PythonDefinitions
from tuner.drafting.python.host_names import HostNames
from tuner.drafting.python.syntax import last_word, translated


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


def of(function: ast.FunctionDef, tree: ast.Module, definitions: PythonDefinitions) -> Autotuned:
    """What the decorators of a kernel say; `tree` is its file, with its `definitions`."""
    decorators = [each for each in function.decorator_list if isinstance(each, ast.Call)]
    calls = {last_word(each.func): each for each in [*_applied(function.name, tree), *decorators]}
    heuristics = dict(_heuristics(calls.get("heuristics"), definitions))
    call = next((each for name, each in calls.items() if name.endswith("autotune")), None)  # also a project's own
    if call is None:
        return Autotuned(heuristics=heuristics)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    given |= dict(zip(("configs", "key"), call.args, strict=False))
    taken = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    reader = ConfigLists(definitions, taken)
    found = [*reader.read_within(given["configs"], _around(tree, call))] if "configs" in given else []
    if reader.is_complete:  # else a value that is missing may be one that only Python can tell
        left = {name: value for name, value in DEFAULTS.items() if any(name in config for config in found)}
        found = [{**config, **{n: value for n, value in left.items() if n not in config}} for config in found]
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


def _applied(kernel: str, tree: ast.Module) -> Iterator[ast.Call]:
    """The decorators that are applied to a kernel by a call, as in `triton.autotune(configs, key)(kernel)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Call() as decorator, args=[ast.Name(id=name)]) if name == kernel:
                yield decorator


def _around(tree: ast.Module, call: ast.Call) -> ast.FunctionDef | None:
    """The innermost function whose statements have a call, also as a decorator of a function; None if none has."""
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))
    found = [each for each in functions if any(call is node for part in each.body for node in ast.walk(part))]
    return found[-1] if found else None


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


def _heuristics(call: ast.Call | None, definitions: PythonDefinitions) -> Iterator[tuple[str, str | None]]:
    table = call.args[0] if call is not None and call.args else None
    for key, value in zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(value, ast.Lambda) and value.args.args:
            yield str(key.value), translated(value.body, {}, value.args.args[0].arg)
        elif isinstance(key, ast.Constant):
            yield str(key.value), _returned(value, definitions)


def _returned(value: ast.expr, definitions: PythonDefinitions) -> str | None:
    """What a function that `value` names returns, as an expression of a space; None if it is none."""
    found = definitions.of(value.id)[1] if isinstance(value, ast.Name) else ()
    match [*found]:
        case [
            ast.FunctionDef(
                args=ast.arguments(args=[table]), body=[*first, ast.Return(value=ast.expr() as result)]
            ) as one
        ] if not any(isinstance(each, ast.Return) for statement in first for each in ast.walk(statement)):
            return translated(result, {}, table.arg, HostNames(one, result.lineno, ()).value)
    return None


def _names(node: ast.expr | None) -> tuple[str, ...]:
    """The texts in a list."""
    elements = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else []
    return tuple(each.value for each in elements if isinstance(each, ast.Constant) and isinstance(each.value, str))
