"""Values in the names of kernels and in compiler options: `add<{real}, {threads}>`, `-maxrregcount={registers}`."""

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
    """What stands in the braces of `text`, in order."""
    return tuple(name.strip() for name in _BRACES.findall(text))


def template_names(kernel: str) -> set[str]:
    """What stands in braces between the template brackets of a kernel's name. It is no macro, because the source has
    template parameters of these names."""
    return set(names(kernel.partition("<")[2]))


def filled(text: str, values: Mapping[str, Any]) -> str:
    """`text` with values in place of the braces. Raises ExpressionError for a value that cannot be computed."""
    return _BRACES.sub(lambda match: literal(values[match[1].strip()]), text)


def literal(value: object) -> str:
    """A value as source text: true and false are 1 and 0, which C, OpenCL C and CUDA read alike."""
    return str(int(value) if isinstance(value, bool) else value)


def entry(kernel: str, values: Mapping[str, Any]) -> str:
    """The name of a configuration's kernel. Raises ExpressionError if it is none, such as add_-1.

    A whole number stands in it as an integer: options, and what is derived from them, are floats, and add_2.0 is no
    name.
    """
    written = {name: values[name] for name in names(kernel)}
    name = filled(kernel, {n: int(v) if isinstance(v, float) and v.is_integer() else v for n, v in written.items()})
    if not is_cpp(kernel) and not _PLAIN.fullmatch(name):
        raise ExpressionError(f"{quoted(name)} is not the name of a kernel; use letters, digits and _")
    return name


def is_cpp(kernel: str) -> bool:
    """Whether only C++ has such names: those of templates, and in namespaces."""
    return "<" in kernel or "::" in kernel


def function(kernel: str) -> str:
    """The name of the function, without namespaces and template arguments."""
    return kernel.partition("<")[0].rpartition("::")[2]


def pattern(kernel: str) -> str:
    """A regular expression for the function's name in the source, where any word may stand for braces."""
    return _BRACES.sub(r"\\w*", function(kernel))


def fault(text: str, known: Iterable[str]) -> str | None:
    """What is wrong with the braces of `text`; None if each of them holds one of the names `known`."""
    from tuner.space.expressions.evaluator import unknown_name

    if {"{", "}"} & set(_BRACES.sub("", text)):
        return f"{quoted(text)}: a brace without its other half; write {{NAME}}"
    unknown = next((name for name in names(text) if name not in set(known)), None)
    if unknown is None:
        return None
    return f"{quoted(text)}: {{{unknown}}} names no parameter, derived value or type: {unknown_name(unknown, known)}"
