"""Check that a space and its source agree about kernel arguments, variables and macros.

A disagreement is reported only if the text proves it.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tuner.classes import dataclass
from tuner.errors import SpaceError
from tuner.quoting import shown
from tuner.space import chosen_types, expressions, loops
from tuner.space.argument import Argument
from tuner.space.dtypes import DTYPES, DType, complex_of
from tuner.space.expressions import Expression, braces
from tuner.space.model import Space
from tuner.space.sources import source_text, struct_text, type_names
from tuner.space.sources.checks import declared_memory, flag_faults, ignored, launch_bounds, macros
from tuner.space.sources.checks.uses import files
from tuner.space.sources.includes import without_comments
from tuner.space.sources.prototype import Parameter, Prototype, prototypes
from tuner.space.step import Step

MOST_TEXT = 1 << 20  # characters; a longer source is not checked
# Types that no parameter of a kernel in OpenCL C may have, with those to write instead, which other languages know too.
_FORBIDDEN = {
    "bool": "unsigned char",
    "size_t": "unsigned long",
    "uintptr_t": "unsigned long",
    "ptrdiff_t": "long",
    "intptr_t": "long",
}
_NO_FLOATS = ("void", "double", "int", "long", "unsigned")  # that a function in C may return in place of its time
_ADDRESSES = (DTYPES["uint64"], DTYPES["int64"])

KeyPath = tuple[str | int, ...]  # ("operation", "arguments", 1, "dtype")


@dataclass(frozen=True)
class Fault:
    """A disagreement between a space and its source; `where` is the key of the space file.

    A `fatal` one makes the kernel impossible to launch, or makes it access memory outside its arrays.
    """

    where: KeyPath
    message: str
    fatal: bool = False


def faults(space: Space, texts: Mapping[Path, str]) -> Iterator[Fault]:
    """The disagreements between `space` and `texts`, its sources with headers included."""
    if space.python_language is not None:
        from tuner.space.sources.checks import python_faults  # other spaces need no Python's syntax

        yield from (Fault(*found) for found in python_faults.faults(space))
        return
    if sum(map(len, texts.values())) > MOST_TEXT:
        return
    codes = {path: without_comments(text) for path, text in texts.items()}
    for position, step in enumerate(space.steps):
        if (prototype := _prototype(space, step, texts[step.source], codes[step.source])) is not None:
            yield from _forbidden(space, position, prototype, codes[step.source])
            yield from _time_faults(space, prototype, codes[step.source])
            yield from _argument_faults(space, position, prototype, codes[step.source])
            yield from (Fault(*clash) for clash in macros.name_clashes(space, position, prototype))
            yield from _namespace(space, position, prototype, codes[step.source])
            yield from (Fault(*fault) for fault in ignored.registers(space, position, prototype))
            yield from (Fault(*fault) for fault in launch_bounds.faults(space, prototype, codes[step.source]))
        for where, message in declared_memory.missing_dynamic(space, position, codes[step.source]):
            yield Fault(where, message, fatal=True)
    yield from _undeclared(space, "\n".join(codes.values()))
    yield from (Fault(*fault) for fault in macros.faults(space, codes))
    yield from (Fault(*fault) for fault in flag_faults.faults(space, tuple(codes.values())))
    yield from (Fault(*fault) for fault in ignored.pragmas(space, tuple(codes.values())))
    yield from (Fault(*fault) for fault in ignored.unrolled(space, tuple(codes.values())))


def warnings(space: Space) -> Iterator[str]:
    """A message for each fault that is not fatal: with such a fault, a search may be useless."""
    try:
        texts = {path: source_text.device(space, path) for path in space.sources}
    except SpaceError:
        return  # a missing header is reported when the source is rendered
    yield from missing_headers(space)
    for fault in faults(space, texts):
        if not fault.fatal:
            where = fault.where
            if where[:1] == ("steps",) and len(where) > 1:
                where = ("steps", *loops.place(space.order, int(where[1])), *where[2:])
            yield f"{space.origin}: {shown('.'.join(map(str, where)))}: {fault.message}"


def missing_headers(space: Space) -> Iterator[str]:
    """A message for each header in quotes that is nowhere, in a file with host code, which may be all that needs it."""
    for path in space.sources:
        yield from (f"{fault}; until then it is taken as empty" for fault in source_text.missing(space, path))


def clusters(space: Space) -> Iterator[tuple[int, tuple[Expression, ...]]]:
    """The blocks per cluster that kernels declare by `__cluster_dims__`, by the number of the step.

    An extent that is no expression of the space's names, such as one in a macro of the source, is left out.
    """
    for number, step in enumerate(space.steps):
        try:
            text = source_text.device(space, step.source)
            prototype = _prototype(space, step, text, without_comments(text)) if "__cluster_dims__" in text else None
            extents = tuple(expressions.parse(extent) for extent in (prototype.cluster if prototype else ()))
        except SpaceError:  # a missing header is reported when the source is checked
            continue
        if extents and all(extent.names <= {*space.parameters, *space.derived} for extent in extents):
            yield number, extents


def _prototype(space: Space, step: Step, text: str, code: str) -> Prototype | None:
    """The prototype of a step's kernel; None unless the source mentions that name exactly once.

    With several definitions, the preprocessor may choose one of them.
    """
    named = [prototype for prototype in prototypes(text) if re.fullmatch(braces.pattern(step.kernel), prototype.name)]
    if "c" not in space.languages:
        named = [prototype for prototype in named if prototype.is_kernel]
    mentions = re.findall(rf"\b{braces.pattern(step.kernel)}\s*\(", code)
    return named[0] if len(mentions) == len(named) == 1 else None


def _namespace(space: Space, position: int, prototype: Prototype, code: str) -> Iterator[Fault]:
    """The fault of a kernel name that lacks its namespace, so the compiler cannot find it."""
    kernel = space.steps[position].kernel
    if prototype.namespace and "::" not in kernel and not re.search(r"\busing\b", code):
        message = f"{prototype.name} is in a namespace of {space.steps[position].source.name}"
        yield Fault(("steps", position, "kernel"), f"{message}; write {prototype.namespace}{kernel}", fatal=True)


def _undeclared(space: Space, code: str) -> Iterator[Fault]:
    """Arguments of kinds that need a variable in the source, such as `constant`, if it is missing or too small."""
    for position, argument in enumerate(space.operation.arguments):
        kind, name = argument.kind, argument.name
        languages = [language for language in space.languages if kind is not None and not kind.is_parameter(language)]
        if not languages or kind is None:
            continue
        if "##" not in code and re.search(rf"\b{name}\b", code) is None:
            yield Fault(
                ("operation", "arguments", position, "name"),
                f"{files(space)} has no variable {name}, which `kind: {kind.name}` needs in {languages[0]}; "
                "declare it, or give the argument the name of its variable",
                fatal=True,
            )
        if message := declared_memory.too_large(argument, code):
            yield Fault(("operation", "arguments", position, "shape"), message, fatal=True)


def _time_faults(space: Space, prototype: Prototype, code: str) -> Iterator[Fault]:
    """The fault of a function that should return its time as a float, and returns something else."""
    found = re.search(rf"\b({'|'.join(_NO_FLOATS)})\s+{re.escape(prototype.name)}\s*\(", code)
    if space.returns_time and found is not None:
        message = f"{prototype.name} returns {found[1]}; let it return its time in ms as a float, or remove this key"
        yield Fault(("timing",), message, fatal=True)


def _argument_faults(space: Space, position: int, prototype: Prototype, code: str) -> Iterator[Fault]:
    """Disagreements between a step's arguments and the parameters of its kernel."""
    step, parameters = space.steps[position], prototype.parameters
    by_name = {argument.name: argument for argument in space.operation.arguments}
    arguments = [by_name[name] for name in step.arguments]
    kinds = [a.kind for a in arguments if a.kind is not None]
    ways = [{f(name) for name in space.languages for f in (k.is_parameter, k.may_be_parameter)} for k in kinds]
    if parameters is None or any(len(each) > 1 for each in ways):
        return  # the parameters are unknown, or their number depends on the language or the configuration
    arguments = [a for a in arguments if a.kind is None or a.kind.is_parameter(space.languages[0])]
    if len(arguments) != len(parameters):
        taken = ", ".join(map(str, parameters)) or "nothing"
        declared = ", ".join(argument.name for argument in arguments)
        yield Fault(
            ("operation", "arguments") if step.arguments == space.operation.taken else ("steps", position, "arguments"),
            f"{len(arguments)} arguments ({shown(declared)}); {step.kernel} in {step.source.name} takes "
            f"{len(parameters)} ({shown(taken)}); write one for each, in this order",
            fatal=len(arguments) < len(parameters),
        )
        return
    for argument, parameter in zip(arguments, parameters, strict=True):
        if argument.kind is None:
            yield from _parameter_faults(space, position, argument, parameter, code)


