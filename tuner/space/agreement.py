"""Whether a space and the text of its source agree: on the kernel's arguments, and on what the parameters are for.

Only what the text tells for certain is a fault.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.paths import shown
from tuner.space.dtypes import DTYPES, DType
from tuner.space.expressions import Expression
from tuner.space.model import Argument, Space
from tuner.space.prototype import Parameter, Prototype, prototypes
from tuner.space.source import without_comments

MOST_TEXT = 1 << 20  # characters; of a longer source, nothing is concluded

Where = tuple[str | int, ...]


@dataclass(frozen=True)
class Fault:
    """What a space says that its source does not, and the key where it does. A `fatal` one could not be launched."""

    where: Where
    message: str
    fatal: bool = False


def faults(space: Space, text: str) -> Iterator[Fault]:
    """Where `space` and the `text` of its source, headers included, do not agree."""
    if len(text) > MOST_TEXT:
        return
    yield from _arguments(space, text)
    yield from _parameters(space, without_comments(text))


def _arguments(space: Space, text: str) -> Iterator[Fault]:
    named = [prototype for prototype in prototypes(text) if prototype.name == space.kernel]
    if "c" not in space.languages:
        named = [prototype for prototype in named if prototype.is_kernel]
    mentions = re.findall(rf"\b{space.kernel}\s*\(", without_comments(text))
    if len(mentions) == len(named) == 1:  # else one may be another's alternative, under an #if
        yield from _against(space, named[0])


def _against(space: Space, prototype: Prototype) -> Iterator[Fault]:
    arguments, parameters = space.operation.arguments, prototype.parameters
    if parameters is None:
        return
    if len(arguments) != len(parameters):
        taken = ", ".join(map(str, parameters)) or "nothing"
        declared = ", ".join(argument.name for argument in arguments)
        yield Fault(
            ("operation", "arguments"),
            f"{len(arguments)} arguments ({shown(declared)}); {space.kernel} in {space.source.name} takes "
            f"{len(parameters)} ({shown(taken)}); write one for each, in this order",
            fatal=len(arguments) < len(parameters),
        )
        return
    for position, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
        yield from _argument(space, position, argument, parameter)


def _argument(space: Space, position: int, argument: Argument, parameter: Parameter) -> Iterator[Fault]:
    where, is_array = ("operation", "arguments", position), argument.shape is not None
    takes = f"{argument.name}: {space.kernel} in {space.source.name} takes `{shown(parameter)}` here"
    if parameter.is_pointer is not None and parameter.is_pointer != is_array:
        array, scalar = "an array; say its `shape` and `role`", "a scalar; leave `shape` and `role` out"
        yield Fault(where, f"{takes}, {array if parameter.is_pointer else scalar}", fatal=True)
    elif parameter.dtype is not None and parameter.type not in (*space.parameters, *space.derived):
        choices = space.operation.types.get(argument.dtype, (argument.dtype,))
        other = next((dtype for dtype in choices if not _is_same(DTYPES[dtype], is_array, parameter)), None)
        if other is not None and len(choices) > 1:
            advice = f"which is no {other}, as {argument.dtype} may be; write {argument.dtype} in the source"
            yield Fault((*where, "dtype"), f"{takes}, {advice}")
        elif other is not None:
            yield Fault((*where, "dtype"), f"{takes}, which is no {other}; write {parameter.dtype}")


def _is_same(dtype: DType, is_array: bool, parameter: Parameter) -> bool:
    """Whether a source may mean `dtype` by the type of `parameter`. The sign of a scalar makes no difference; that of
    `char` differs by compiler."""
    given = DTYPES[str(parameter.dtype)]
    if given == dtype or parameter.type in dtype.words:
        return True
    if given.kind == dtype.kind == "integer":
        return given.itemsize == dtype.itemsize and (not is_array or parameter.type == "char")
    return _stands_for(given, dtype) or _stands_for(dtype, given)


def _stands_for(plain: DType, dtype: DType) -> bool:
    """Whether a language without `dtype` may take `plain` in its place: the bits of it, or its parts."""
    if dtype.part:
        return plain.name == dtype.part
    return (dtype.foreign or dtype.kind == "boolean") and plain.kind == "integer" and plain.itemsize == dtype.itemsize


def _parameters(space: Space, code: str) -> Iterator[Fault]:
    """Each parameter that has a choice of values, though nothing reads it."""
    if "##" in code or re.search(r"^\s*#\s*include\s+\w", code, re.MULTILINE):
        return  # names may be glued together, or stand in a file that a macro names
    expressions: list[Expression] = [
        *space.derived.values(), *space.grid, *space.block, space.shared_memory,
        *(restriction.that for restriction in space.restrictions),
    ]  # fmt: skip
    options = [option for options in space.compile_options.values() for option in options]
    used = set(re.findall(r"\w+", " ".join([code, *options])))
    used |= {name for expression in expressions for name in expression.names}
    for name, values in space.parameters.items():
        if name not in used and len(values) > 1:
            yield Fault(
                ("parameters", name),
                f"no text uses it, neither {space.source.name} nor an expression, so its {len(values)} values make no "
                "difference; use it as a macro, or take it out",
            )
