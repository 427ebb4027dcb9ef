"""The definitions of a kernel file that a configuration replaces: `#define BLOCK_SIZE 16`, `const int TILE = 32;`.

The text that is compiled has the configuration's value in place of the file's, on the same line, so a file needs no
`#ifndef`. In conditional branches, each definition of the name is replaced. A definition that the file makes only where
the macro is undefined is a default and stays: a macro at the top of the text overrides it.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator, Mapping

from tuner.classes import dataclass
from tuner.space.sources.includes import blanked

_DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*(?:(?P<condition>if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b(?P<test>(?:\\\n|[^\n])*)"
    r"|define[ \t]+(?P<name>\w+)(?![\w(])[ \t]*(?P<body>(?:\\\n|[^\n])*))",
    re.MULTILINE,
)
_UNDEFINED = re.compile(r"!\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_ONE_DEFINED = re.compile(r"\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))\s*")
_STATEMENT = re.compile(r"[;{}]|^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_CONSTANT = re.compile(r"\b(?:const|constexpr|consteval|__constant|constant)\b")
_ENUM = re.compile(r"\benum\b[^;{}()]*\{[^;{}]*\Z")
_BRACE = re.compile(r'(?P<outer>\bnamespace\b[\w\s:]*|\bextern\s*"C"\s*)?\{|\}')
_LITERAL = re.compile(r"(?:\.?\d[\w.]*|\b(?:[A-Z][A-Z0-9_]*|true|false|sizeof|unsigned|int|long|float|double)\b|\W)*")
_LINE = re.compile(r'^#line (\d+) "(.*)"$', re.MULTILINE)
_INCLUDE_GUARD = re.compile(r"[ \t]*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\n\s*#[ \t]*define[ \t]+\1[ \t]*$", re.MULTILINE)
_FAR = 4000  # characters before a name in which its declaration begins; bounds the time of a match


@dataclass(frozen=True)
class Definition:
    """A definition of `name`, whose value is the text from `start` to `end`.

    is_macro: a `#define`, else a constant or an enumerator.
    is_constant: the value depends on nothing that a kernel computes.
    """

    name: str
    start: int
    end: int
    value: str
    is_macro: bool = True
    is_constant: bool = True


@dataclass(frozen=True)
class Definitions:
    """The definitions of a text, in its order, and the messages about those that no value can replace, by name."""

    replaceable: tuple[Definition, ...]
    faults: Mapping[str, str]

    @functools.cached_property
    def names(self) -> frozenset[str]:
        return frozenset(definition.name for definition in self.replaceable)

    def replaced(self, text: str, values: Mapping[str, str], start: int = 0) -> str:
        """A part of the text, which begins at position `start` of the whole, with these values.

        A macro without a value is not defined.
        """
        parts, end = list[str](), 0
        for each in self.replaceable:
            first, last = each.start - start, each.end - start
            if first < 0 or last > len(text):
                continue
            if each.name in values:
                lines = " \\\n" * text.count("\n", first, last)
                parts += [text[end:first], " " * (each.is_macro and first == last), values[each.name], lines]
            elif each.is_macro:
                line = text.rfind("\n", 0, first) + 1
                parts += [text[end:line], "\n" * text.count("\n", line, last)]
            else:
                continue
            end = last
        return "".join([*parts, text[end:]])


@functools.lru_cache(maxsize=64)
def of(text: str, names: frozenset[str], with_defaults: frozenset[str] = frozenset()) -> Definitions:
    """The definitions of `names` in a text with headers included.

    with_defaults: the names of which a definition where the macro is undefined counts, too.
    """
    if not any(name in text for name in names):
        return Definitions((), {})
    code = blanked(text)
    macros, defaults = _macros(code, names)
    found = sorted([*macros, *_constants(code, names)], key=lambda definition: definition.start)
    wanted = names - (defaults - with_defaults)
    by_name = {name: [each for each in found if each.name == name] for name in wanted}
    regions = _conditional(code)
    certain = {name: [d for d in each if not any(d.start in r for r in regions)] for name, each in by_name.items()}
    faults = {name: fault for name, each in by_name.items() if (fault := _fault(text, each, certain[name]))}
    return Definitions(tuple(each for each in found if each.name in by_name.keys() - faults.keys()), faults)


def _place(text: str, position: int) -> str:
    """The line of a position in a text with headers included, and the file if the text names one."""
    lines = list(_LINE.finditer(text, 0, position))
    first, start, file = (int(lines[-1][1]) - 1, lines[-1].end(), f" of {lines[-1][2]}") if lines else (1, 0, "")
    line = first + text.count("\n", start, position)
    return f"line {line}{file}"


def is_outside(code: str, position: int) -> bool:
    """Whether a position is at namespace scope, outside of all other braces."""
    ends, outside = _braces(code)
    return outside[bisect.bisect_right(ends, position)]


@functools.lru_cache(maxsize=8)
def _braces(code: str) -> tuple[list[int], list[bool]]:
    """The ends of all braces, and whether namespace scope is before the first and after each of them."""
    ends, outside, inner = list[int](), [True], list[bool]()
    for brace in _BRACE.finditer(code):
        if brace[0] != "}":
            inner.append(not brace["outer"])
        elif inner:
            inner.pop()
        ends.append(brace.end())
        outside.append(not any(inner))
    return ends, outside


def _macros(code: str, names: frozenset[str]) -> tuple[list[Definition], set[str]]:
    """The `#define` lines of names, and the names of which some are defaults."""
    found, defaults = list[Definition](), set[str]()
    branches = list[tuple[frozenset[str], frozenset[str]]]()  # undefined macros: in this branch, in the next one
    for match in _DIRECTIVE.finditer(code):
        kind, name = match["condition"], match["name"]
        if kind == "endif":
            del branches[-1:]
        elif kind == "else":
            branches[-1:] = [(otherwise, frozenset()) for _, otherwise in branches[-1:]]
        elif kind is not None:
            branches[len(branches) - kind.startswith("el") :] = [_undefined(kind, match["test"])]
        elif name in names:
            if any(not names.isdisjoint(undefined) for undefined, _ in branches):
                defaults.add(name)  # where one of several is undefined, all have their defaults
            value, start = match["body"].rstrip(" \t\r\n\\"), match.start("body")
            found.append(Definition(name, start, start + len(value), value))
    return found, defaults


def _conditional(code: str) -> list[range]:
    """The positions of conditional code. An include guard is no condition."""
    found, starts = list[range](), list[int]()
    for match in _DIRECTIVE.finditer(code):
        kind = match["condition"] or ""
        if kind.startswith("if"):
            starts.append(-1 if _INCLUDE_GUARD.match(code, match.start()) else match.start())
        elif kind == "endif" and starts and (start := starts.pop()) >= 0:
            found.append(range(start, match.start()))
    return found


def _undefined(kind: str, test: str) -> tuple[frozenset[str], frozenset[str]]:
    """The macros that are certainly undefined where a condition holds, and where it does not."""
    if kind in ("ifdef", "elifdef"):
        return frozenset(), frozenset(re.findall(r"\w+", test)[:1])
    if kind in ("ifndef", "elifndef"):
        return frozenset(re.findall(r"\w+", test)[:1]), frozenset()
    only = _ONE_DEFINED.fullmatch(test)
    return frozenset(a or b for a, b in _UNDEFINED.findall(test)), frozenset({only[1] or only[2]} if only else ())


def _constants(code: str, names: frozenset[str]) -> Iterator[Definition]:
    """The constants and enumerators among names, with an initializer."""
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\s*(=(?!=)|\{{)")
    for match in pattern.finditer(code):
        before = code[_statement(code, match.start()) : match.start()]
        is_enumerator = match[2] == "=" and _ENUM.search(code[max(0, match.start() - _FAR) : match.start()])
        if not is_enumerator and (not _CONSTANT.search(before) or not _is_balanced(before)):
            continue
        inner = code[match.end() : _end(code, match.end())]
        value = inner.strip()
        if value:
            start = match.end() + inner.index(value)
            is_constant = bool(is_enumerator or "constexpr" in before or _LITERAL.fullmatch(value))
            is_constant = is_constant or is_outside(code, start)
            yield Definition(match[1], start, start + len(value), value, False, is_constant)


def _statement(code: str, position: int) -> int:
    """Where the statement begins that goes on at a position."""
    first = max(0, position - _FAR)
    ends = [match.end() for match in _STATEMENT.finditer(code, first, position)]
    return ends[-1] if ends else first


def _is_balanced(text: str) -> bool:
    """Whether text closes all brackets that it opens, so that what follows is no parameter of a function."""
    return text.count("(") == text.count(")") and text.count("<") == text.count(">")


def _end(code: str, position: int) -> int:
    """Where an initializer ends: at the comma, the semicolon or the bracket that is not its own."""
    depth = 0
    while position < len(code) and (depth or code[position] not in ",;)]}"):
        depth += (code[position] in "([{") - (code[position] in ")]}")
        position += 1
    return position


def _fault(text: str, definitions: list[Definition], certain: list[Definition]) -> str:
    """Why no value can replace the definitions of one name, of which some are `certain` to be reached; empty if one
    can."""
    computed = next((each for each in definitions if not each.is_constant), None)
    if computed is not None:
        where = _place(text, computed.start)
        return f"{where} computes it as `{computed.value}`, so it is no constant; rename one of them"
    other = next((each for each in certain if each.value != certain[0].value), None)
    if other is None:
        return ""
    one, two = (f"{_place(text, each.start)} defines it as {each.value}" for each in (certain[0], other))
    return f"{one}, and {two}, so no one value stands for both; give one of them another name"
