"""Finds how much memory host code allocates for an array: a polynomial of bytes or of elements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tuner.classes import dataclass
from tuner.drafting.expansion import split_arguments
from tuner.drafting.host import tensors
from tuner.drafting.host.program import HostFunction
from tuner.drafting.host.scope import HostScope, chains
from tuner.drafting.polynomials import Monomial, Polynomial, text, times
from tuner.space.sources.tokens import matching

_OF_DEVICES = re.compile(r"(?:cuda|hip)(?:Host|Ext)?(?:Malloc|Alloc)(?:Managed|Async|Host|Mapped)?|cuMemAlloc\w*")
_OF_OTHERS = re.compile(r"(?i)\w*(?:malloc|alloc)\w*")
_ASSIGNED = re.compile(rf"{_OF_OTHERS.pattern}|clCreateBuffer|Buffer")
_NULL = (("NULL",), ("nullptr",), ("0",))
_TEMPLATE_NAME = re.compile(r"[A-Z]\w?|[A-Z]\w*(?:Type|_T)")
_TEMPLATE = re.compile(rf"sizeof \( (?:{_TEMPLATE_NAME.pattern}) \)")
MOST_WORDS = 24  # before a pointer that is given by reference
_CASTS = ("static_cast", "reinterpret_cast", "const_cast")
_TRANSPARENT = ("raw_pointer_cast", "device_pointer_cast", "HIP_KERNEL_NAME")
MOST_STEPS = 8  # names and calls between a launch and its allocation


@dataclass(frozen=True)
class Allocation:
    """Allocated memory: a number of bytes, or of elements of the type `element`. `is_of_device`: kernels can use it."""

    amount: Polynomial
    element: str = ""
    is_of_device: bool = False


def memory(scope: HostScope, words: Sequence[str], steps: int = 0) -> Allocation | None:
    """The memory that the pointer `words` points to the start of; None if it is unknown or ambiguous."""
    name = _name(words)
    if not name or steps > MOST_STEPS:
        return None
    function = scope.function
    if found := [*_allocated(scope, name, steps)]:
        if any(not each.words for each in function.assignments.get(name, ())):
            return None  # x++
        of_device = [each for each in found if each.is_of_device] or found  # the host may have other memory before
        return of_device[0] if len({(text(each.amount), each.element) for each in of_device}) == 1 else None
    base = name.partition(".")[0]
    is_own = function.declares(base)
    if tensors.is_tensor(function, name) and (of_tensor := _of_tensor(scope, name, steps)) is not None:
        return of_tensor
    if base in scope.given and not is_own:
        given = [word for word in scope.given[base] if word != "&" or base == name]
        inner = [*given, *_members(name)] if scope.caller is not None else []
        return memory(scope.caller, inner, steps + 1) if scope.caller is not None else None
    if is_own and ("." not in name or (name in function.assignments and base not in function.assignments)):
        assigned = [each for each in function.assignments.get(name, []) if each.words]
        texts = {each.words for each in assigned if each.words not in _NULL}
        if len(texts) != 1:
            return None
        there = scope.at(next(each.position for each in assigned if each.words in texts))
        return memory(there, words := next(iter(texts)), steps + 1) or _of_helper(there, words, steps)
    return _elsewhere(scope, name)


def _of_tensor(scope: HostScope, name: str, steps: int) -> Allocation | None:
    """The memory of a tensor of PyTorch that a function makes or gets; None if it is unknown."""
    for each in scope.function.assignments.get(name, ()):
        amount, like = tensors.made(scope.at(each.position), each.words)
        if amount is not None:
            return Allocation(amount, "Tensor")
        if like and like != [name]:
            return memory(scope.at(each.position), like, steps + 1)
    asked = tensors.elements(scope, name)
    return None if asked is None else Allocation(asked, "Tensor")


def _members(name: str) -> list[str]:
    return [word for part in name.split(".")[1:] for word in (".", part)]


def _of_helper(scope: HostScope, words: Sequence[str], steps: int) -> Allocation | None:
    """The memory that a call of a function of the program returns; None if it is unknown."""
    words = _without_cast(words)
    opening = words.index("(") if "(" in words else 0
    if not opening or not words[0].isidentifier() or matching(words, opening) != len(words) - 1:
        return None
    given = split_arguments(words[opening + 1 : -1])
    function = scope.program.called(words[0], len(given))
    if function is None or function.body.count("return") != 1:
        return None
    start = function.body.index("return")
    inside = HostScope(scope.program, scope.notes, function, start, scope, given)
    inside.is_value = True
    found = memory(inside, function.body[start + 1 : function.body.index(";", start)], steps + 1)
    if found is None or inside.is_own(found.amount):
        return None
    return _of_type(found, " ".join(word for word in words[2 : opening - 1] if word != ","))


def _of_type(found: Allocation, element: str) -> Allocation:
    """Memory whose amount has the size of a template's type, which is `element`, if that is known."""
    amount = dict[Monomial, int]()
    for product, factor in found.amount.items():
        names = (f"sizeof ( {element} )" if element and _TEMPLATE.fullmatch(name) else name for name in product)
        amount[tuple(sorted(names))] = factor
    return Allocation(amount, element if _TEMPLATE_NAME.fullmatch(found.element) and element else found.element)


