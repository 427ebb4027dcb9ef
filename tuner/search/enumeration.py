"""The valid configurations of a space at one size, enumerated by Kernel Tuner's Searchspace.

Kernel Tuner's solver is fast on text, but its semantics differ from ours. It supports neither strings nor conditional
expressions, and ignores divisions by zero. It pattern-matches simple comparisons into special constraints, some of them
wrongly: for `a < a` with `a >= b`, or `a <= b % a`, it returns configurations that violate them.

So the solver only receives text generated from our checked tree: numbers, parameters under neutral names, arithmetic
and comparisons. That text cannot divide by zero, and matches none of the patterns, so the solver evaluates it
literally. Our evaluator filters the solver's output by the remaining restrictions.
"""

import ast
import contextlib
import itertools
import math
import random
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from kernel_tuner.searchspace import Searchspace

from tuner.errors import ExpressionError
from tuner.search.derived import Derived, holds
from tuner.space.config import Value
from tuner.space.default import no_configuration
from tuner.space.expressions.evaluator import evaluator_of, names_in
from tuner.space.expressions.rewriting import divisors, substitute
from tuner.space.model import Restriction, Space
from tuner.space.scope import Scope

MAX_COMBINATIONS = 10**8
MAX_CONFIGURATIONS = 4_000_000  # a longer list takes gigabytes
_SAMPLE = 4_000  # random combinations for an estimate of how many the solver would list
_SAMPLED_ABOVE = 5_000_000  # combinations; a shorter list always fits into memory
_MAX_THREADS = 2**62  # no limit: the space's restrictions bound the threads per block
_MAX_TRIED = 100_000  # combinations evaluated to prove that a divisor is never zero
_PLAIN = (
    ast.Compare, ast.BinOp, ast.BoolOp, ast.Name, ast.Tuple, ast.List,
    ast.operator, ast.cmpop, ast.boolop, ast.expr_context, ast.USub,
)  # fmt: skip


def enumerate_space(space: Space, scope: Scope) -> Searchspace:
    """Every valid configuration of `space`: its values in the order of the parameters, which get neutral names.

    The space should be listable (see `is_listable`); otherwise this may take hours, or all memory. Raises
    NoConfiguration if none is valid. Raises ExpressionError, naming the restriction, if one has no value (a division by
    zero) for a configuration that all others accept.
    """
    derived = Derived(space, scope)
    texts, filters = _texts_and_filters(space, scope, derived)
    # Neutral names, because Kernel Tuner treats some names (block_size_x) specially.
    parameters = {_neutral(i): list(declared) for i, declared in enumerate(space.parameters.values())}
    try:
        searchspace = Searchspace(parameters, texts, _MAX_THREADS)
    except IndexError:  # the solver raises it if a parameter has no value left
        raise no_configuration(space, scope) from None
    configurations = _filtered(searchspace.list, filters, derived)
    if not configurations:
        raise no_configuration(space, scope)
    if filters:
        entries = {str(i): dict(zip(parameters, c, strict=True)) for i, c in enumerate(configurations)}
        searchspace = Searchspace(None, None, None, from_cache={"tune_params": parameters, "cache": entries})
    return searchspace


def is_listable(space: Space, scope: Scope) -> bool:
    """Whether the solver can list the valid configurations in seconds, and in memory.

    Their number is estimated from a random sample of all combinations. Only the restrictions that the solver applies
    count. Raises NoConfiguration if a restriction that reads no parameter is false.
    """
    combinations = math.prod(len(values) for values in space.parameters.values())
    if combinations <= _SAMPLED_ABOVE or combinations > MAX_COMBINATIONS:
        return combinations <= _SAMPLED_ABOVE
    _, filters = _texts_and_filters(space, scope, Derived(space, scope))
    solved = [restriction for restriction in space.restrictions if restriction not in [each for each, _ in filters]]
    draw = random.Random(0)  # noqa: S311
    accepted = 0
    for _ in range(_SAMPLE):
        names = space.names({name: draw.choice(values) for name, values in space.parameters.items()}, scope)
        with contextlib.suppress(ExpressionError):
            accepted += all(restriction.that.evaluate(names) for restriction in solved)
    return combinations * accepted // _SAMPLE <= MAX_CONFIGURATIONS


