"""Expands the macros in the tokens of a kernel, without a preprocessor.

Expanded are function-like macros, and object-like macros whose text is a string or contains a name:
`ADD(&counts[b], 1)` becomes `atomicAdd(&counts[b], 1)`. Macros that are numbers are not expanded, because they may be
knobs, except for the warp size. Macros with # or ##, and variadic ones, are not expanded either.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection, Mapping, Sequence

from tuner.classes import dataclass
from tuner.space.sources.definitions import is_outside
from tuner.space.sources.prototype import is_type_word
from tuner.space.sources.tokens import matching, words

_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\([^()\n]*\))?[ \t]+((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE
)
_CONSTANT = re.compile(
    r"^[ \t]*(?:(?:static|inline|const|constexpr|__device__)\s+)+(?:unsigned\s+)?(?:int|unsigned|size_t|auto)\s+(\w+)"
    r"\s*=\s*([^;{}=\n]+);",
    re.MULTILINE,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_WARP = re.compile(r"(?i)(?:k_?)?(?:warp|wave(?:front)?)(?:_?(?:size|threads|width))?|(?:threads|lanes)_per_warp")
MOST_WORDS, MOST_DEPTH = 50_000, 50  # above these limits, nothing is expanded


@dataclass(frozen=True)
class _Macro:
    """A macro: its parameters (None if it is object-like) and its tokens. Variables hide a constant of their name."""

    parameters: tuple[str, ...] | None
    words: tuple[str, ...]
    is_constant: bool = False


def expanded(body: Sequence[str], code: str, parameters: Collection[str] = ()) -> tuple[str, ...]:
    """The tokens of the `body` of a function with these parameters, with the macros and constants expanded that `code`
    (without comments) defines."""
    macros = _macros(code)
    local = (word for before, word in itertools.pairwise(body) if is_type_word(before) or before == "auto")
    hidden = (name for name in {*parameters, *local} if name in macros and macros[name].is_constant)
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
            at, values = end + 1, dict(zip(macro.parameters, given, strict=False))
            text = [word for each in text for word in values.get(each, [each])]
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
