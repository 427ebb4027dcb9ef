"""Check that the macros of a space have an effect in its source.

A macro is reported if the source does not use it, declares something by its name, or defines it in a way that no
configuration can replace (see `definitions`). Searching is then useless: its values make no difference, or nothing
compiles.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tuner.space.expressions import braces
from tuner.space.model import Space
from tuner.space.sources import source_text
from tuner.space.sources.checks.uses import MacroFault, files, key, used_by_space
from tuner.space.sources.prototype import Prototype, is_type_word
from tuner.space.sources.source_text import macro_names

_DEFINITION = re.compile(
    r"^\s*#\s*(if|endif|define)\w*(?:[ \t]+(\w+))?"
    r"|\b([A-Za-z]\w*)[\s*&]+(\w+)\s*(?=[=;,)\[({>])",
    re.MULTILINE,
)
ALIKE = 0.7  # from this difflib ratio on, a name may be a misspelling of another


def faults(space: Space, codes: Mapping[Path, str]) -> Iterator[MacroFault]:
    """The faults of macros. `codes` are the sources without comments."""
    yield from _replaced_variables(space)
    yield from unused(space, "\n".join(codes.values()))
    for path, code in codes.items():
        yield from _defined(space, path, code)


def unused(space: Space, code: str) -> Iterator[MacroFault]:
    """Types and parameters with several values that nothing reads."""
    if "##" in code or re.search(r"^\s*#\s*include\s+\w", code, re.MULTILINE):
        return  # names may be pasted together, or be in a file that a macro names
    words, defined = Counter(re.findall(r"\w+", code)), Counter(_constants(space))
    used = {name for name, count in words.items() if count > defined[name]} | used_by_space(space)
    op = space.operation
    for name, allowed in op.types.items():
        if name not in used and len(allowed) > 1 and all(argument.dtype != name for argument in op.arguments):
            message = (
                f"neither {files(space)} nor an argument uses it, so its {len(allowed)} types make no difference; "
                "use it as a macro, or remove it"
            )
            yield ("operation", "types", name), message
    for name, values in space.parameters.items():
        if name not in used and len(values) > 1:
            message = (
                f"neither {files(space)} nor an expression uses it, so its {len(values)} values make no "
                f"difference; {_suggestion(space, name, code)}use it as a macro, or remove it"
            )
            yield ("parameters", name), message


def name_clashes(space: Space, position: int, prototype: Prototype) -> Iterator[MacroFault]:
    """Macros with the name of a template parameter or an argument of a step's kernel, which then does not compile."""
    step = space.steps[position]
    template, own = prototype.template or {}, {p.name for p in prototype.parameters or ()}
    for name in macro_names(space):
        if name in template:
            arguments = ", ".join(f"{{{each}}}" for each in template)
            message = (
                f"{name} is a template parameter in {step.source.name}, which a macro would replace; "
                f"write {braces.function(step.kernel)}<{arguments}>"
            )
            yield ("steps", position, "kernel"), message
        elif name in own:
            message = (
                f"{step.kernel} in {step.source.name} takes an argument of this name, which the macro would replace; "
                "rename one of them"
            )
            yield (key(space, name), name), message


def _replaced_variables(space: Space) -> Iterator[MacroFault]:
    """Arguments whose kind makes them variables of the source, but whose names are macros."""
    for argument in space.operation.arguments:
        kind, name = argument.kind, argument.name
        if kind is None or all(kind.is_parameter(language) for language in space.languages):
            continue
        if name in macro_names(space):
            variable = f"the variable of this name in {files(space)} is an argument"
            yield (key(space, name), name), f"{variable}, which the macro would replace; rename one of them"


def _defined(space: Space, path: Path, code: str) -> Iterator[MacroFault]:
    """Macros whose names the source gives a meaning that no configuration can replace."""
    found = source_text.defined_in(space, path)
    for name, fault in sorted(found.faults.items()) if found else ():
        if name in macro_names(space):  # a variable may have the name of a size
            yield (key(space, name), name), f"{path.name}: {fault}"
    depth, left = 0, set(macro_names(space)) - (found.names | found.faults.keys() if found else set())
    for directive, defined, kind, declared in _DEFINITION.findall(code):
        depth += (directive == "if") - (directive == "endif")
        if depth:
            continue
        if directive == "define" and defined in left:
            message = f"{path.name} defines it with arguments, so its values have no effect; rename one of them"
            yield (key(space, defined), defined), message
        elif declared in left and (is_type_word(kind) or kind == "auto"):
            message = (
                f"{path.name} or a header of it declares `{kind} {declared}`, but the macro replaces this name, so it "
                "does not compile; rename one of them, or remove the declaration"
            )
            yield (key(space, declared), declared), message


def _constants(space: Space) -> Iterator[str]:
    """The names of the constants that the sources define, once for each definition."""
    for path in space.sources:
        found = source_text.defined_in(space, path)
        yield from (definition.name for definition in found.replaceable if not definition.is_macro) if found else ()


def _suggestion(space: Space, name: str, code: str) -> str:
    """The question whether parameter `name` is a misspelling of a word in the source that the space does not
    declare."""
    op = space.operation
    known = {*space.parameters, *space.derived, *op.sizes, *op.options, *op.types, *(a.name for a in op.arguments)}
    found = {word for word in re.findall(r"[A-Za-z_]\w*", code) if word not in known and not is_type_word(word)}
    near = difflib.get_close_matches(name, sorted(found), n=1, cutoff=ALIKE)
    return f"did you mean {near[0]}, which the source reads? Otherwise " if near else ""
