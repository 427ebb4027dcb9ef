"""The names that a space uses outside its source, and the places that messages about macros name."""

import re

from tuner.quoting import shown
from tuner.space.expressions import Expression
from tuner.space.model import Space

MacroFault = tuple[tuple[str | int, ...], str]  # the key of the space file, and the message


def used_by_space(space: Space) -> set[str]:
    """The names that something other than the source's text uses: expressions, kernel names, options, scratch types."""
    expressions: list[Expression] = [
        *space.derived.values(), *(expression for step in space.steps for expression in step.expressions),
        *space.loop_expressions,
        *(restriction.that for restriction in space.restrictions),
        *(extent for argument in space.operation.arguments for extent in argument.shape or ()),
        *(value for argument in space.operation.numbers for value in argument.value),
        *(e for a in space.operation.arguments if a.kind for values in a.kind.expressions.values() for e in values),
    ]  # fmt: skip
    options = [option for options in space.compile_options.values() for option in options]
    used = set(re.findall(r"\w+", " ".join([*(step.kernel for step in space.steps), *options])))
    used |= {name for expression in expressions for name in expression.names}
    return used | {argument.dtype for argument in space.operation.scratch}


def key(space: Space, name: str) -> str:
    """The key of the space file that declares the macro `name`."""
    return "parameters" if name in space.parameters else "derived" if name in space.derived else "types"


def files(space: Space) -> str:
    """The file names of the sources, for a message."""
    return shown(", ".join(path.name for path in space.sources))
