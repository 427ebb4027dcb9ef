"""Tells which names decide where a kernel reads and writes, and how often its loops run."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set

from tuner.drafting.roles.calls import OF_NUMBERS
from tuner.space.sources.prototype import is_type_word
from tuner.space.sources.tokens import definitions, matching, words

_WORD = re.compile(r"(?<!\. )\b[A-Za-z_]\w*")
_INDEX = re.compile(r"\[[^\[\]]*\]")
_OF_THREADS = re.compile(r"(?:thread|block|grid)(?:Idx|Dim)|get_\w+")
_HEADS = {"if", "for", "while"}
_STATEMENTS = {*_HEADS, "switch", "return", "sizeof", "else", "case"}
_ASSIGNED = re.compile(r"(\w \* (?:\w+ )?)?(?<!\. )\b(\w+)((?: @| \. \w+)*) (?:[-+*/%|&^] )?= (?!=)(?=([^;{}]*))")
_POINTER = re.compile(r"(?:^|[;{}] )(?:\w+ )*\w+ \* (?:(?:const|__?restrict\w*) )*(\w+) [;,=]")
_BARE = re.compile(r"(?<!\. )\b(\w+)\b(?! @)")
_PART = re.compile(r"[;{}?:]|& &|\| \|")
_COMPARED = re.compile(r"[<>]|[=!] =")


def names_that_place(body: str, arrays: Collection[str], pure: Collection[str]) -> set[str]:
    """The names from which indices, pointers, bounds of loops, or conditions on these or on threads follow, in the
    tokens of kernels. `pure` are the functions that only compute a number."""
    code = re.sub(r"\b\w+_cast < [^<>();]* > \(", "(", body).replace("< <", "*").replace("> >", "*")
    tokens = re.sub(r"\b(\w+) < [\w ,:]+ > \(", r"\1 (", code.replace("- >", ".")).split(" ")
    found, pieces = {word for word in tokens if _OF_THREADS.fullmatch(word)}, list[str]()
    ends = {matching(tokens, at + 1) for at in range(len(tokens) - 1) if tokens[at] in _HEADS}
    for at, word in enumerate(tokens):
        pieces += [word, ";"] if at in ends else [word]
        if word == "(" and at and not _only_computes(tokens, at, pure):
            found |= _names(" ".join(tokens[at : matching(tokens, at)]))
    flat = " ".join(pieces)
    while inner := _INDEX.findall(flat):
        found |= _names(" ".join(inner))
        flat = _INDEX.sub("@", flat)
    found |= _names(" ".join(re.findall(r"\{ ([^{};]*) \}", flat)))
    values = [(name, bool(index), star, value) for star, name, index, value in _ASSIGNED.findall(flat)]
    pointers, places = {*arrays, *re.findall(r"\b(\w+) @", flat), *_POINTER.findall(flat)}, set[str]()
    for name, is_part, star, value in values:
        if star or (not is_part and (name in pointers or _has_address(value, pointers))):
            pointers.add(name)
            places |= _names(value)
    places = places.union(*(_names(each) for each in _PART.split(flat) if _has_address(each, pointers)))
    found |= places - pointers  # an address does not follow from elements
    conditions = [_names(each) for each in map(_value, _PART.split(flat)) if _is_condition(each, pure)]
    while True:
        more = {word for name, _, _, value in values if name in found for word in _names(_without_truths(value))}
        more |= {word for each in conditions if not each.isdisjoint(found) for word in each}
        if more <= found:
            return found
        found |= more


def _only_computes(tokens: Sequence[str], at: int, pure: Collection[str]) -> bool:
    """Whether a bracket opens no call of a function that may read its arguments as places, and no head of a loop."""
    before = tokens[at - 1]
    if before in ("for", "while"):
        return False
    plain = not before.isidentifier() or before in _STATEMENTS or before in pure
    return plain or is_type_word(before) or OF_NUMBERS.fullmatch(before) is not None


def _has_address(text: str, pointers: Set[str]) -> bool:
    """Whether an expression names an array or a pointer without an index."""
    return not pointers.isdisjoint(_BARE.findall(re.sub(r"& (\w+)(?: @)+", r"\1", text)))


def _value(text: str) -> str:
    """What is assigned in a piece of code; all of it without an assignment."""
    return re.split(r"(?<![<>=!]) = (?!=)", text)[-1]


def _is_condition(text: str, pure: Collection[str]) -> bool:
    return _COMPARED.search(text) is not None or not {*pure}.isdisjoint(text.split(" "))


def _without_truths(value: str) -> str:
    """An expression without its comparisons, whose values are 0 and 1, whatever is compared."""
    before = ""
    while value != before:
        before, value = value, re.sub(r"\(([^()]*)\)", lambda inner: _plain(inner[1]), value)
    return _plain(value)


def _plain(text: str) -> str:
    return " ".join(each for each in re.split("[;{}?:,&|^]", text) if not _COMPARED.search(each)) or "0"


def _names(text: str) -> set[str]:
    return {*_WORD.findall(text)} - _STATEMENTS


def pure_functions(text: str) -> set[str]:
    """The functions of a source that take numbers alone and whose bodies have no places, loops or threads."""
    bodies = dict[str, list[str]]()
    for _, name, inner, _, body in definitions(words(text)):
        is_plain = {"*", "&", "["}.isdisjoint(inner) and {"[", "for", "while", "do", "goto"}.isdisjoint(body)
        if is_plain and not any(map(_OF_THREADS.fullmatch, body)):
            bodies[name] = [*body]
    while impure := {name for name, body in bodies.items() if not _calls_only(body, bodies)}:
        bodies = {name: body for name, body in bodies.items() if name not in impure}
    return {*bodies}


def _calls_only(body: Sequence[str], pure: Collection[str]) -> bool:
    return all(_only_computes(body, at, pure) for at, word in enumerate(body) if word == "(" and at)