def _forbidden(space: Space, position: int, prototype: Prototype, code: str) -> Iterator[Fault]:
    """Scalars of the kernel whose types OpenCL C forbids, although it knows them elsewhere."""
    if "opencl" not in space.languages:
        return
    step, names = space.steps[position], [argument.name for argument in space.operation.arguments]
    aliases = re.findall(rf"\btypedef\s+({'|'.join(_FORBIDDEN)})\s+(\w+)\s*;", code)
    types = {**_FORBIDDEN, **{alias: _FORBIDDEN[plain] for plain, alias in aliases}}
    for name, parameter in zip(step.arguments, prototype.parameters or (), strict=False):
        if not parameter.stars and (instead := types.get(parameter.type)) is not None:
            yield Fault(
                ("operation", "arguments", names.index(name)),
                f"{name}: {step.kernel} in {step.source.name} takes `{shown(parameter)}` here, a type that OpenCL C "
                f"forbids for arguments of kernels; write {instead} in the source",
            )


def _parameter_faults(
    space: Space, number: int, argument: Argument, parameter: Parameter, code: str
) -> Iterator[Fault]:
    """Disagreements between an argument and the parameter that receives it in step `number`."""
    step, position = space.steps[number], space.operation.arguments.index(argument)
    written, parameter = parameter, _by_own_name(space, parameter, code)
    where, is_array = ("operation", "arguments", position), argument.shape is not None
    has_own_order = step.arguments != space.operation.taken
    takes = f"{argument.name}: {step.kernel} in {step.source.name} takes `{shown(written)}` here"
    if parameter.kind:
        yield Fault((*where, "kind"), f"{takes}; write `kind: {parameter.kind}`", fatal=True)
    elif parameter.is_pointer is not None and parameter.is_pointer != is_array:
        if has_own_order:
            kind = "an array" if parameter.is_pointer else "a scalar"
            key = ("steps", number, "arguments", step.arguments.index(argument.name))
            yield Fault(key, f"{takes}, {kind}; list the arguments in the kernel's order", fatal=True)
            return
        array, scalar = "an array; write its `shape` and `role`", "a scalar; remove `shape` and `role`"
        yield Fault(where, f"{takes}, {array if parameter.is_pointer else scalar}", fatal=True)
    elif not is_array and (message := struct_text.fault(argument, parameter, code, space.operation.types)):
        yield Fault(where, f"{takes}, {message}", fatal=bool(argument.fields))  # a number may have a struct's bytes
    elif argument.fields:
        arrays = {each.name: each for each in space.operation.arguments}
        for name, member in struct_text.pointees(argument, parameter, code):
            yield from _parameter_faults(space, number, arrays[name], member, code)
    elif is_array and parameter.stars > 1:
        if DTYPES.get(argument.dtype, DTYPES["uint64"]) in _ADDRESSES:
            return
        advice = "a pointer to pointers; pass one array and offsets into it, or declare an array of uint64"
        yield Fault((*where, "dtype"), f"{takes}, {advice}", fatal=True)
    elif parameter.dtype is not None and parameter.type not in (*space.parameters, *space.derived):
        if argument.dtype in space.parameters:
            return  # scratch, for which the source gets the type as a macro
        choices = chosen_types.choices(argument, space.operation.types)
        other = next((dtype for dtype in choices if not _matches(dtype, is_array, parameter)), None)
        if other is not None and len(choices) > 1:
            advice = f"which is not {other.name}, a choice of {argument.dtype}; write {argument.dtype} in the source"
        elif other is not None:
            advice = f"which is not {other.name}; write {_dtype_advice(parameter, is_array)}"
        if other is not None:
            fatal = all(_is_misread(dtype, is_array, parameter) for dtype in choices)
            yield Fault((*where, "dtype"), f"{takes}, {advice}", fatal)


