"""Names in braces that are replaced by values: `add<{real}, {threads}>`, `-maxrregcount={registers}`.

Braces are allowed in kernel names and in compiler options.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tuner.errors import ExpressionError
from tuner.quoting import quoted

_BRACES = re.compile(r"\{([^{}]*)\}")
_PART = r"[A-Za-z_{][\w{}]*"
KERNEL = re.compile(rf"(?:{_PART}::)*{_PART}(?:<[\w:,<>{{}}&*+\-/%|^~!?=.()\[\]' ]*>)?", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def names(text: str) -> tuple[str, ...]:
    """The names in the braces of `text`, in order."""
    return tuple(name.strip() for name in _BRACES.findall(text))


def template_names(kernel: str) -> set[str]:
    """The names in braces inside the angle brackets of a kernel's name.

    They do not become macros, because the source declares template parameters with these names.
    """
    return set(names(kernel.partition("<")[2]))


def filled(text: str, values: Mapping[str, Any]) -> str:
    """`text` with each `{name}` replaced by its value. Raises ExpressionError if a value cannot be computed."""
    return _BRACES.sub(lambda match: literal(values[match[1].strip()]), text)


def literal(value: object) -> str:
    """A value as source text. True and False become 1 and 0, which C, OpenCL C and CUDA all accept."""
    return str(int(value) if isinstance(value, bool) else value)


def entry(kernel: str, values: Mapping[str, Any]) -> str:
    """The kernel name of a configuration. Raises ExpressionError if it is not a valid name, such as add_-1.

    Whole floats are written as integers: options and values derived from them are floats, and add_2.0 is not a name.
    """
    written = {name: values[name] for name in names(kernel)}
    name = filled(kernel, {n: int(v) if isinstance(v, float) and v.is_integer() else v for n, v in written.items()})
    if not is_cpp(kernel) and not _PLAIN.fullmatch(name):
        raise ExpressionError(f"{quoted(name)} is not the name of a kernel; use letters, digits and _")
    return name


def is_cpp(kernel: str) -> bool:
    """Whether the name needs C++: it has template arguments or a namespace."""
    return "<" in kernel or "::" in kernel


def function(kernel: str) -> str:
    """The name of the function without namespaces and template arguments."""
    return kernel.partition("<")[0].rpartition("::")[2]


def pattern(kernel: str) -> str:
    """A regular expression that matches the function's name in the source; braces match any word characters."""
    return _BRACES.sub(r"\\w*", function(kernel))


def fault(text: str, known: Iterable[str]) -> str | None:
    """What is wrong with the braces of `text`; None if every name in them is in `known`."""
    from tuner.space.expressions.evaluator import unknown_name

    if {"{", "}"} & set(_BRACES.sub("", text)):
        return f"{quoted(text)}: unmatched brace; write {{NAME}}"
    unknown = next((name for name in names(text) if name not in set(known)), None)
    if unknown is None:
        return None
    return f"{quoted(text)}: {{{unknown}}} names no parameter, derived value or type: {unknown_name(unknown, known)}"
