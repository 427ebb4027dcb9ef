"""Infers the role of an array (in, out, inout) and the use of its elements from the tokens of a kernel."""

from __future__ import annotations

import re
from collections.abc import Collection

from tuner.drafting.calls import Calls, function_of
from tuner.space.sources.prototype import matching

_NUMBER = r"(?:- )?\d[\w.]*"
_ZERO = r"0(?:\.0*)?f?"
_INDEX = r"\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]"
_PARTS = rf"(?:\. \w+ |{_INDEX} )*"  # a member or component of an element
_STEP = r"(?:\+ \+|- -) "
_STEP_AHEAD = rf"(?:(?<![\w\]+-] )|(?<=\breturn )|(?<=\belse )|(?<=\bdo )){_STEP}"  # a + + b is a sum
_STEP_BEHIND = rf"{_STEP}(?=[;,)\]}}])"
_OPENED = r"(?:\( ){0,9}"  # limited, because a long run of brackets would take quadratic time
_COMPOUND = r"(?:[-+*/%|&^]|< <|> >) = "


def role(name: str, body: str, calls: Calls) -> tuple[str, list[str]]:
    """The role of an array that is not const, and questions about it. `body` is tokens joined by blanks."""
    body = re.sub(rf"\b__ldg \( (?:& )?{name} \+ ", f"( {name} [ 0 ] + ", body).replace("__ldg ( & ", "( ")  # it reads
    element, word = rf"(?:(?<!\. )\b{name} {_INDEX}|\* {name}) ", rf"(?<!\. )\b{name}\b"
    adds = rf"{element}{_PARTS}(?:{_COMPOUND}|{_STEP_BEHIND})|{_STEP_AHEAD}{element}"
    if re.search(rf"{adds}|\batomic\w* \( (?:[^;,]*[&*()] )?{name}\b", body):
        return "inout", []
    stores, uses = re.findall(rf"{element}{_PARTS}=(?! =)", body), re.findall(word, body)
    if stores and _is_read_first(body, element):
        return "inout", []
    only_elements = 0 < len(uses) == len(re.findall(element, body)) and not re.search(rf"& {_OPENED}{word}", body)
    if only_elements and not stores and not _may_be_written(body, element, calls):
        return "in", []
    return "out", [] if len(stores) == len(uses) > 0 else ["in, out or inout?"]


def _may_be_written(body: str, element: str, calls: Calls) -> bool:
    """Whether an element may be written other than by a store: by ++ or --, through a reference, or by a function."""
    whole = rf"{_OPENED}{element}{_PARTS}"
    if re.search(rf"{_STEP}{whole}|{whole}(?:\) )*{_STEP}|{whole}(?:\) )+(?:=(?! =)|{_COMPOUND})", body):
        return True
    if re.search(rf"& \w+ [={{] {whole}", body):
        return True
    arguments = re.finditer(rf"(?<=[(,] ){whole}(?=[,)])", body)
    return any(not calls.by_value(name) for at in arguments if (name := function_of(body, at.start())))


def _is_read_first(body: str, element: str) -> bool:
    """Whether an element is read before any is written, so that the kernel needs the caller's values."""
    first, write = re.search(rf"(& )?{element}", body), re.search(rf"{element}{_PARTS}=(?! =)([^;]*)", body)
    if first is None or write is None or first[1]:
        return False
    return first.start() < write.start() or re.search(element, write[1]) is not None


def is_condition(names: Collection[str], body: str) -> bool:
    """Whether an element of an array (`names`: its name and aliases) is a condition: `mask[i] ? x : y`."""
    element = _element(names, body)
    alone = rf"(?:if|while) \( {element} \)|! {element}|(?:& &|\| \|) {element} [)&|?]"
    return (
        re.search(rf"{alone}|(?<![-+*/%<>] )(?<![<>=!] = ){element} (?:\?|& &|\| \||[!=] = {_ZERO} )", body) is not None
    )


def is_compared(names: Collection[str], body: str) -> bool:
    """Whether the elements of an array are only compared with numbers, as in `mask[i] > 0.5f`."""
    element = _element(names, body)
    compared = (
        rf"(?<![-+*/] ){element} (?:[<>]|[=!<>] =) {_NUMBER} |(?<= ){_NUMBER} (?:[<>]|[=!<>] =) {element}(?! [-+*/])"
    )
    named = rf"\b\w+ = {element} ;"
    rest = re.sub(named, "", re.sub(compared, "", body))
    return rest != re.sub(named, "", body) and re.search(element, rest) is None


def is_code(name: str, body: str) -> bool:
    """Whether a scalar is only tested for equality or by its bits, so that it is no size."""
    uses = len(re.findall(rf"(?<!\. )\b{name}\b", body))
    equal = rf"[=!] = {name}\b(?! [-+*/%])|(?<![-+*/%] )\b{name} [=!] ="
    bits = rf"(?<![&|] )[&|^] {name}\b(?! [-+*/%])|(?<![-+*/%] )\b{name} (?:[&|^] (?![&|]))"
    return 0 < uses == len(re.findall(rf"{equal}|{bits}", body))


def is_case(name: str, body: str) -> bool:
    """Whether a constant is only one of the values that something is compared with, so that it is no knob."""
    uses = len(re.findall(rf"(?<!\. )\b{name}\b", body))
    return (
        0 < uses == len(re.findall(rf"[=!] = {name}\b(?! [-+*/%])|(?<![-+*/%] )\b{name} [=!] =|\bcase {name} :", body))
    )


def is_divisor(names: Collection[str], body: str) -> bool:
    """Whether an element of an array is a divisor."""
    return re.search(rf"[/%] {_element(names, body)}", body) is not None


def is_root_or_logarithm(names: Collection[str], body: str) -> bool:
    """Whether a root or logarithm is taken of an element of an array, or of a product with it."""
    element = _element(names, body)
    for call in re.finditer(r"\b(?:\w+_)?(?:r?sqrt|log(?:2|10)?)f? \( ", body):
        words = body[call.end() :].split(" ")
        inner = " ".join(words[: matching(["(", *words], 0) - 1])
        if len(re.findall(element, inner)) == 1 and not re.search(r"abs|exp|max|[-+]", re.sub(_INDEX, "", inner)):
            return True
    return False


def _element(names: Collection[str], body: str) -> str:
    """A pattern for an element of an array, or for a local variable that is assigned one."""
    element = rf"(?<!\. )\b(?:{'|'.join(map(re.escape, sorted(names)))}) {_INDEX}"
    local = sorted(set(re.findall(rf"\b(\w+) = {element} ;", body)))
    local = [name for name in local if len(re.findall(rf"\b{name} (?:[-+*/%&|^] )?=(?! =)", body)) == 1]
    return rf"(?:{element}|(?<!\. )\b(?:{'|'.join(local)})\b(?! = ))" if local else element