def _by_own_name(space: Space, parameter: Parameter, code: str) -> Parameter:
    """The parameter with its built-in type, if the source has another name for it, and nothing else may define that."""
    if parameter.dtype is not None or not parameter.type.isidentifier():
        return parameter
    given = {*space.operation.types, *space.parameters, *space.derived}
    options = " ".join(option for each in space.compile_options.values() for option in each)
    names = {name: kind for name, kind in _type_names(code).items() if name not in given}
    if re.search(rf"-D\s*(?:{'|'.join(map(re.escape, names))})\b", options):
        return parameter
    return replace(parameter, type=type_names.resolved(parameter.type, names))


@functools.lru_cache(maxsize=8)
def _type_names(code: str) -> Mapping[str, str]:
    """The other names for types in a source, which each of its arguments asks for."""
    return type_names.aliases(code)


def _is_misread(dtype: DType, is_array: bool, parameter: Parameter) -> bool:
    """Whether passing `dtype` leads to wrong memory accesses.

    They occur if the elements of an array differ in size, or if a scalar is one number where the kernel reads several.
    """
    element = DTYPES[str(parameter.dtype)].itemsize
    if not is_array:
        return parameter.width > 1 and not _matches(dtype, False, parameter)
    return not _matches(dtype, True, parameter) and dtype.itemsize not in (element, element * parameter.width)


