"""Infers the role of an array (in, out, inout) and the use of its elements from the tokens of a kernel."""

from __future__ import annotations

import re
from collections.abc import Collection

from tuner.drafting.assignments import is_read_unwritten
from tuner.drafting.calls import Calls, argument_of
from tuner.space.sources.tokens import matching

_NUMBER = r"(?:- )?\d[\w.]*"
_ZERO = r"0(?:\.0*)?f?"
_INDEX = r"\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]"
_PARTS = rf"(?:\. \w+ |{_INDEX} )*"  # a member or component of an element
_STEP = r"(?:\+ \+|- -) "
_STEP_AHEAD = rf"(?:(?<![\w\]+-] )|(?<=\breturn )|(?<=\belse )|(?<=\bdo )){_STEP}"  # a + + b is a sum
_STEP_BEHIND = rf"{_STEP}(?=[;,)\]}}])"
_OPENED = r"(?:\( ){0,9}"  # limited, because a long run of brackets would take quadratic time
# A local pointer to the array, or into it, perhaps to another type.
_POINTER = (
    r"\* (?:restrict |__restrict__ |const )*(\w+) = (?:\( [^()]*\* \) )?"
    r"(?:{0}(?: \+ [^;]*)?|& {0} " + _INDEX + r"|reinterpret_cast < [^()]*\* > \( {0} \)) ;"
)
_AS_IF = {"in": "{0} [ 0 ] + 0 ", "out": "0 ; {0} [ 0 ] = 0 ; 0 ", "inout": "{0} [ 0 ] + = 0 "}
MOST_CALLS = 4  # of functions within functions
_FLOATING = r"\b\d+(?:\.\d*)?[eE]|\b\d+\.\d*|\b(?:r?sqrt|cbrt|exp2?|log(?:2|10)?|pow|sin|cos|tanh?|f?abs)f? \("
_HEADER = re.compile(r"^ *(?:else )?(?:if|while) \( [^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)|^ *else\b")
_NO_VALUE = re.compile(
    r"^ *(?:(?:const|static|unsigned|__shared__) )*(?:int|unsigned|long|short|char|bool|auto|size_t|u?int\d*(?:_t)?) "
    r"|\b(?:for|while|switch|case|pragma|__shared__)\b"
)
_COUNTER = re.compile(r"j|t|it|iter(?:ation)?|i?step|stage|pass")
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
    element, word = rf"(?:(?<!\. )\b{name} {_INDEX}|\* {name}) ", rf"(?<!\. )\b{name}\b"
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


def _with_calls(name: str, body: str, calls: Calls, depth: int) -> str:
    """A body with what functions of the source do with an array that they get, in the place of that argument."""
    parts, end = list[str](), 0
    for given in re.finditer(rf"(?<=[(,] )(?:{name}(?: \+ [^,;()]*)?|& {name} {_INDEX}) (?=[,)])", body):
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
    indices = {*re.findall(rf"(?<!\. )\b{name} ({_INDEX})", body)}
    after, names = body[first.end() :], re.findall(r"[A-Za-z_]\w*", " ".join(indices))
    return len(indices) == 1 and not any(re.search(rf"\b{n} (?:{_COMPOUND}|{_STEP}|= (?!=))", after) for n in names)


def _is_read_on_a_path(name: str, body: str, element: str) -> bool:
    """Whether all accesses have one index, and a path, such as an `else`, reads what it has not written."""
    indices = {*re.findall(rf"(?<!\. )\b{name} ({_INDEX})", body)}
    return len(indices) == 1 and is_read_unwritten(body, element, _PARTS)


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
    equal = rf"[=!] = {name}\b(?! [-+*/%])|(?<![-+*/%] )\b{name} [=!] =|\bswitch \( {name} \)"
    bits = rf"(?<![&|] )[&|^] {name}\b(?! [-+*/%])|(?<![-+*/%] )\b{name} (?:[&|^] (?![&|]))"
    return 0 < uses == len(re.findall(rf"{equal}|{bits}", body))


def is_counter(name: str, body: str) -> bool:
    """Whether a scalar has the name of a counter, such as that of time steps, and no index or comparison reads it."""
    if _COUNTER.fullmatch(name) is None:
        return False
    compared = rf"[<>] (?:= )?{name}\b|(?<!\. )\b{name} (?:[<>])"
    return (
        re.search(rf"{compared}|\[[^\[\]]*\b{name}\b|\b(?:int|unsigned|long|size_t) \w+ = [^;]*\b{name}\b", body)
        is None
    )


def is_case(name: str, body: str) -> bool:
    """Whether a constant is only one of the values that something is compared with, so that it is no knob."""
    if _is_choice(name, body):
        return False
    uses = len(re.findall(rf"(?<!\. )\b{name}\b", body))
    return (
        0 < uses == len(re.findall(rf"[=!] = {name}\b(?! [-+*/%])|(?<![-+*/%] )\b{name} [=!] =|\bcase {name} :", body))
    )


def _is_choice(name: str, body: str) -> bool:
    """Whether a constant is itself compared with a number, as in `if (METHOD == 2)`: it chooses among codes."""
    before = r"(?<![-+*/%<>.] )\b"  # a remainder or a sum is compared, not a choice
    return re.search(rf"{before}{name} [=!] = \d|{before}\d\w* [=!] = {name}\b", body) is not None


def is_quantity(name: str, text: str, floats: Collection[str]) -> bool:
    """Whether a constant is only stored as it is, or a term or factor of floating-point numbers: another value computes
    something else.

    text: tokens of the kernels and of the functions that they call, joined by blanks
    floats: names of floating-point numbers, their arrays and their types
    """
    evidence = rf"{_FLOATING}|\b(?:{'|'.join(map(re.escape, sorted({*floats, 'float', 'double'})))})\b"
    if _is_choice(name, text):
        return False
    found = False
    for each in re.split("[;{}]", text):
        statement = _HEADER.sub("", each[_end_of_loop(each) :])
        if re.search(rf"\b{name}\b", each) is None:
            continue
        if re.search(rf"\b{name}\b", each[: len(each) - len(statement)]) or _NO_VALUE.search(statement):
            return False
        if re.search(rf"[<>%] (?:= )?{name}\b|\b{name} [<>%]|[(,] {name} [,)]", statement):
            return False  # a bound, or an argument of a function
        is_stored = re.search(rf"(?:\]|\. \w+) = {name} *$", statement) is not None
        whole = statement
        while (outside := re.sub(r"\[[^\[\]]*\]", "", whole)) != whole:
            whole = outside
        is_float = re.search(r"(?<![<>=!]) = (?!=)|\breturn\b", whole) and re.search(evidence, whole)
        if not re.search(rf"\b{name}\b", whole) or not (is_stored or is_float):
            return False
        found = True
    return found


def _end_of_loop(piece: str) -> int:
    """Where the last part of a loop's head ends in `i += 2 ) y [ i ] = 0`; 0 without one."""
    depth = 0
    for bracket in re.finditer(r"[()]", piece):
        depth += 1 if bracket[0] == "(" else -1
        if depth < 0:
            return bracket.end()
    return 0


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
