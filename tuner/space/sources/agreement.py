"""Whether a space and the text of its source agree: on the kernel's arguments, and on macros, as `macros` says.

Only what the text tells for certain is a fault.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import SpaceError
from tuner.paths import relative_to_cwd
from tuner.quoting import shown
from tuner.space.argument import Argument
from tuner.space.dtypes import DTYPES, DType
from tuner.space.expressions import braces
from tuner.space.model import Space, Step
from tuner.space.sources import declared_memory, macros
from tuner.space.sources.includes import inlined, without_comments
from tuner.space.sources.prototype import Parameter, Prototype, prototypes

MOST_TEXT = 1 << 20  # characters; of a longer source, nothing is concluded
_ADDRESSES = (DTYPES["uint64"], DTYPES["int64"])

Where = tuple[str | int, ...]


@dataclass(frozen=True)
class Fault:
    """What a space says that its source does not, and the key where it does. A `fatal` one could not be launched, or
    would reach beside its arrays."""

    where: Where
    message: str
    fatal: bool = False


def faults(space: Space, texts: Mapping[Path, str]) -> Iterator[Fault]:
    """Where `space` and the `texts` of its sources, headers included, do not agree."""
    if sum(map(len, texts.values())) > MOST_TEXT:
        return
    codes = {path: without_comments(text) for path, text in texts.items()}
    for position, step in enumerate(space.steps):
        if (prototype := _prototype(space, step, texts[step.source], codes[step.source])) is not None:
            yield from _against(space, position, prototype)
            yield from (Fault(*found) for found in macros.replaced(space, position, prototype))
            yield from _namespace(space, position, prototype, codes[step.source])
        for where, message in declared_memory.dynamic(space, position, codes[step.source]):
            yield Fault(where, message, fatal=True)
    yield from _undeclared(space, "\n".join(codes.values()))
    yield from (Fault(*found) for found in macros.faults(space, codes))


def warnings(space: Space) -> Iterator[str]:
    """The faults that are not fatal: with these, a search may be in vain."""
    try:
        texts = {path: inlined(path, space.include) for path in space.sources}
    except SpaceError:
        return  # a header that is missing is told when it is needed
    for fault in faults(space, texts):
        if not fault.fatal:
            yield f"{relative_to_cwd(space.files[0])}: {shown('.'.join(map(str, fault.where)))}: {fault.message}"


def _prototype(space: Space, step: Step, text: str, code: str) -> Prototype | None:
    """The kernel, if there is one of its name alone: else one may be another's alternative, under an #if."""
    named = [prototype for prototype in prototypes(text) if re.fullmatch(braces.pattern(step.kernel), prototype.name)]
    if "c" not in space.languages:
        named = [prototype for prototype in named if prototype.is_kernel]
    mentions = re.findall(rf"\b{braces.pattern(step.kernel)}\s*\(", code)
    return named[0] if len(mentions) == len(named) == 1 else None


def _namespace(space: Space, position: int, prototype: Prototype, code: str) -> Iterator[Fault]:
    """A kernel that no compiler finds by the name in the file, because it is in a namespace."""
    kernel = space.steps[position].kernel
    if prototype.namespace and "::" not in kernel and not re.search(r"\busing\b", code):
        message = f"{prototype.name} is in a namespace of {space.steps[position].source.name}"
        yield Fault(("steps", position, "kernel"), f"{message}; write {prototype.namespace}{kernel}", fatal=True)


def _undeclared(space: Space, code: str) -> Iterator[Fault]:
    """Arguments that are variables of the source, and not there."""
    for position, argument in enumerate(space.operation.arguments):
        kind, name = argument.kind, argument.name
        languages = [language for language in space.languages if kind is not None and not kind.is_parameter(language)]
        if not languages or kind is None:
            continue
        if "##" not in code and re.search(rf"\b{name}\b", code) is None:
            yield Fault(
                ("operation", "arguments", position, "name"),
                f"{macros.files(space)} has no variable {name}, which `kind: {kind.name}` is in {languages[0]}; "
                "declare it, or name the argument as it is called there",
                fatal=True,
            )
        if message := declared_memory.too_large(argument, code):
            yield Fault(("operation", "arguments", position, "shape"), message, fatal=True)


