"""Whether the macros of a space mean something in its source: whether they are used, defined anew, or replace a name
that the source declares. Where one does not, a search is in vain: values make no difference, or none compiles."""

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tuner.quoting import shown
from tuner.space.expressions import Expression, braces
from tuner.space.model import Space
from tuner.space.sources.prototype import Prototype, is_type_word
from tuner.space.sources.rendering import macro_names

_DEFINITION = re.compile(
    r"^\s*#\s*(if|endif|define)\w*(?:[ \t]+(\w+))?|\b(?:const|constexpr)\b[^;{}()=\n]{,200}?\b(\w+)\s*=(?!=)"
    r"|\b([A-Za-z]\w*)[\s*&]+(\w+)\s*(?=[=;,)\[({>])",
    re.MULTILINE,
)
ALIKE = 0.7  # from which on two names may be one, misspelt

Found = tuple[tuple[str | int, ...], str]  # a fault: the key that it belongs to, and the message


def faults(space: Space, codes: Mapping[Path, str]) -> Iterator[Found]:
    """What is wrong with the macros, by the `codes` of the sources, which have no comments."""
    yield from _replaced_variables(space)
    yield from _unused(space, "\n".join(codes.values()))
    for path, code in codes.items():
        yield from _defined(space, path, code)


def replaced(space: Space, position: int, prototype: Prototype) -> Iterator[Found]:
    """Macros that replace a name of a step's kernel, so that it does not compile."""
    step = space.steps[position]
    template, own = prototype.template or {}, {p.name for p in prototype.parameters or ()}
    for name in macro_names(space):
        if name in template:
            arguments = ", ".join(f"{{{each}}}" for each in template)
            message = (
                f"{name} is a parameter of the template in {step.source.name}, where the macro of that name replaces "
                f"it; write {braces.function(step.kernel)}<{arguments}>"
            )
            yield ("steps", position, "kernel"), message
        elif name in own:
            message = (
                f"{step.kernel} in {step.source.name} takes an argument of this name, which the macro replaces; "
                "rename one of them"
            )
            yield (_key(space, name), name), message


def _replaced_variables(space: Space) -> Iterator[Found]:
    """Arguments that are variables of the source, and replaced by a macro."""
    for argument in space.operation.arguments:
        kind, name = argument.kind, argument.name
        if kind is None or all(kind.is_parameter(language) for language in space.languages):
            continue
        if name in macro_names(space):
            what = f"the variable of this name in {files(space)} is an argument"
            yield (_key(space, name), name), f"{what}, and the macro replaces it; rename one"


def _defined(space: Space, path: Path, code: str) -> Iterator[Found]:
    """Macros that the source defines anew, whatever their values, so that these make no difference; and those of whose
    names it declares something."""
    depth, names = 0, macro_names(space)
    for directive, defined, constant, kind, declared in _DEFINITION.findall(code):
        depth += (directive == "if") - (directive == "endif")
        if depth:
            continue
        if directive == "define" and defined in names:
            message = (
                f"{path.name} defines it itself, so that no value has an effect; write #ifndef {defined} before "
                "that line, and #endif after it"
            )
            yield (_key(space, defined), defined), message
        elif constant in names:
            message = (
                f"{path.name} defines it as a constant, whose name the macro replaces; write #ifndef {constant}, "
                f"#define {constant} with its value, and #endif in its place"
            )
            yield (_key(space, constant), constant), message
        elif declared in names and (is_type_word(kind) or kind == "auto"):
            message = (
                f"{path.name} declares `{kind} {declared}`, where the macro of this name puts its value, so that it "
                "does not compile; rename one of them, or take the declaration out"
            )
            yield (_key(space, declared), declared), message


def _unused(space: Space, code: str) -> Iterator[Found]:
    """Each type and parameter that has a choice of values, though nothing reads it."""
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
            message = (
                f"neither {files(space)} nor an argument uses it, so its {len(allowed)} types make no difference; "
                "use it as a macro, or take it out"
            )
            yield ("operation", "types", name), message
    for name, values in space.parameters.items():
        if name not in used and len(values) > 1:
            message = (
                f"no text uses it, neither {files(space)} nor an expression, so its {len(values)} values make no "
                f"difference; {_meant(space, name, code)}use it as a macro, or take it out"
            )
            yield ("parameters", name), message


def _meant(space: Space, name: str, code: str) -> str:
    """Which word of the source a parameter most likely means: one that nothing else of the space is called."""
    op = space.operation
    known = {*space.parameters, *space.derived, *op.sizes, *op.options, *op.types, *(a.name for a in op.arguments)}
    found = {word for word in re.findall(r"[A-Za-z_]\w*", code) if word not in known and not is_type_word(word)}
    near = difflib.get_close_matches(name, sorted(found), n=1, cutoff=ALIKE)
    return f"did you mean {near[0]}, which the source reads? Else " if near else ""


def _key(space: Space, name: str) -> str:
    return "parameters" if name in space.parameters else "derived" if name in space.derived else "types"


def files(space: Space) -> str:
    """The names of the sources."""
    return shown(", ".join(path.name for path in space.sources))
