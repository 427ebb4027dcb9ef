"""Infers the role of an array (in, out, inout) from the tokens of a kernel."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tuner.drafting.roles.assignments import decides, is_read_unwritten
from tuner.drafting.roles.calls import Calls, argument_of

INDEX = r"\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]"
_PARTS = rf"(?:\. \w+ |{INDEX} )*"  # a member or component of an element
_STEP = r"(?:\+ \+|- -) "
_STEP_AHEAD = rf"(?:(?<![\w\]+-] )|(?<=\breturn )|(?<=\belse )|(?<=\bdo )){_STEP}"  # a + + b is a sum
_STEP_BEHIND = rf"{_STEP}(?=[;,)\]}}])"
_OPENED = r"(?:\( ){0,9}"  # limited, because a long run of brackets would take quadratic time
# A local pointer to the array, or into it, perhaps to another type.
_POINTER = (
    r"\* (?:restrict |__restrict__ |const )*(\w+) = (?:\( [^()]*\* \) )?"
    r"(?:{0}(?: \+ [^;]*)?|& {0} " + INDEX + r"|reinterpret_cast < [^()]*\* > \( {0} \)) ;"
)
_AS_IF = {"in": "{0} [ 0 ] + 0 ", "out": "0 ; {0} [ 0 ] = 0 ; 0 ", "inout": "{0} [ 0 ] + = 0 "}
MOST_CALLS = 4  # of functions within functions
_COMPOUND = r"(?:[-+*/%|&^]|< <|> >) = "

# A pointer that is only compared with null, as in `p != nullptr` or `if (p && i < n)`.
_NULL = (
    r"(?<![.*+\]] )(?<![^&] & )\b{0} [!=] = (?:NULL|nullptr)\b|(?<=\bif \( )(?:! )?{0}(?= (?:\)|& &|\| \|))"
    r"|(?<=& & )(?:! )?{0}(?= (?:\)|& &|\| \|))"
)


def role(name: str, body: str, calls: Calls, depth: int = 0) -> tuple[str, list[str]]:
    """The role of an array that is not const, and questions about it. `body` is tokens joined by blanks."""
    if re.search(rf"(?<!\. )\b{name}\b", body) is None:
        return "in", []  # the kernel does not read it
    body = re.sub(_NULL.format(name), "1", body.replace(" - > ", " . "))
    body = _with_calls(name, body, calls, depth) if depth < MOST_CALLS else body
    body = re.sub(rf"\b__ldg \( (?:& )?{name} \+ ", f"( {name} [ 0 ] + ", body).replace("__ldg ( & ", "( ")  # it reads
    if (alias := re.search(_POINTER.format(name), body)) and len(re.findall(rf"(?<!\. )\b{name}\b", body)) == 1:
        return role(alias[1], f"{body[: alias.start()]}; {body[alias.end() :]}", calls, depth)
    element, word = _element(name), rf"(?<!\. )\b{name}\b"
    adds = rf"{element}{_PARTS}(?:{_COMPOUND}|{_STEP_BEHIND})|{_STEP_AHEAD}{element}"
    if re.search(rf"{adds}|\batomic\w* \( (?:[^;,]*[&*()] )?{name}\b", body):
        return "inout", []
    stores, uses = re.findall(rf"{element}{_PARTS}=(?! =)", body), re.findall(word, body)
    if stores and (_is_read_first(body, element) or _is_read_on_a_path(name, body, element)):
        return "inout", []
    only_elements = 0 < len(uses) == len(re.findall(element, body)) and not re.search(rf"& {_OPENED}{word}", body)
    if only_elements and not stores and not _may_be_written(body, element, calls):
        return "in", []
    is_sure = len(stores) == len(uses) > 0 or (only_elements and _is_written_before_read(name, body, element))
    return "out", [] if is_sure else ["in, out or inout?"]


def _element(name: str) -> str:
    """A pattern of an element of an array."""
    return rf"(?:(?<!\. )\b{name} {INDEX}|\* {name}) "


def decided_by(names: Collection[str], body: str, arrays: Mapping[str, str]) -> str:
    """The array, of those that `arrays` has by their names and aliases, whose elements decide which elements of another
    array, `names` with its aliases, a kernel writes; empty if there is none."""
    return decides(_element(f"(?:{'|'.join(sorted(names))})"), _PARTS, body, arrays)


def _with_calls(name: str, body: str, calls: Calls, depth: int) -> str:
    """A body with what functions of the source do with an array that they get, in the place of that argument."""
    parts, end = list[str](), 0
    for given in re.finditer(rf"(?<=[(,] )(?:{name}(?: \+ [^,;()]*)?|& {name} {INDEX}) (?=[,)])", body):
        parameter, inner = calls.parameter(*argument_of(body, given.start()))
        found, asks = role(parameter, inner, calls, depth + 1) if parameter.isidentifier() else ("", [""])
        if not asks:
            parts += [body[end : given.start()], _AS_IF[found].format(name)]
            end = given.end()
    return "".join([*parts, body[end:]])


def _may_be_written(body: str, element: str, calls: Calls) -> bool:
    """Whether an element may be written other than by a store: by ++ or --, through a reference, or by a function."""
    whole = rf"{_OPENED}{element}{_PARTS}"
    if re.search(rf"{_STEP}{whole}|{whole}(?:\) )*{_STEP}|{whole}(?:\) )+(?:=(?! =)|{_COMPOUND})", body):
        return True
    if re.search(rf"& \w+ [={{] {whole}", body):
        return True
    arguments = (argument_of(body, at.start()) for at in re.finditer(rf"(?<=[(,] ){whole}(?=[,)])", body))
    others = {name for name, place in arguments if name and not (name.startswith("atomic") and place)}
    return not all(map(calls.by_value, others))


def _is_written_before_read(name: str, body: str, element: str) -> bool:
    """Whether all accesses have one index, which keeps its value from the first on, and that is a store."""
    first = re.search(element, body)
    if first is None or not re.match(rf"{_PARTS}=(?! =)", body[first.end() :]):
        return False
    indices = {*re.findall(rf"(?<!\. )\b{name} ({INDEX})", body)}
    after, names = body[first.end() :], re.findall(r"[A-Za-z_]\w*", " ".join(indices))
    return len(indices) == 1 and not any(re.search(rf"\b{n} (?:{_COMPOUND}|{_STEP}|= (?!=))", after) for n in names)


def _is_read_on_a_path(name: str, body: str, element: str) -> bool:
    """Whether all accesses have one index, and a path, such as an `else`, reads what it has not written."""
    indices = {*re.findall(rf"(?<!\. )\b{name} ({INDEX})", body)}
    return len(indices) == 1 and is_read_unwritten(body, element, _PARTS)


def _is_read_first(body: str, element: str) -> bool:
    """Whether an element is read before any is written, so that the kernel needs the caller's values."""
    first, write = re.search(rf"(& )?{element}", body), re.search(rf"{element}{_PARTS}=(?! =)([^;]*)", body)
    if first is None or write is None or first[1]:
        return False
    return first.start() < write.start() or re.search(element, write[1]) is not None
