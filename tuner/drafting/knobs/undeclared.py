"""Finds the identifiers that a kernel reads and its source does not declare: knobs without a default.

There is no C parser. Anything that may be a declaration counts as one, so a knob may be missed, but no variable is
proposed as a knob.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import filterfalse

from tuner.drafting.expansion import expanded
from tuner.drafting.knobs.declarations import NO_TYPE, QUALIFIERS, after_name, declarators, statement_end
from tuner.drafting.knobs.known import is_known
from tuner.drafting.knobs.templates import is_type
from tuner.space.sources.prototype import is_type_word, template_parameters
from tuner.space.sources.tokens import angle_end, definitions, matching, split, words

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?!include)(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
_UNROLL = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+unroll\b([^\n]*)$", re.MULTILINE)  # it declares nothing, but reads
_NUMBERS = re.compile(
    r"^[ \t]*#[ \t]*(?:el)?if\b(?![^\n]*\bdefined\b)"
)  # conditions that read numbers and declare none
_MACRO = re.compile(r"[ \t]*#[ \t]*define[ \t]+\w+(\([^()]*\))?")  # its text declares nothing
_BEFORE_A_STATEMENT = {";", "{", "}", ")", ":", "#", "else", "do"}
_BEFORE_PARAMETERS = {"for", "if", "while", "switch", "catch", "]"}


def undeclared(code: str, text: str, runs: Callable[[str, Collection[str]], bool], more: str) -> dict[str, bool]:
    """The names that device functions in `code` read and nothing declares; True for those only used as conditions.

    `text` is `code` with its headers inlined. `runs(name, prefix)` says whether a function runs on the device, from
    its name and the tokens before it. `more` is further text that reads names, such as launch bounds.
    """
    if re.search(r"\busing\s+namespace\b", text):
        return {}  # the namespace may declare any name
    read: dict[str, bool] = {}
    never = set[str]()
    templates = dict(_templates(text))
    for prefix, name, _, _, tokens in definitions(words(code)):
        if not runs(name, prefix):
            continue
        body = expanded(tokens, text)
        never.update(_locals(body) if len(body) != len(tokens) else ())  # a macro may declare variables
        for position, word in enumerate(body):
            if _IDENTIFIER.fullmatch(word) and (use := _use(body, position)):
                if use == "other":
                    never.add(word)
                else:
                    read[word] = read.get(word, True) and use == "truth"
            for argument, kind in _template_arguments(body, position, templates.get(word, ())):
                read[argument] = read.get(argument, True) and kind == "bool"
    extra = words(" ".join((more, *_UNROLL.findall(code))))
    read |= dict.fromkeys(filter(_IDENTIFIER.fullmatch, extra), False)
    if not read:
        return {}
    known = never | _declared(text, Counter(extra)) | {*re.findall(r"\bnamespace\s+\w+\s*=\s*(?:::\s*)?(\w+)", text)}
    return {n: is_truth for n, is_truth in read.items() if n not in known and not is_known(n)}


def _declared(text: str, uses: Counter[str]) -> set[str]:
    """The names that `text` may declare: all names outside of functions except `uses`, and local declarations."""
    every = words(text)
    outside, names = Counter(every), set[str]()
    for _, _, _, _, body in definitions(every):
        outside.subtract(body)
        names.update(_locals(body))
    names.update(outside - uses)
    for directive in filterfalse(_UNROLL.fullmatch, _DIRECTIVE.findall(text)):
        if _NUMBERS.match(directive):
            continue
        macro = _MACRO.match(directive)
        names.update(_IDENTIFIER.findall(directive if macro is None else macro[0]))
    return names


def _templates(text: str) -> Iterator[tuple[str, list[str]]]:
    """The function templates of a text, each with the kinds of its parameters."""
    for prefix, name, _, _, _ in definitions(words(text)) if "template" in text else ():
        yield name, [*(template_parameters(prefix)[0] or {}).values()]


def _template_arguments(body: Sequence[str], at: int, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The names that a call of a template at a position passes for numbers, each with the parameter's kind."""
    if kinds and tuple(body[at + 1 : at + 2]) == ("<",):
        parts = split(body[at + 2 : angle_end(body, at + 1)])
        pairs = ((part, kind) for part, kind in zip(parts, kinds, strict=False) if len(part) == 1 and not is_type(kind))
        yield from ((part[0], kind) for part, kind in pairs if _IDENTIFIER.fullmatch(part[0]))