def _by_helper(scope: HostScope, at: int, after: int, steps: int) -> Iterator[Allocation]:
    """The memory that a function of the program allocates for a pointer that it gets by reference: make(&x, n)."""
    body = scope.function.body
    opening = next((i for i in range(at - 1, max(-1, at - MOST_WORDS), -1) if matching(body, i) > after - 1 > i), -1)
    if opening < 0 or body[opening] != "(" or not (name := _called(body, opening)):
        return
    given = split_arguments(body[opening + 1 : matching(body, opening)])
    function, words = scope.program.called(name, len(given)), [body[at]]
    if function is None:
        return
    for each, (parameter, types) in zip(given, function.parameters.items(), strict=True):
        plain = _without_cast(each)
        if plain == ["&", *words] or (plain == words and "&" in types and "*" in types):
            inside = HostScope(scope.program, scope.notes, function, len(function.body), scope.at(at), given)
            inside.is_value = True
            found = memory(inside, [parameter], steps + 1)
            if found is not None and not inside.is_own(found.amount):
                yield _of_type(found, scope.function.type_of(body[at]))


def _without_cast(words: Sequence[str]) -> list[str]:
    words = [*words]
    while words[:1] == ["("] and matching(words, 0) < len(words) - 1:
        words = words[matching(words, 0) + 1 :]
    return words


def _elsewhere(scope: HostScope, name: str) -> Allocation | None:
    """The memory of a global variable or a member, which another function allocates."""
    found = list[Allocation]()
    for function in scope.program.functions:
        is_same = function is not scope.function and not function.declares(name.partition(".")[0])  # no local variable
        if is_same and any(True for _ in _calls(function, name)):
            for each in chains(scope.program, scope.notes, function, len(function.body)):
                found += _allocated(each, name, MOST_STEPS)
    return found[0] if len({(text(each.amount), each.element) for each in found}) == 1 else None


def _name(words: Sequence[str]) -> str:
    """The name of a pointer without casts; elements of an array of pointers have `[]` behind its name."""
    words = tensors.pointed_to(words)
    while words[:1] == ["("]:
        end = matching(words, 0)
        inner, rest = words[1:end], words[end + 1 :]
        words = tensors.pointed_to(rest or inner)
    if words[:1] and words[0] in (*_CASTS, *_TRANSPARENT) and "(" in words:
        start = words.index("(")
        return _name(words[start + 1 : matching(words, start)]) if matching(words, start) == len(words) - 1 else ""
    if words[:1] == ["&"] and words[-3:] == ["[", "0", "]"]:
        return _name(words[1:-3])
    if words[-4:] in ([".", "data", "(", ")"], [".", "get", "(", ")"], [".", "begin", "(", ")"]):
        words = words[:-4]
    found, at = "", 0
    while at < len(words):
        if words[at] == "[" and found:
            found, at = f"{found}[]", matching(words, at) + 1
        elif words[at] == "." or words[at].isidentifier():
            found, at = found + words[at], at + 1
        else:
            return ""
    return found


def _calls(function: HostFunction, name: str) -> Iterator[int]:
    """The positions in a function where a pointer of this name may be allocated."""
    last = name.rpartition(".")[2].removesuffix("[]")
    return (at for at, word in enumerate(function.body) if word == last)


def _allocated(scope: HostScope, name: str, steps: int) -> Iterator[Allocation]:
    """The memory that the function of a scope allocates for a pointer."""
    function = scope.function
    for at in _calls(function, name):
        whole = function.path(at) + "[]" * name.endswith("[]")
        if whole != name:
            continue
        after = at + 1
        if name.endswith("[]"):
            if function.body[after : after + 1] != ("[",):
                continue
            after = matching(function.body, after) + 1
        yield from _assigned(scope, at, after)
        yield from _by_reference(scope, at, after)
        yield from _by_macro(scope, at, after)
        if "." not in name and steps < MOST_STEPS:
            yield from _by_helper(scope, at, after, steps)