def _dtype_advice(parameter: Parameter, is_array: bool) -> str:
    """The dtype to declare for `parameter`, for a message."""
    whole = complex_of(str(parameter.dtype))
    if not is_array and parameter.width > 1:
        complex_number = f"{whole} if it is a complex number, else " if parameter.is_pair else ""
        return f"{complex_number}{struct_text.dtype(parameter)} with {parameter.width} values"
    if not parameter.is_pair:
        return str(parameter.dtype)
    return f"{whole}, or {parameter.dtype} with 2 as the last extent of its shape"


def _matches(dtype: DType, is_array: bool, parameter: Parameter) -> bool:
    """Whether the type of `parameter` may mean `dtype`.

    The sign of an integer scalar does not matter, nor does that of `char`, which depends on the compiler.
    """
    given = DTYPES[str(parameter.dtype)]
    if not is_array and parameter.width > 1:
        return parameter.is_pair and dtype.part == given.name
    if given == dtype or parameter.type in dtype.words:
        return True
    if given.kind == dtype.kind == "integer":
        return given.itemsize == dtype.itemsize and (not is_array or parameter.type == "char")
    return _stands_for(given, dtype) or _stands_for(dtype, given)


def _stands_for(plain: DType, dtype: DType) -> bool:
    """Whether a language without `dtype` may use `plain` for it: an integer with its bits, or the type of its parts."""
    if dtype.part:
        return plain.name == dtype.part
    return (dtype.foreign or dtype.kind == "boolean") and plain.kind == "integer" and plain.itemsize == dtype.itemsize
