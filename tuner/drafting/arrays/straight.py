"""Names the values that a variable has one after the other: after `i /= n;`, in the block that declares `i`, it is
another variable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from tuner.space.sources.tokens import matching

_NAME = re.compile(r"[A-Za-z_]\w*")
_STARTS = (";", "{", "}")
_CHANGED = (*(f"{sign}=" for sign in "-+*/%&|^"), "++", "--", "<<=", ">>=")
_UNCLEAR = {"goto", "switch", "asm", "#"}
_NO_TYPE = {"return", "else", "case", "delete", "throw"}
MOST_VALUES = 16  # of one name


def renamed(body: Sequence[str], parameters: Collection[str] = ()) -> tuple[str, ...]:
    """The tokens of a function with another name for each further value of a variable that only statements of its own
    block change. The `parameters` have their first value at once."""
    if not _UNCLEAR.isdisjoint(body):
        return tuple(body)
    changes = {name: places for name, places in _changes(body, parameters).items() if len(places) <= MOST_VALUES}
    first, found, at = {place: name for name, places in changes.items() for place in places}, list[str](), 0
    counts, ends = Counter[str](), dict[int, str]()
    while at < len(body):
        if at in ends:
            counts[ends.pop(at)] += 1
        word = body[at]
        if at in first:
            name, sign = first[at], "".join(body[at + 1 : at + 3])
            found += [_value(name, counts[name] + 1), "="]
            if sign in _CHANGED:
                found += [_value(name, counts[name]), sign[0], "("]
                end = _end(body, at)
                ends[end] = name
                inner = renamed_words(body[at + 3 : end], counts, changes) if sign not in ("++", "--") else ["1"]
                found += [*inner, ")"]
                at = end
            else:
                ends[_end(body, at)] = name
                at += 2
            continue
        is_member = at > 0 and body[at - 1] == "."
        found.append(_value(word, counts[word]) if word in changes and not is_member else word)
        at += 1
    return tuple(found)


def renamed_words(words: Sequence[str], counts: Counter[str], changes: Collection[str]) -> list[str]:
    """Tokens of an expression with the present names of variables."""
    pairs = zip(("", *words), words, strict=False)
    return [_value(word, counts[word]) if word in changes and ahead != "." else word for ahead, word in pairs]


def _value(name: str, count: int) -> str:
    return f"{name}__{count}" if count else name


def _end(body: Sequence[str], at: int) -> int:
    return next(i for i in range(at, len(body)) if body[i] == ";")


def _changes(body: Sequence[str], parameters: Collection[str]) -> dict[str, list[int]]:
    """The statements that give a variable another value, by its name; only variables that nothing else changes."""
    found, other, known = dict[str, list[int]](), set[str](), dict.fromkeys(parameters, 0)
    blocks, brackets = [0], 0  # the positions where the blocks around a token begin
    for at, word in enumerate(body):
        if word == "{":
            blocks.append(at)
        elif word == "}" and len(blocks) > 1:
            blocks.pop()
        brackets += (word in "([") - (word in ")]")
        if not _NAME.fullmatch(word) or body[at - 1 : at] == (".",):
            continue
        before, after = "".join(body[max(0, at - 2) : at]), "".join(body[at + 1 : at + 4])
        is_plain = after[:1] == "=" and after[:2] != "=="
        is_changed = after.startswith(_CHANGED) or before in ("++", "--")
        is_first = brackets == 0 and (at == 0 or body[at - 1] in _STARTS) and known.get(word) == blocks[-1]
        is_own = is_first and not after.startswith(("<<", ">>")) and _is_whole(body, at)
        if before.endswith("&") and not before.endswith("&&") and body[at - 2 : at - 1] in (("(",), (",",), ("=",)):
            other.add(word)  # something else may change it
        if is_declared(body, at):
            if word in known:
                other.add(word)  # of another block
            known[word] = blocks[-1]
        elif is_changed or is_plain:
            if is_own and not before.startswith(("++", "--")):
                found.setdefault(word, []).append(at)
            else:
                other.add(word)
    return {name: places for name, places in found.items() if name not in other}


def is_declared(body: Sequence[str], at: int) -> bool:
    """Whether the name at a position is declared there: a type, or another declared name, is before it."""
    before = at - 1
    while before > 0 and body[before] in "*&":
        before -= 1
    if before < 0 or body[before] in _NO_TYPE:
        return False
    if body[before] == ",":
        return _is_in_declaration(body, before)
    is_type = _NAME.fullmatch(body[before]) is not None or body[before] == ">"
    return is_type and (before == at - 1 or before == 0 or body[before - 1] in (*_STARTS, "const", "(", "unsigned"))


def _is_in_declaration(body: Sequence[str], at: int) -> bool:
    """Whether the comma at a position is one of `int i = 0, j = 1;`."""
    start, depth = at, 0
    while start > 0 and (depth or body[start - 1] not in (*_STARTS, "(")):
        depth += (body[start - 1] in ")]") - (body[start - 1] in "([")
        start -= 1
    return all(_NAME.fullmatch(word) is not None for word in body[start : start + 2])


def _is_whole(body: Sequence[str], at: int) -> bool:
    """Whether the statement at a position changes nothing else, and is not the end of a `do`."""
    end = next((i for i in range(at, len(body)) if body[i] in (";", "{", "}")), len(body))
    statement = body[at + 1 : end]
    signs = "".join(statement)
    if end == len(body) or body[end] != ";" or "," in _outside(statement):
        return False
    return signs in ("++", "--") or not re.search(r"\+\+|--|[^=!<>]=[^=]", re.sub(r"^[-+*/%&|^<>]{0,2}=", "", signs))


def _outside(statement: Sequence[str]) -> list[str]:
    """The tokens of a statement that are in no brackets."""
    found, at = list[str](), 0
    while at < len(statement):
        found.append(statement[at])
        at = (matching(statement, at) if statement[at] in "([" else at) + 1
    return found