def _texts_and_filters(
    space: Space, scope: Scope, derived: Derived
) -> tuple[list[str], list[tuple[Restriction, ast.expr]]]:
    """The restrictions as text for the solver, and those that it cannot apply, with their trees.

    Raises NoConfiguration if a restriction that reads no parameter is false.
    """
    texts: list[str] = []
    filters: list[tuple[Restriction, ast.expr]] = []
    for restriction in space.restrictions:
        tree = substitute(restriction.that.tree, derived.constants)
        if not names_in(tree):
            if not holds(restriction, evaluator_of(tree), {}):
                raise no_configuration(space, scope)
        elif (text := _kernel_tuner_text(derived.written_out(tree), space.parameters)) is not None:
            texts.append(text)
        else:
            filters.append((restriction, tree))
    return texts, filters


def _kernel_tuner_text(tree: ast.expr | None, parameters: Mapping[str, tuple[Value, ...]]) -> str | None:
    """`tree` as text for Kernel Tuner; None if Kernel Tuner might evaluate the text differently."""
    tree = tree and _Rewrite().visit(tree)
    if not isinstance(tree, ast.Compare | ast.BoolOp) or not all(map(_is_plain, ast.walk(tree))):
        return None
    if not all(isinstance(v, int | float) for name in names_in(tree) for v in parameters[name]):
        return None
    if any(_may_be_zero(divisor, parameters) for divisor in divisors(tree)):
        return None
    neutral = {name: ast.Name(_neutral(i)) for i, name in enumerate(parameters)}
    return f"1 == 1 and ({ast.unparse(substitute(tree, neutral))})"  # the extra comparison defeats the pattern matching


def _is_plain(node: ast.AST) -> bool:
    """Whether Kernel Tuner evaluates `node` as we do. Powers are excluded: it does not bound them."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub)
    if isinstance(node, ast.Compare):  # the solver fails with a TypeError if the right side of `in` is a number
        pairs = zip(node.ops, node.comparators, strict=True)
        return all(isinstance(b, ast.Tuple | ast.List) for op, b in pairs if isinstance(op, ast.In | ast.NotIn))
    return isinstance(node, _PLAIN) and not isinstance(node, ast.Pow | ast.MatMult)


def _neutral(position: int) -> str:
    return f"p{position}"


class _Rewrite(ast.NodeTransformer):
    """Replace ceil_div and round_up by arithmetic, in a copy, because checked trees are shared."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
            a, b = (self.visit(argument) for argument in node.args)
            quotient = ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), a), ast.FloorDiv(), b))
            if node.func.id == "ceil_div":
                return quotient
            if node.func.id == "round_up":
                return ast.BinOp(quotient, ast.Mult(), b)
        fields = {name: list(field) if isinstance(field, list) else field for name, field in ast.iter_fields(node)}
        return self.generic_visit(type(node)(**fields))


def _may_be_zero(divisor: ast.expr, parameters: Mapping[str, tuple[Value, ...]]) -> bool:
    """Whether some combination of declared values makes `divisor` zero. Also True if there are too many to try."""
    names = sorted(names_in(divisor))
    combinations = itertools.product(*(parameters[name] for name in names))
    value_of = evaluator_of(divisor)
    for number, values in enumerate(combinations):
        if number >= _MAX_TRIED:
            return True
        try:
            if value_of(dict(zip(names, values, strict=True))) == 0:
                return True
        except (ExpressionError, ArithmeticError, TypeError, ValueError):
            return True
    return False


def _filtered(
    configurations: list[tuple[Value, ...]], filters: list[tuple[Restriction, ast.expr]], derived: Derived
) -> list[tuple[Value, ...]]:
    """The configurations that satisfy every filter.

    A filter is evaluated once per distinct combination of the parameters that it depends on. If it has no value for a
    configuration (a division by zero), that is an error only if all other filters accept the configuration.
    """
    undecided: dict[tuple[Value, ...], ExpressionError] = {}
    for restriction, tree in filters:
        depends_on, substituted = derived.parameters(tree), evaluator_of(tree)
        names = [name for name in derived.order if name in depends_on]
        pick = itemgetter(*(derived.order.index(name) for name in names))
        verdicts: dict[Any, bool | ExpressionError] = {}
        accepted = []
        for configuration in configurations:
            part = pick(configuration)
            verdict = verdicts.get(part)
            if verdict is None:
                values = dict(zip(names, part if len(names) > 1 else (part,), strict=True))
                try:
                    verdict = holds(restriction, substituted, derived.names(values))
                except ExpressionError as error:
                    verdict = error
                verdicts[part] = verdict
            if isinstance(verdict, ExpressionError):
                undecided.setdefault(configuration, verdict)
            if verdict:  # an ExpressionError is true, too: a later filter may reject the configuration
                accepted.append(configuration)
        configurations = accepted
    for configuration in configurations if undecided else []:
        if configuration in undecided:
            raise undecided[configuration]
    return configurations
