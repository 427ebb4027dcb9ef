"""The names that a kernel reads: in its body, and in the functions, macros, constants and types that it uses."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tuner.space.sources.closure import closed
from tuner.space.sources.device_declarations import ALWAYS, Declarations, flat
from tuner.space.sources.prototype import Prototype
from tuner.space.sources.struct_text import braced
from tuner.space.sources.tokens import definitions, words

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:if|elif)\b((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+\w+((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_DEFINED = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
_DEFAULT = re.compile(
    r"^[ \t]*#[ \t]*(?:ifndef[ \t]+|if[ \t]*![ \t]*defined\b[ \t(]*)(\w+)[ \t)]*\n[ \t]*#[ \t]*define[ \t]+\1\b[^\n]*\n"
    r"[ \t]*#[ \t]*endif[^\n]*$",
    re.MULTILINE,
)
_TEST = re.compile(r"^[ \t]*#[ \t]*(?:if|el|pragma)\w*((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
_NO_CODE = re.compile(r"^[ \t]*#[ \t]*(?:pragma[ \t]+(?:OPENCL|once)|include)\b[^\n]*$", re.MULTILINE)
_UNROLLED = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+(?:GCC[ \t]+)?(?:no)?unroll\b")
_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|el|endif|pragma)")
_EMPTY = re.compile(  # a condition with nothing in any branch
    r"^[ \t]*#[ \t]*if(?:[^\n]*\\\n)*[^\n]*\n\s*(?:#[ \t]*el(?:[^\n]*\\\n)*[^\n]*\n\s*)*#[ \t]*endif[^\n]*$",
    re.MULTILINE,
)
_CONSTANT = re.compile(
    r"\b(?:const|constexpr|static|(?:__)?constant(?:__)?|using)\b[^;{}()=]*?\b(\w+)\s*=(?!=)\s*([^;{}]+);"
)
_STRUCT = re.compile(r"\b(?:struct|class|union)\b\s*(\w*)[^;(){}]*\{")
_POINTER = re.compile(r"\btypedef\s+(?:const\s+)?(?:struct\s+|union\s+)?(\w+)\s*\*\s*(\w+)\s*;")
_NEAR = 40  # characters before `struct`
_BODY = re.compile(r"\)\s*(?:const\b|noexcept\b|override\b|\s)*(?::[^;{}]*)?\{")  # the head of a method's body


def reached(code: str, steps: Iterable[Prototype], conditions: bool = True) -> frozenset[str]:
    """The names that `steps` read in `code`, which has its headers and no comments; and, with `conditions`, all that
    conditions of the preprocessor read."""
    read = defaultdict[str, set[str]](set)
    for _, name, inner, _, body in definitions(words(code)):
        read[name].update(body, inner)
    for name, text in _DEFINE.findall(code):
        read[name].update(re.findall(r"[A-Za-z_]\w*", text))
    for name, text in _CONSTANT.findall(code):
        read[name].update(re.findall(r"[A-Za-z_]\w*", text))
    for head in _STRUCT.finditer(code):
        text, after = braced(code, head.end() - 1)
        for each in (head[1], *re.findall(r"^\s*(\w+)\s*$", after)):
            read[each].update(re.findall(r"[A-Za-z_]\w*", text))
    first = set[str]()
    for step in steps:
        own = {parameter.name for parameter in step.parameters or ()}  # they hide what is outside of the kernel
        read[step.name] -= own
        first.update((step.name, *({*step.body} - own), *words(" ".join(step.block))))
    first.update(word for step in steps for p in step.parameters or () for word in words(p.type))
    if conditions:
        first.update(word for text in _DIRECTIVE.findall(code) for word in re.findall(r"[A-Za-z_]\w*", text))
        for function, texts in _pragmas(code):
            (first if function is None else read[function]).update(texts)
    return closed(first, lambda name: read.get(name, ()))


def _pragmas(code: str) -> Iterator[tuple[str | None, list[str]]]:
    """The names in each pragma, with the function that has it; None for one outside of functions."""
    if not any(map(_NAME.search, _PRAGMA.findall(code))):
        return
    declarations = Declarations(code)
    functions = [each for each in flat(declarations.all) if len(each.names) == 1 and not each.members]
    for at, token in enumerate(declarations.tokens):
        if token.is_directive and (pragma := _PRAGMA.match(token.text)):
            around = (name for each in functions if each.first <= at <= each.last for name in each.names)
            yield next(around, None), _NAME.findall(pragma[1])


def without_others(code: str, names: frozenset[str]) -> str:
    """`code`, which has no comments, without the declarations and macros that are not among `names`, and without the
    conditions under which nothing is left. Macros that other conditions test stay."""
    read, parts, end = Declarations(code), list[str](), 0
    places = [(each, range(each.first, each.last + 1)) for each in flat(read.all)]
    inside = {at for _, place in places for at in place}
    directives = {at for at, token in enumerate(read.tokens) if token.is_directive}
    # A pragma that unrolls no loop is left of a function that was cut.
    unneeded = {at for at in directives - inside if _UNROLLED.match(read.tokens[at].text)}
    for each, place in places:
        if (names | {ALWAYS}).isdisjoint(each.names):
            tested = {
                at: match[1] for at in place if at in directives and (match := _CONDITION.match(read.tokens[at].text))
            }
            is_whole = [*tested.values()].count("if") == [*tested.values()].count("endif")
            unneeded |= {*place} - directives | ({*tested} if is_whole else set())
    for at in sorted(unneeded):
        token = read.tokens[at]
        parts += [code[end : token.start], re.sub(r"[^\n]", " ", token.text)]
        end = token.end
    rest, before = _NO_CODE.sub("", "".join([*parts, code[end:]])), ""
    while rest != before:
        before, used = rest, names.union(*map(_NAME.findall, _TEST.findall(_DEFAULT.sub("", rest))))
        for unused in (_DEFAULT, _DEFINED):
            rest = unused.sub(lambda match: match[0] if match[1] in used else "", rest)  # noqa: B023
        rest = _EMPTY.sub("", rest)
    return rest


def extents_of_members(code: str, names: frozenset[str]) -> list[str]:
    """The extents of arrays in the structs of these names."""
    found = ((head[1], *braced(code, head.end() - 1)) for head in _STRUCT.finditer(code))
    structs = [text for name, text, after in found if name in names or after.strip() in names]
    return [extent for text in structs for extent in re.findall(r"\[([^\[\]]*)\]", _without_methods(text))]


def _without_methods(text: str) -> str:
    """The text of a struct without the bodies of its functions."""
    parts, end = list[str](), 0
    for head in _BODY.finditer(text):
        if head.start() >= end:
            parts.append(text[end : head.end()])
            end = head.end() + len(braced(text, head.end() - 1)[0])
    return "".join([*parts, text[end:]])


def pointers(code: str) -> dict[str, str]:
    """The types to which names for pointers point: of `typedef struct {...} node, *list;`, list to node."""
    found = {name: kind for kind, name in _POINTER.findall(code)}
    for head in _STRUCT.finditer(code):
        if not re.search(r"\btypedef\s*$", code[max(0, head.start() - _NEAR) : head.start()]):
            continue
        declared = re.findall(r"(\*?)\s*(\w+)", braced(code, head.end() - 1)[1])
        plain = [name for star, name in declared if not star] or [head[1]]
        found |= {name: plain[0] for star, name in declared if star and plain[0]}
    return found


def is_declared(code: str, name: str) -> bool:
    """Whether `code` may declare a type of this name."""
    line = rf"\b(?:typedef\b[^;]*|define[ \t]+|struct\s+|union\s+|enum\s+|class\s+|using\s+)\b{name}\b"
    return re.search(rf"{line}|\}}\s*{name}\s*[;,]", code) is not None


def enumerators(code: str, kind: str) -> tuple[str, list[str]]:
    """The prefix and the names of the enumerators of an enumeration; none if `code` does not define it."""
    name = re.escape(kind.rpartition("::")[2])
    match = re.search(rf"\benum\s+(class\s+|struct\s+)?{name}\b[^;{{}}]*\{{([^{{}}]*)\}}", code)
    is_scoped = match is not None and match[1] is not None
    match = match or re.search(rf"\btypedef\s+enum\s*(\w*)\s*\{{([^{{}}]*)\}}\s*{name}\b", code)
    if match is None:
        return "", []
    return f"{kind}::" if is_scoped else "", re.findall(r"(?:^|,)\s*([A-Za-z_]\w*)", match[2])
