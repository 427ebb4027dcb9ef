"""Whether a space and the text of its source agree: on the kernel's arguments, and on what the parameters are for.

Only what the text tells for certain is a fault.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.paths import shown
from tuner.space import braces, declared_memory
from tuner.space.dtypes import DTYPES, DType
from tuner.space.expressions import Expression
from tuner.space.model import Argument, Space, Step
from tuner.space.prototype import Parameter, Prototype, prototypes
from tuner.space.source import macro_names, without_comments

MOST_TEXT = 1 << 20  # characters; of a longer source, nothing is concluded
_ADDRESSES = (DTYPES["uint64"], DTYPES["int64"])

_DEFINITION = re.compile(
    r"^\s*#\s*(if|endif|define)\w*(?:[ \t]+(\w+))?|\b(?:const|constexpr)\b[^;{}()=\n]{,200}?\b(\w+)\s*=(?!=)",
    re.MULTILINE,
)

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
            yield from _replaced(space, position, prototype)
            yield from _namespace(space, position, prototype, codes[step.source])
        for where, message in declared_memory.dynamic(space, position, codes[step.source]):
            yield Fault(where, message, fatal=True)
    yield from _variables(space, "\n".join(codes.values()))
    yield from _parameters(space, "\n".join(codes.values()))
    for path, code in codes.items():
        yield from _defined(space, path, code)


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


def _replaced(space: Space, position: int, prototype: Prototype) -> Iterator[Fault]:
    """Macros that replace a name of the kernel's own, so that it does not compile."""
    step = space.steps[position]
    template, own = prototype.template or {}, {p.name for p in prototype.parameters or ()}
    for name in macro_names(space):
        where = _key(space, name)
        if name in template:
            arguments = ", ".join(f"{{{each}}}" for each in template)
            yield Fault(
                ("steps", position, "kernel"),
                f"{name} is a parameter of the template in {step.source.name}, where the macro of that name replaces "
                f"it; write {braces.function(step.kernel)}<{arguments}>",
            )
        elif name in own:
            yield Fault(
                (where, name),
                f"{step.kernel} in {step.source.name} takes an argument of this name, which the macro replaces; "
                "rename one of them",
            )


def _variables(space: Space, code: str) -> Iterator[Fault]:
    """Arguments that are variables of the source and not there, or replaced by a macro."""
    for position, argument in enumerate(space.operation.arguments):
        kind, name = argument.kind, argument.name
        languages = [language for language in space.languages if kind is not None and not kind.is_parameter(language)]
        if not languages or kind is None:
            continue
        if "##" not in code and re.search(rf"\b{name}\b", code) is None:
            yield Fault(
                ("operation", "arguments", position, "name"),
                f"{_files(space)} has no variable {name}, which `kind: {kind.name}` is in {languages[0]}; declare it, "
                "or name the argument as it is called there",
                fatal=True,
            )
        if message := declared_memory.too_large(argument, code):
            yield Fault(("operation", "arguments", position, "shape"), message, fatal=True)
        if name in macro_names(space):
            yield Fault(
                (_key(space, name), name),
                f"the variable of this name in {_files(space)} is an argument, and the macro replaces it; rename one",
            )


def _key(space: Space, name: str) -> str:
    return "parameters" if name in space.parameters else "derived" if name in space.derived else "types"


def _defined(space: Space, path: Path, code: str) -> Iterator[Fault]:
    """Macros that the source defines anew, whatever their values, so that these make no difference."""
    depth = 0
    for directive, defined, constant in _DEFINITION.findall(code):
        depth += (directive == "if") - (directive == "endif")
        if depth == 0 and directive == "define" and defined in macro_names(space):
            yield Fault(
                (_key(space, defined), defined),
                f"{path.name} defines it itself, so that no value has an effect; write #ifndef {defined} before "
                "that line, and #endif after it",
            )
        if depth == 0 and constant in macro_names(space):
            yield Fault(
                (_key(space, constant), constant),
                f"{path.name} defines it as a constant, whose name the macro replaces; write #ifndef {constant}, "
                f"#define {constant} with its value, and #endif in its place",
            )


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


def _files(space: Space) -> str:
    return shown(", ".join(path.name for path in space.sources))


def _parameters(space: Space, code: str) -> Iterator[Fault]:
    """Each parameter that has a choice of values, though nothing reads it."""
    if "##" in code or re.search(r"^\s*#\s*include\s+\w", code, re.MULTILINE):
        return  # names may be glued together, or stand in a file that a macro names
    expressions: list[Expression] = [
        *space.derived.values(), *(expression for step in space.steps for expression in step.expressions),
        *(restriction.that for restriction in space.restrictions),
        *(extent for argument in space.operation.arguments for extent in argument.shape or ()),
        *(value for argument in space.operation.scalars for value in argument.value),
        *(e for a in space.operation.arguments if a.kind for values in a.kind.expressions.values() for e in values),
    ]  # fmt: skip
    options = [option for options in space.compile_options.values() for option in options]
    used = set(re.findall(r"\w+", " ".join([code, *(step.kernel for step in space.steps), *options])))
    used |= {name for expression in expressions for name in expression.names}
    used |= {argument.dtype for argument in space.operation.scratch}
    op = space.operation
    for name, allowed in op.types.items():
        if name not in used and len(allowed) > 1 and all(argument.dtype != name for argument in op.arguments):
            yield Fault(
                ("operation", "types", name),
                f"neither {_files(space)} nor an argument uses it, so its {len(allowed)} types make no difference; "
                "use it as a macro, or take it out",
            )
    for name, values in space.parameters.items():
        if name not in used and len(values) > 1:
            yield Fault(
                ("parameters", name),
                f"no text uses it, neither {_files(space)} nor an expression, so its {len(values)} values make no "
                "difference; use it as a macro, or take it out",
            )