def _against(space: Space, position: int, prototype: Prototype) -> Iterator[Fault]:
    step, parameters = space.steps[position], prototype.parameters
    by_name = {argument.name: argument for argument in space.operation.arguments}
    arguments = [by_name[name] for name in step.arguments]
    kinds = [a.kind for a in arguments if a.kind is not None]
    if parameters is None or any(len({kind.is_parameter(name) for name in space.languages}) > 1 for kind in kinds):
        return  # how many it takes depends on the language
    arguments = [a for a in arguments if a.kind is None or a.kind.is_parameter(space.languages[0])]
    if len(arguments) != len(parameters):
        taken = ", ".join(map(str, parameters)) or "nothing"
        declared = ", ".join(argument.name for argument in arguments)
        yield Fault(
            ("operation", "arguments") if step.arguments == tuple(by_name) else ("steps", position, "arguments"),
            f"{len(arguments)} arguments ({shown(declared)}); {step.kernel} in {step.source.name} takes "
            f"{len(parameters)} ({shown(taken)}); write one for each, in this order",
            fatal=len(arguments) < len(parameters),
        )
        return
    for argument, parameter in zip(arguments, parameters, strict=True):
        if argument.kind is None:
            yield from _argument(space, position, argument, parameter)


def _argument(space: Space, at: int, argument: Argument, parameter: Parameter) -> Iterator[Fault]:
    step, position = space.steps[at], space.operation.arguments.index(argument)
    where, is_array = ("operation", "arguments", position), argument.shape is not None
    has_own_order = step.arguments != tuple(a.name for a in space.operation.arguments)
    takes = f"{argument.name}: {step.kernel} in {step.source.name} takes `{shown(parameter)}` here"
    if parameter.is_pointer is not None and parameter.is_pointer != is_array:
        if has_own_order:
            kind = "an array" if parameter.is_pointer else "a scalar"
            place = ("steps", at, "arguments", step.arguments.index(argument.name))
            yield Fault(place, f"{takes}, {kind}; name the arguments in the kernel's order", fatal=True)
            return
        array, scalar = "an array; say its `shape` and `role`", "a scalar; leave `shape` and `role` out"
        yield Fault(where, f"{takes}, {array if parameter.is_pointer else scalar}", fatal=True)
    elif is_array and parameter.stars > 1:
        if DTYPES.get(argument.dtype, DTYPES["uint64"]) in _ADDRESSES:
            return
        advice = "addresses of arrays; take one array in the source, and offsets in it, or declare uint64"
        yield Fault((*where, "dtype"), f"{takes}, {advice}", fatal=True)
    elif parameter.dtype is not None and parameter.type not in (*space.parameters, *space.derived):
        choices = space.operation.types.get(argument.dtype, (argument.dtype,))
        if argument.dtype in space.parameters:
            return  # scratch, whose type the source reads as a macro
        other = next((dtype for dtype in choices if not _is_same(DTYPES[dtype], is_array, parameter)), None)
        if other is not None and len(choices) > 1:
            advice = f"which is no {other}, as {argument.dtype} may be; write {argument.dtype} in the source"
        elif other is not None:
            advice = f"which is no {other}; write {_instead(parameter, is_array)}"
        if other is not None:
            fatal = all(_is_misread(DTYPES[dtype], is_array, parameter) for dtype in choices)
            yield Fault((*where, "dtype"), f"{takes}, {advice}", fatal)


def _is_misread(dtype: DType, is_array: bool, parameter: Parameter) -> bool:
    """Whether the kernel would read or write beside the elements of an array of `dtype`, as they have another size, or
    would read several numbers where a launch gives one."""
    element = DTYPES[str(parameter.dtype)].itemsize
    if not is_array:
        return parameter.width > 1 and not _is_same(dtype, False, parameter)
    return not _is_same(dtype, True, parameter) and dtype.itemsize not in (element, element * parameter.width)


def _instead(parameter: Parameter, is_array: bool) -> str:
    """The dtype that a source means by the type of `parameter`."""
    whole = next((dtype.name for dtype in DTYPES.values() if dtype.part == parameter.dtype), "")
    if not is_array and parameter.width > 1:
        complex_number = f"{whole} if it is a complex number, else " if parameter.is_pair else ""
        return f"{complex_number}{parameter.width} arguments in its place, one for each number"
    if not parameter.is_pair:
        return str(parameter.dtype)
    return f"{whole}, or {parameter.dtype} with 2 as the last extent of its shape"


def _is_same(dtype: DType, is_array: bool, parameter: Parameter) -> bool:
    """Whether a source may mean `dtype` by the type of `parameter`. The sign of a scalar makes no difference; that of
    `char` differs by compiler."""
    given = DTYPES[str(parameter.dtype)]
    if not is_array and parameter.width > 1:
        return parameter.is_pair and dtype.part == given.name
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
