"""Check that the conditional compilation in a source distinguishes the values of a macro.

`#ifdef` does so only for false, which leaves a flag undefined. `#if` takes every word that is no macro as 0.
"""

import ast
import re
from collections.abc import Iterator

from tuner.quoting import shown
from tuner.space.model import Space
from tuner.space.sources import flags
from tuner.space.sources.checks.uses import MacroFault, files, key, used_by_space
from tuner.space.sources.rendering import may_be_false
from tuner.space.sources.source_text import macro_names


def faults(space: Space, codes: tuple[str, ...]) -> Iterator[MacroFault]:
    """The faults of macros in conditions. `codes` are the sources without comments."""
    yield from _words(space, codes)
    for name in macro_names(space):
        if name in space.operation.types or not any(name in flags.tested(code) for code in codes):
            continue
        find = _derived_flag if name in space.derived else _flag
        if message := find(space, name, codes):
            yield (key(space, name), name), message


def _flag(space: Space, name: str, codes: tuple[str, ...]) -> str:
    """What is wrong with a parameter whose existence the source tests; empty if nothing is."""
    is_flag, differs = flags.is_flag(codes, name), flags.differs_from_zero(codes, name)
    defined = [value for value in space.parameters[name] if not (is_flag and value is False)]
    has_zero = differs and any(value == 0 for value in defined)
    number = f"#if {name} in place of #ifdef {name}"
    if flags.is_constant(codes, name):
        if not differs and name not in used_by_space(space) and len(space.parameters[name]) > 1:
            return f"{files(space)} is the same code with and without it; use it, or remove it"
        if len(defined) < 2 or not (has_zero or name not in used_by_space(space)):
            return ""
        if not is_flag:
            return f"{files(space)} only tests whether it is defined, which it is for every value; write {number}"
        advice = "write false in place of 0" if 0 in defined else "write [false, true]"
        return (
            f"{files(space)} reads it only by #ifdef, and every value but false defines it, so {shown(defined)} make "
            f"no difference; {advice}: false leaves it undefined"
        )
    if not has_zero or (flags.is_number(codes, name) if is_flag else not set(defined) <= {0, 1}):
        return ""
    if is_flag:
        return f"{files(space)} tests it by #ifdef, and 0 defines it; write false in place of 0, or {number}"
    return _needs_value(space, name)


def _needs_value(space: Space, name: str) -> str:
    return (
        f"{files(space)} tests it by #ifdef, and uses its value elsewhere, so it is always defined; "
        f"write #if {name} in place of #ifdef {name}"
    )


def _words(space: Space, codes: tuple[str, ...]) -> Iterator[MacroFault]:
    """Parameters whose values are words that only conditions compare, where all of them are 0."""
    code = "\n".join(codes)
    defined = {*re.findall(r"^\s*#\s*define\s+(\w+)", code, re.MULTILINE), *macro_names(space), "true", "false"}
    if re.search(r"^\s*#\s*include\s*<", code, re.MULTILINE) or "##" in code:
        return  # a header that the compiler finds may define them
    for name, values in space.parameters.items():
        words = [value for value in values if isinstance(value, str) and value.isidentifier() and value not in defined]
        if 1 < len(words) == len(values) and not flags.is_number(codes, name) and not flags.is_constant(codes, name):
            message = (
                f"{files(space)} compares it in #if, where {shown(', '.join(words))} are 0, because no macro defines "
                f"them, so its {len(values)} values make no difference; write numbers, or define each word as a number"
            )
            yield ("parameters", name), message


def _derived_flag(space: Space, name: str, codes: tuple[str, ...]) -> str:
    """What is wrong with a derived value whose existence the source tests; empty if nothing is."""
    if not flags.differs_from_zero(codes, name) or not space.parameters_behind([name]):
        return ""
    if may_be_false(space, name):
        if flags.is_flag(codes, name):
            return ""
        return _needs_value(space, name)
    is_choice = any(isinstance(node, ast.IfExp) for node in ast.walk(space.derived[name].tree))
    if not flags.is_constant(codes, name) or not (is_choice or name not in used_by_space(space)):
        return ""
    return (
        f"{files(space)} reads it only by #ifdef, and every number defines it; write a condition, such as "
        f"`({space.derived[name].text}) != 0`: false leaves it undefined"
    )
