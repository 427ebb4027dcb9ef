"""Tell which configurations have the same code and launch."""

from collections.abc import Iterator

from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.sources import rendering
from tuner.space.sources.preprocessor import preprocessed


def is_same_code(one: Instance, other: Instance) -> bool:
    """Whether two valid configurations of a space, or of two of its sources, provably have the same code and launch.

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
    """Whether no argument of the kernels depends on a parameter in which two configurations of a space differ.

    Those of two sources of a kernel must also declare the same arguments, steps and derived values.
    """
    space = one.space
    if space is not other.space and not _declare_alike(one, other):
        return False
    changed = {name for name in space.parameters if one.config[name] != other.config.get(name)}
    return not changed & set(space.parameters_behind(_names_of_arguments(space)))


def _declare_alike(one: Instance, other: Instance) -> bool:
    """Whether two spaces differ in their sources, parameters and geometry alone.

    Arguments that depend on the configuration, and loops, are the same only if all that they may read is.
    """
    first, second = one.space, other.space
    if first.operation.arguments != second.operation.arguments or first.alignment != second.alignment:
        return False
    if len(first.steps) != len(second.steps) or first.returns_time != second.returns_time:
        return False
    reads = first.parameters_behind(_names_of_arguments(first)) or first.order or second.order
    alike = one.config == other.config and first.derived == second.derived and first.order == second.order
    return alike or not reads


def _names_of_arguments(space: Space) -> Iterator[str]:
    for argument in (*space.operation.arguments, *space.operation.numbers):
        of_kind = argument.kind.expressions.values() if argument.kind else ()
        yield argument.dtype
        for each in (argument.shape or (), argument.value, argument.strides, *of_kind):
            for expression in each:
                yield from expression.names
