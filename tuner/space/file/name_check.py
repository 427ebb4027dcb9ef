"""Whether an expression of a file names what there is, and is no deeper than may be."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tuner.errors import ExpressionError
from tuner.quoting import shown
from tuner.space import expressions
from tuner.space.argument import Argument
from tuner.space.expressions import ArrayExpression, Expression, evaluator
from tuner.space.file.yamlfile import Document, Where


def check_passed(document: Document, where: Where, expression: Expression, arguments: Iterable[Argument]) -> None:
    """Raise SpaceError for the name of memory that no caller passes: nothing is known of its contents."""
    for argument in arguments:
        if argument.name in expression.names and argument.shape is not None and not argument.is_array:
            what = argument.role or (argument.kind.name if argument.kind is not None else "")
            raise document.error(
                where,
                f"`{shown(expression.text)}`: {argument.name} is {what}, which holds nothing that a caller knows; name "
                "arrays that are passed",
            )


def check_names(
    document: Document,
    where: Where,
    expression: Expression,
    names: Iterable[str],
    depths: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Raise SpaceError, at `where` in the document, for a name that is none of `names`, and for an expression that
    cannot have a value. `depths` are those of the derived values."""
    for name in sorted(expression.names - set(names)):
        raise document.error(where, f"`{shown(expression.text)}`: {evaluator.unknown_name(name, names)}")
    if not {"reference", "derive"} & set(where) and expressions.multiplies_matrices(expression):
        raise document.error(where, f"`{shown(expression.text)}`: @ is for the arrays of a reference")
    depth = evaluator.depth(expression.tree, depths)
    if depth > evaluator.MAX_DEPTH:
        raise document.error(
            where,
            f"`{shown(expression.text)}`: nested {depth} deep with the derived values that it names; at most "
            f"{evaluator.MAX_DEPTH} are allowed; write a shorter chain",
        )
    try:
        if not isinstance(expression, ArrayExpression):  # those are tried on small arrays
            expressions.check_constants(expression)
    except ExpressionError as error:
        raise document.error(where, str(error)) from None
