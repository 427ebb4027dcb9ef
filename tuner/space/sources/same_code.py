"""Tell which configurations have the same code and launch."""

from collections.abc import Iterator

from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.sources import rendering
from tuner.space.sources.preprocessor import preprocessed


def is_same_code(one: Instance, other: Instance) -> bool:
    """Whether two valid configurations of a space provably have the same code and launch.

    Any difference between their times is then noise. False means that it could not be proven.
    """
    if not have_same_arguments(one, other):
        return False
    pairs = [*zip(rendering.render(one), rendering.render(other), strict=True)]
    if one.space.python_language is not None:
        return all((a.source, a.geometry, a.arguments) == (b.source, b.geometry, b.arguments) for a, b in pairs)
    return all(
        (a.kernel, a.geometry, a.arguments, a.source.options) == (b.kernel, b.geometry, b.arguments, b.source.options)
        and (left := preprocessed(a.source.text)) is not None
        and left == preprocessed(b.source.text)
        for a, b in pairs
    )


def have_same_arguments(one: Instance, other: Instance) -> bool:
    """Whether no argument of the kernels depends on a parameter in which two configurations of a space differ."""
    space = one.space
    changed = {name for name in space.parameters if one.config[name] != other.config[name]}
    return not changed & set(space.parameters_behind(_names_of_arguments(space)))


def _names_of_arguments(space: Space) -> Iterator[str]:
    for argument in (*space.operation.arguments, *space.operation.numbers):
        of_kind = argument.kind.expressions.values() if argument.kind else ()
        yield argument.dtype
        for each in (argument.shape or (), argument.value, argument.strides, *of_kind):
            for expression in each:
                yield from expression.names