def _assigned(scope: HostScope, at: int, after: int) -> Iterator[Allocation]:
    """The memory of `x = new float[n]`, `x = (float *)malloc(bytes)` and `vector<float> x(n)`."""
    body, here = scope.function.body, scope.at(at)
    if body[after : after + 1] == ("(",) and body[at - 1 : at] == (">",):
        inner = split_arguments(body[after + 1 : matching(body, after)])
        element = _template_argument(body, at - 1)
        if element and inner[0] and not _is_resized(body, body[at]):
            yield Allocation(here.polynomial(inner[0]), element)
            return
    if body[after : after + 1] == ("(",) and (
        body[at - 1] == "Buffer" or scope.function.is_of_type(body[at], "Buffer")
    ):
        yield from _of_buffer(here, split_arguments(body[after + 1 : matching(body, after)]))
    if body[after : after + 1] != ("=",):
        return
    end = next((i for i in range(after, len(body)) if body[i] == ";"), len(body))
    words = body[after + 1 : end]
    if words[:1] == ("new",) and "[" in words:
        opening = words.index("[")
        if (closing := matching(words, opening)) == len(words) - 1 or words[closing + 1] == "(":
            yield Allocation(here.polynomial(words[opening + 1 : closing]), " ".join(words[1:opening]))
    while words[:1] == ("(",):
        words = words[matching(words, 0) + 1 :]
    if len(words) > 2 and words[1] == "(" and _ASSIGNED.fullmatch(words[0]):
        given = split_arguments(words[2 : matching(words, 1)])
        parts = [here.polynomial(part) for part in given]
        if words[0].endswith("calloc") and len(parts) == 2:
            yield Allocation(times(*parts))
        elif words[0] == "aligned_alloc" and len(parts) == 2:
            yield Allocation(parts[1])
        elif words[0] in ("clCreateBuffer", "Buffer"):
            yield from _of_buffer(here, given)
        elif words[0].endswith("malloc") and parts:
            yield Allocation(parts[0])


def _is_resized(body: Sequence[str], vector: str) -> bool:
    """Whether a vector gets another length than that of its declaration."""
    places = (at for at, word in enumerate(body[:-2]) if word == vector and body[at + 1] == ".")
    return any(body[at + 2] in ("resize", "push_back", "assign", "insert", "emplace_back") for at in places)


def _of_buffer(scope: HostScope, given: Sequence[Sequence[str]]) -> Iterator[Allocation]:
    """The memory of clCreateBuffer(context, flags, bytes, ...) or cl::Buffer(context, x.begin(), x.end(), ...)."""
    ranges = [each for each in given if tuple(each[-3:]) == ("begin", "(", ")")]
    found = memory(scope, ranges[0]) if ranges else None
    if found is not None:
        yield found
    elif not ranges and len(given) > 2:
        yield Allocation(scope.polynomial(given[2]))


def _by_reference(scope: HostScope, at: int, after: int) -> Iterator[Allocation]:
    """The memory of `cudaMalloc(&x, bytes)` and similar functions."""
    body = scope.function.body
    start, depth = at, 0
    while start > 0 and not (depth == 0 and body[start - 1] == "(" and _OF_OTHERS.fullmatch(_called(body, start - 1))):
        start -= 1
        if body[start] in (";", "{", "}", ",", "=") or at - start > 16:
            return
    name = _called(body, start - 1)
    parts = split_arguments(body[start : matching(body, start - 1)])
    is_device = _OF_DEVICES.fullmatch(name) is not None
    if name in ("cudaMallocPitch", "hipMallocPitch") and len(parts) == 4 and parts[1][:1] == ["&"]:
        element, here = scope.function.type_of(body[at]), scope.at(matching(body, start - 1))
        row = here.polynomial(["(", *parts[1][1:], ")", "/", "sizeof", "(", *element.split(), ")"])
        yield Allocation(times(row, here.polynomial(parts[3])), element)
        return
    if start == 0 or body[after] != "," or len(parts) < 2 or not (is_device or "sizeof" in parts[1]):
        return
    yield Allocation(scope.at(at).polynomial(parts[1]), is_of_device=is_device)


def _by_macro(scope: HostScope, at: int, after: int) -> Iterator[Allocation]:
    """The memory of `CHECK(cudaMalloc, &x, bytes)`, which calls a function that it gets."""
    body = scope.function.body
    first = next((i for i in range(at, max(-1, at - MOST_WORDS), -1) if _OF_DEVICES.fullmatch(body[i])), 0)
    if not first or body[first - 1 : first] != ("(",) or body[first + 1] != "," or body[after : after + 1] != (",",):
        return
    parts = split_arguments(body[first : matching(body, first - 1)])
    if len(parts) > 2 and "&" in parts[1] and parts[1][-1] == body[at]:
        yield Allocation(scope.at(at).polynomial(parts[2]), is_of_device=True)


def _called(body: Sequence[str], opening: int) -> str:
    """The function that a parenthesis calls; empty if it is none."""
    at = opening - 1
    if at > 0 and body[at] == ">":
        while at > 0 and body[at] != "<":
            at -= 1
        at -= 1
    return body[at] if at >= 0 and body[at].isidentifier() else ""


def _template_argument(body: Sequence[str], end: int) -> str:
    """The only template argument of a vector whose `>` is at a position."""
    start = end
    while start > 0 and body[start] != "<" and end - start < 6:
        start -= 1
    return " ".join(body[start + 1 : end]) if start > 0 and "vector" in body[start - 1] else ""
