"""Says which functions take their arguments by value, so that a call cannot write to an array element."""

from __future__ import annotations

import re

from tuner.space.sources.prototype import is_type_word, parameter
from tuner.space.sources.tokens import definitions, split, words

_BEFORE_PARENTHESES = {"if", "for", "while", "switch", "return", "sizeof", "case"}
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(", re.MULTILINE)
# CUDA functions that take arguments by value, including intrinsics (__name).
OF_NUMBERS = re.compile(
    r"__\w+|make_\w+|printf|f?(?:abs|min|max|ma|mod)[fl]?|is(?:nan|inf|finite)"
    r"|(?:r?sqrt|r?cbrt|exp(?:2|10|m1)?|log(?:2|10|1p)?|pow|a?(?:sin|cos|tan)h?|atan2|sinpi|cospi|erfc?|[lt]gamma"
    r"|floor|ceil|l?l?r(?:ound|int)|trunc|nearbyint|remainder|hypot|copysign|ldexp)[fl]?"
)


class Calls:
    """The functions of a source `text` without comments. `has_references` is true for C++, as in CUDA."""

    def __init__(self, text: str, has_references: bool) -> None:
        self._has_references = has_references
        self._macros = set(_MACRO.findall(text))
        self._defined = dict[str, bool]()
        self._bodies = dict[str, list[tuple[list[str], str]]]()
        for _, name, inner, _, body in definitions(words(text)):
            names = [_name(part) for part in split(inner)]
            self._bodies.setdefault(name, []).append((names, " ".join(body)))
            takes = all("const" in parameter for parameter in split(inner) if "&" in parameter)
            self._defined[name] = takes and self._defined.get(name, True)

    def parameter(self, function: str, place: int) -> tuple[str, str]:
        """The name of a parameter of a function of the source, and the function's body; empty if there are several."""
        found = [(names[place], body) for names, body in self._bodies.get(function, ()) if place < len(names)]
        return found[0] if len(found) == 1 else ("", "")

    def by_value(self, function: str) -> bool:
        """Whether the function of this name cannot write to its arguments; False if unknown."""
        if function in self._macros or function.startswith('"'):  # the operands of an asm
            return False
        if not self._has_references or function in self._defined:
            return self._defined.get(function, True)
        return is_type_word(function) or function.endswith("_cast") or OF_NUMBERS.fullmatch(function) is not None


def _name(declared: list[str]) -> str:
    """The name of a parameter; empty if a macro makes it, as in `REAL MATRIX(a, n)`."""
    is_made = "(" in declared and "*" not in declared[declared.index("(") + 1 :][:1]
    return "" if is_made else parameter(declared).name


def argument_of(body: str, at: int) -> tuple[str, int]:
    """The name of the function whose argument is at position `at` of a body, and the argument's number from 0."""
    depth = place = 0
    while at > 0 and depth >= 0:
        at -= 1
        depth += (body[at] in ")]}") - (body[at] in "([{")
        place += body[at] == "," and depth == 0
    before = re.search(r"(\S+?)(?: < [^;(){}]*>)? $", body[max(0, at - 200) : at]) if body[at] == "(" else None
    is_call = before is not None and before[1] not in _BEFORE_PARENTHESES and re.search(r'\w|"$', before[1])
    return (before[1], place) if before is not None and is_call else ("", 0)
