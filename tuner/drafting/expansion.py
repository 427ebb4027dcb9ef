"""Expands the macros in the tokens of a kernel, without a preprocessor, and calls of functions that compute indices.

Expanded are function-like macros, and object-like macros whose text is a string or contains a name:
`ADD(&counts[b], 1)` becomes `atomicAdd(&counts[b], 1)`. Macros that are numbers are not expanded, because they may be
knobs, except for the warp size. Macros with # or ##, and variadic ones, are not expanded either. Functions are expanded
that only return a whole number or an element of an array: `at(y, x, width)` becomes `(y * width + x)`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection, Mapping, Sequence

from tuner.classes import dataclass
from tuner.space.sources.definitions import is_outside
from tuner.space.sources.prototype import is_type_word
from tuner.space.sources.tokens import definitions, matching, split, words

_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\([^()\n]*\))?[ \t]+((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE
)
_CONSTANT = re.compile(
    r"^[ \t]*(?:(?:static|inline|const|constexpr|__device__)\s+)+(?:unsigned\s+)?(?:int|unsigned|size_t|auto)\s+(\w+)"
    r"\s*=\s*([^;{}=\n]+);",
    re.MULTILINE,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_WHOLE = {"bool", "int", "uint", "unsigned", "long", "ulong", "short", "size_t", "ptrdiff_t", "int32_t", "uint32_t"}
_WHOLE |= {"int64_t", "uint64_t"}
_CHANGES = re.compile(r"(?<![<>=!] )= (?!=)|\+ \+|- -|\{")
_WARP = re.compile(r"(?i)(?:k_?)?(?:warp|wave(?:front)?)(?:_?(?:size|threads|width))?|(?:threads|lanes)_per_warp")
MOST_WORDS, MOST_DEPTH = 50_000, 50  # above these limits, nothing is expanded


@dataclass(frozen=True)
class _Macro:
    """A macro: its parameters (None if it is object-like) and its tokens. Variables hide a constant of their name. A
    function has values as arguments, of which the `pointers` stand for arrays."""

    parameters: tuple[str, ...] | None
    words: tuple[str, ...]
    is_constant: bool = False
    is_function: bool = False
    pointers: frozenset[str] = frozenset()

    @property
    def reads(self) -> set[str]:
        """The names in its tokens that are neither parameters nor members."""
        pairs = zip(("", *self.words), self.words, strict=False)
        return {word for ahead, word in pairs if ahead != "."} - {*(self.parameters or ())}

    def applied(self, given: Sequence[Sequence[str]]) -> list[str]:
        """Its tokens with these arguments; none for a function that does not get an array by its name."""
        pairs = [*zip(self.parameters or (), given, strict=False)]
        if not self.is_function:
            values = dict(pairs)
            return [word for each in self.words for word in values.get(each, [each])]
        plain = {name: words for name, words in pairs if {*words[1::2]} <= {"."} and _NAME.fullmatch(words[0])}
        if not self.pointers <= plain.keys():
            return []
        values = {name: plain.get(name) or (words if len(words) == 1 else ["(", *words, ")"]) for name, words in pairs}
        before = zip(("", *self.words), self.words, strict=False)
        return [word for ahead, each in before for word in (values.get(each, [each]) if ahead != "." else [each])]


def expanded(
    body: Sequence[str], code: str, parameters: Collection[str] = (), with_functions: bool = False
) -> tuple[str, ...]:
    """The tokens of the `body` of a function with these parameters, with the macros and constants expanded that `code`
    (without comments) defines, and with its functions if asked for."""
    macros = _macros(code)
    local = {word for before, word in itertools.pairwise(body) if is_type_word(before) or before == "auto"}
    hidden = {name for name in {*parameters, *local} if name in macros and macros[name].is_constant}
    if with_functions:
        functions, own = _functions(code), local.union(parameters)
        hidden |= {name for name, each in functions.items() if own & each.reads}
        macros = functions | macros
    found = _expanded(body, macros, tuple(hidden))
    return tuple(body) if found is None else tuple(found)


def is_warp(name: str, value: int) -> bool:
    """Whether a constant is the warp size, which is no knob because the device fixes it."""
    return value in (32, 64) and _WARP.fullmatch(name) is not None


@functools.lru_cache(maxsize=8)
def _macros(code: str) -> dict[str, _Macro]:
    """The macros that may be expanded. Of several definitions, such as one per language, the first that qualifies.

    A macro that is a number in one of its definitions may be a knob.
    """
    found = dict[str, _Macro]()
    numbers = {name for name, parameters, text in _DEFINE.findall(code) if not parameters and text.strip().isdecimal()}
    for name, parameters, text in _DEFINE.findall(code):
        text = text.replace("\\\n", " ")
        if "#" in text or "..." in parameters or (name in numbers and not text.strip().isdecimal()):
            continue
        macro = _Macro(tuple(re.findall(r"\w+", parameters)) if parameters else None, tuple(words(text)))
        if parameters or _is_expandable(name, macro.words):
            found.setdefault(name, macro)
    for constant in _CONSTANT.finditer(code):
        name, value = constant[1], tuple(words(constant[2]))
        if not is_outside(code, constant.start()):
            continue
        if len(value) > 1 or _is_expandable(name, value):
            found.setdefault(name, _Macro(None, value if len(value) == 1 else ("(", *value, ")"), is_constant=True))
    return found


@functools.lru_cache(maxsize=8)
def _functions(code: str) -> dict[str, _Macro]:
    """The functions that only return a whole number or an element of an array, and whose names no others have."""
    found, names = dict[str, _Macro](), list[str]()
    for before, name, inner, _, body in definitions(words(code)):
        names.append(name)
        lists = split(inner)
        parameters = tuple(next((word for word in reversed(each) if _NAME.fullmatch(word)), "") for each in lists)
        pointers = frozenset(each for each, given in zip(parameters, lists, strict=True) if "*" in given)
        is_element = body[2:3] == ("[",) and body[1] in pointers and matching(body, 2) == len(body) - 2
        is_only = body[:1] == ("return",) and body.index(";") == len(body) - 1 and not _CHANGES.search(" ".join(body))
        if is_only and "template" not in before and (is_element or not _WHOLE.isdisjoint(before)):
            value = body[1:-1] if is_element else ("(", *body[1:-1], ")")
            found[name] = _Macro(parameters, value, is_function=True, pointers=pointers)
    return {name: each for name, each in found.items() if names.count(name) == 1}


def _is_expandable(name: str, text: Sequence[str]) -> bool:
    """Whether an object-like macro is expanded: it is not if its text is a number (except the warp size) or a type."""
    if len(text) == 1 and text[0].isdecimal():
        return is_warp(name, int(text[0]))
    is_string = len(text) == 1 and text[0].startswith('"')
    return is_string or (any(map(_NAME.fullmatch, text)) and not any(map(is_type_word, text)))


def _expanded(body: Sequence[str], macros: Mapping[str, _Macro], hidden: tuple[str, ...]) -> list[str] | None:
    found, at = list[str](), 0
    while at < len(body):
        name = body[at]
        at += 1
        macro = macros.get(name) if name not in hidden and len(hidden) < MOST_DEPTH else None
        if macro is None or (macro.parameters is not None and body[at : at + 1] not in (("(",), ["("])):
            found.append(name)
            continue
        text: Sequence[str] = macro.words
        if macro.parameters is not None:
            end = matching(body, at)
            given = split_arguments(body[at + 1 : end])
            if len(given) != len(macro.parameters) and (macro.parameters or given != [[]]):
                found.append(name)
                continue
            text = macro.applied(given)
            if macro.is_function and (not text or found[-1:] in (["."], ["::"])):
                found.append(name)
                continue
            at = end + 1
        more = _expanded(text, macros, (*hidden, name))
        if more is None or len(found) + len(more) > MOST_WORDS:
            return None
        found += more
    return found


def split_arguments(given: Sequence[str]) -> list[list[str]]:
    """The arguments of a call, split at its top-level commas."""
    parts, depth = [list[str]()], 0
    for word in given:
        depth += (word in "([{") - (word in ")]}")
        if word == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts
