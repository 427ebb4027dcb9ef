"""Flags: macros that a source reads by `#ifdef`, and that `false` leaves undefined."""

import functools
import re
from collections.abc import Iterator, Sequence

from tuner.space.sources.includes import words
from tuner.space.sources.preprocessor import Remainder, remainder

_TEST = re.compile(r"^[ \t]*#[ \t]*(?:(?:el)?ifn?def[ \t]+(\w+)|(?:el)?if\b([^\n]*))", re.MULTILINE)
_DEFAULT = re.compile(
    r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\n[ \t]*#[ \t]*define[ \t]+\1\b.*\n[ \t]*#[ \t]*endif.*$", re.MULTILINE
)
_DEFINITION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_DEFINED = re.compile(r"\bdefined\s*\(?\s*(\w+)")


@functools.lru_cache(maxsize=256)
def is_flag(codes: tuple[str, ...], name: str) -> bool:
    """Whether these sources, without comments, test the existence of macro `name` and compile without it.

    They do not if a value is needed where it is undefined, or if they define the macro themselves, or stop with #error.
    """
    if not any(name in tested(code) for code in codes):
        return False
    return all(_compiles_without(remainder(code, name, None), name) for code in codes)


def _compiles_without(rest: Remainder | None, name: str) -> bool:
    if rest is None or rest.defines or rest.refuses:
        return False
    return name not in words("\n".join(rest.lines))


@functools.lru_cache(maxsize=64)
def tested(code: str) -> frozenset[str]:
    """The macros whose existence a text without comments tests, unless only to define a default of one that it uses."""
    code = code.replace("\\\n", " ")
    rest = _DEFAULT.sub("", code)
    found = {*_DEFAULT.findall(code)} - words(rest)
    for name, condition in _TEST.findall(rest):
        found.update([name] if name else _DEFINED.findall(condition))
    return frozenset(found)


def untold(code: str) -> Iterator[str]:
    """The macros whose existence `code` tests and that it does not define: a build may define them."""
    return (name for name in tested(code) - {*_DEFINITION.findall(code)})


def is_constant(codes: Sequence[str], name: str) -> bool:
    """Whether all values with which macro `name` is defined give the same code."""
    rests = [remainder(code, name, name) for code in codes]
    return all(rest is not None and name not in words("\n".join(rest.lines)) for rest in rests)


def differs_from_zero(codes: Sequence[str], name: str) -> bool:
    """Whether the sources are other code without macro `name` than where it is 0."""
    return any(_zeroed(code, name, None) != _zeroed(code, name, "0") for code in codes)


def _zeroed(code: str, name: str, value: str | None) -> str | None:
    rest = remainder(code, name, value)
    return None if rest is None else re.sub(rf"\b{name}\b", "0", "\n".join(filter(str.strip, rest.lines)))


def is_number(codes: Sequence[str], name: str) -> bool:
    """Whether the sources use the value of macro `name` outside of conditions."""
    rests = [remainder(code, name, name) for code in codes]
    lines = [line for rest in rests if rest is not None for line in rest.lines if not line.startswith("#if ")]
    return name in words("\n".join(lines))