def _use(body: Sequence[str], at: int) -> str:
    """How the identifier at a position is used: "number", "truth", "other" (no variable), or "" if unclear."""
    before, after = (body[at - 1] if at else ";"), (body[at + 1] if at + 1 < len(body) else ";")
    ahead, second = (body[at - 2] if at > 1 else ";"), (body[at + 2] if at + 2 < len(body) else ";")
    if is_type_word(body[at]) or body[at] in NO_TYPE | QUALIFIERS:
        return "other"
    if before == "." or (before == ">" and ahead == "-"):
        return ""  # a member
    if after in ("(", "::") or before in ("::", "goto"):
        return "other"
    is_type = _IDENTIFIER.fullmatch(after) and after not in ("and", "or")
    is_condition = before == ";" and "".join(body[at + 3 : at + 4]) in tuple("<>!+-*/%")  # `; N * i < n`
    is_type = is_type or (after == "*" and before in ("{", "}", ";") and not is_condition)  # `FILE *file`
    if is_type or (after in "*&" and second in ")>") or (after == "-" and second == ">"):
        return "other"
    if after == "<" and after_name(body, at) > at + 1:
        return "other"  # a template
    if before == "(" and after == ")":
        if ahead in ("if", "while"):
            return "truth"
        is_cast = second == "(" or re.fullmatch(r"\w+", second)
        return "" if _IDENTIFIER.fullmatch(ahead) else "other" if is_cast else "number"
    if before in "*/%+-[" or after in "*/%+-]" or (before == "=" and (after in ";," or ahead in "<>=!+-*/%")):
        return "number"
    if before == "<" and after in ";)&|?":
        return "number"
    is_operand = (after == second and after in ("&", "|")) or (before == ahead and before in ("&", "|"))
    return "truth" if before == "!" or after == "?" or is_operand else ""


def _locals(body: Sequence[str]) -> Iterator[str]:
    """The names that a function's body declares."""
    for position, word in enumerate(body):
        before = body[position - 1] if position else ";"
        if word in ("struct", "union", "enum", "class", "typedef", "using"):
            statement = body[position : statement_end(body, position)]
            names = [name for name in statement if _IDENTIFIER.fullmatch(name)]
            yield from names if "{" in statement else (*names[1:2], *names[-1:]) if word != "typedef" else names[-1:]
        if (before, word) == ("(", "*") and tuple(body[position + 2 : position + 4]) in ((")", "["), (")", "(")):
            yield body[position + 1]  # `float (*rows)[4]`, a pointer to arrays or functions
        if before in _BEFORE_A_STATEMENT and (loop := _loop_by_macro(body, position)):
            yield from loop
        if before in _BEFORE_A_STATEMENT or (
            before == "(" and position > 1 and body[position - 2] in _BEFORE_PARAMETERS
        ):
            yield from (body[at] for at in declarators(body, position))


def _loop_by_macro(body: Sequence[str], position: int) -> list[str]:
    """The arguments of a macro before a block, as in `EACH(i, n) { ... }`: the macro may declare them."""
    if body[position + 1 : position + 2] != ("(",) or body[position] in _BEFORE_PARAMETERS:
        return []
    end = matching(body, position + 1)
    inner = body[position + 2 : end]
    parts = [
        inner[i] for i in range(len(inner)) if inner[i - 1 : i] in ((), (",",)) and inner[i + 1 : i + 2] in ((), (",",))
    ]
    return [part for part in parts if _IDENTIFIER.fullmatch(part)] if body[end + 1 : end + 2] == ("{",) else []
