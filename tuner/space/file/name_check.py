"""Checks the names of a space file: those in expressions, which are not nested too deeply, and in configurations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from tuner.quoting import quoted, shown
from tuner.space import expressions
from tuner.space.argument import Argument
from tuner.space.config import Value, contains
from tuner.space.expressions import ArrayExpression, Expression, evaluator
from tuner.space.file.yamlfile import Document, Where


def check_passed(document: Document, where: Where, expression: Expression, arguments: Iterable[Argument]) -> None:
    """Raise SpaceError if the expression reads memory that no caller passes, whose contents are unknown."""
    for argument in arguments:
        if argument.name in expression.names and argument.shape is not None and not argument.is_array:
            kind = argument.role or (argument.kind.name if argument.kind is not None else "")
            raise document.error(
                where,
                f"`{shown(expression.text)}`: {argument.name} is {kind}, whose contents are unknown; use arrays "
                "that the caller passes",
            )


def check_names(
    document: Document,
    where: Where,
    expression: Expression,
    names: Iterable[str],
    depths: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Raise SpaceError for a name that is not in `names`, too deep nesting, or a constant part without a value.

    where: the key of the expression in the document.
    depths: the nesting depths of the derived values.
    """
    for name in sorted(expression.names - set(names)):
        raise document.error(where, f"`{shown(expression.text)}`: {evaluator.unknown_name(name, names)}")
    if not {"reference", "derive"} & set(where) and expressions.multiplies_matrices(expression):
        raise document.error(where, f"`{shown(expression.text)}`: @ is allowed only in `reference:` and `derive:`")
    depth = evaluator.depth(expression.tree, depths)
    if depth > evaluator.MAX_DEPTH:
        raise document.error(
            where,
            f"`{shown(expression.text)}`: nested {depth} levels deep, including its derived values; at most "
            f"{evaluator.MAX_DEPTH} are allowed; shorten the chain",
        )
    if not isinstance(expression, ArrayExpression):  # array expressions are evaluated on small arrays
        with document.at(where):
            expressions.check_constants(expression)


def check_config(
    document: Document,
    where: Where,
    config: Mapping[str, Value],
    parameters: Mapping[str, Sequence[Value]],
    misspelt: Callable[[str], str] = lambda name: "",
) -> None:
    """Raise SpaceError unless a configuration at the key `where` has a declared value for each parameter.

    misspelt: the message about a name that nearly is a parameter's; empty for others.
    """
    for name, value in config.items():
        if name not in parameters:
            raise document.error((*where, name), misspelt(name) or evaluator.unknown_name(name, parameters))
        if not contains(parameters[name], value):
            allowed = shown(parameters[name])
            raise document.error((*where, name), f"{quoted(value)} is not a declared value; allowed: {allowed}")
    if missing := [name for name in parameters if name not in config]:
        raise document.error(where, f"no value for {shown(', '.join(missing))}")
