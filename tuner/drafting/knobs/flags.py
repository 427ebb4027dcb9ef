"""Proposes flags: names that a source tests by `#ifdef` or `#if`, and names without which it stops with `#error`."""

import re
from collections.abc import Iterator

from tuner.drafting.knobs.known import is_known
from tuner.drafting.knobs.proposals import Knob, guessed
from tuner.space.sources import flags
from tuner.space.sources.preprocessor import remainder

_OF_OTHERS = re.compile(
    r"_.*|N?DEBUG|WIN(?:32|64)|cl(?:es)?_\w+|FP_FAST_\w+"
)  # of compilers, drivers and build systems
_OFF_AND_ON = (False, True)
_IF = re.compile(r"^[ \t]*#[ \t]*(?:el)?if\b(.*)$", re.MULTILINE)
_WITHIN = re.compile(r"\bdefined\b\s*\(?\s*\w+|\w+\s*\(")  # of a condition: no numbers, but tests and calls
_MOST = 64  # a number in a condition that may be a value of a knob


def names(code: str) -> Iterator[str]:
    """The names whose existence `code` tests and that it does not define: a build may define them."""
    return (name for name in flags.untold(code) if not is_known(name))


def of_code(code: str, text: str) -> Iterator[tuple[str, Knob]]:
    """Knobs for the names whose existence `code` tests. `text` is `code` with its headers inlined.

    A name that the source defines itself is a flag only if its value is not used.
    """
    for name in sorted(flags.tested(code)):
        if _OF_OTHERS.fullmatch(name) or is_known(name) or _is_include_guard(text, name):
            continue
        without, is_defined = remainder(text, name, None), re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", text, re.M)
        if not is_defined and without is not None and without.refuses:
            yield name, guessed(name, "the source stops with #error without it")
        elif not flags.differs_from_zero((text,), name):
            continue
        elif not is_defined and re.search(rf"^[ \t]*#[ \t]*define[ \t]+\w+[ \t]+{name}\b", text, re.M):
            continue  # a build gives its number to another macro
        elif not is_defined and flags.is_flag((text,), name):
            ask = "the source tests it by #ifdef, and false leaves it undefined: may it vary?"
            yield name, Knob(_OFF_AND_ON, False, ask)
        elif is_defined and flags.is_constant((text,), name):
            cure = f"write #if {name} in place of #ifdef {name}" if _has_guard(text, name) else f"remove #define {name}"
            why = "the source defines it, and tests only whether it is defined"
            yield name, Knob((True,), True, remark=f"{why}: to vary it, {cure}")


def conditions(code: str, text: str) -> Iterator[tuple[str, Knob]]:
    """Knobs for the names that `code` reads only as numbers of conditions, as in `#if UNROLL > 2`, and that nothing
    defines; they are then 0. `text` is `code` with its headers inlined."""
    tests = [_WITHIN.sub("", line) for line in _IF.findall(code)]
    found = dict.fromkeys(name for line in tests for name in re.findall(r"\b[A-Za-z_]\w*", line))
    existing, rest = flags.tested(code), set(re.findall(r"\w+", _IF.sub("", text)))
    for name in found:
        if name in existing or name in rest or is_known(name) or _OF_OTHERS.fullmatch(name):
            continue
        pairs = [pair for line in tests for pair in re.findall(rf"\b{name}\s*([<>=!]=?)\s*(\d+)\b", line)]
        numbers = {0, *(int(number) + (sign == ">") for sign, number in pairs), *(() if pairs else (1,))}
        values = tuple(sorted(number for number in numbers if number <= _MOST))
        if len({_rest(text, name, str(value)) for value in values}) == len(values) > 1:
            yield name, Knob(values, 0, "the source tests it by #if and does not define it, which is 0: may it vary?")


def _rest(text: str, name: str, value: str) -> str:
    """The lines of a text for one value of a macro."""
    rest = remainder(text, name, value)
    return "" if rest is None or rest.refuses else "\n".join(filter(str.strip, rest.lines))


def _has_guard(text: str, name: str) -> bool:
    """Whether a text defines a macro only if it is undefined."""
    return (
        re.search(rf"^[ \t]*#[ \t]*ifndef[ \t]+{name}[ \t]*\n[ \t]*#[ \t]*define[ \t]+{name}\b", text, re.M) is not None
    )


def _is_include_guard(text: str, name: str) -> bool:
    """Whether all that a text says of a macro is to define it unless it is defined."""
    return len(re.findall(rf"\b{name}\b", text)) == 2 and _has_guard(text, name)
