"""Reads tensors of PyTorch in host code in C++: their pointers, extents, and numbers of elements."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.drafting.expansion import split_arguments
from tuner.drafting.host.program import HostFunction
from tuner.drafting.host.scope import HostScope
from tuner.drafting.polynomials import Polynomial, times
from tuner.space.sources.tokens import matching

_POINTER = re.compile(r"(.+) \. (?:(?:const|mutable)_)?data(?:_ptr)?(?: < [^()]* >)? \( \)")
_SAME = re.compile(r"(.+) \. (?:contiguous|clone|detach|cuda|to|type|set_requires_grad) \( [^()]*(?:\( \))?[^()]*\)")
_CAST = re.compile(r"(?:\( [\w :<>]+\* \) )+")
_ZEROS = re.compile(r"\b(?:new_)?zeros(?:_like)? \(")
_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like")
_MADE = re.compile(r"(?:new_)?(?:empty|zeros|ones|full|rand|randn|randint)")


def pointed_to(words: Sequence[str]) -> list[str]:
    """The tensor whose elements a pointer points to: `x` for `x.data_ptr<float>()`; any other expression as it is."""
    text = " ".join(words)
    if (match := _POINTER.fullmatch(text)) is None:
        return [*words]
    text = _CAST.sub("", match[1], count=1) if _CAST.match(match[1]) else match[1]
    while match := _SAME.fullmatch(text):
        text = match[1]
    return text.split()


def is_tensor(function: HostFunction, name: str) -> bool:
    """Whether a variable or a parameter of a function is a tensor, by its type; one with `auto` may be."""
    declared = (*function.parameters.get(name, ()), *function.declared(name))
    return "Tensor" in declared or "auto" in declared


def is_made_of_zeros(function: HostFunction, words: Sequence[str]) -> bool:
    """Whether `words` is the pointer of a tensor that a function only makes of zeros."""
    name = " ".join(pointed_to(words))
    assigned = function.assignments.get(name, []) if [name] != [*words] else []
    made_of = [each.words for each in assigned if name not in each.words]  # x = x.cuda() is the same
    return bool(made_of) and all(_ZEROS.search(" ".join(each)) for each in made_of)


def elements(scope: HostScope, name: str) -> Polynomial | None:
    """The number of elements of a tensor that the function of a scope gets: as it asks for all its extents, or for
    their product; None if it does not."""
    body, found, wholes = scope.function.body, set[int](), False
    for at, word in enumerate(body):
        if word == name and body[at + 1 : at + 4 : 2] == (".", "("):
            inner = body[at + 4 : matching(body, at + 3)]
            if body[at + 2] == "size" and len(inner) == 1 and inner[0].isdecimal():
                found.add(int(inner[0]))
            wholes |= body[at + 2] == "numel" and not inner
    if not found or found != {*range(len(found))}:
        return scope.polynomial([name, ".", "numel", "(", ")"]) if wholes and not found else None
    total: Polynomial = {(): 1}
    for axis in sorted(found):
        total = times(total, scope.polynomial([name, ".", "size", "(", str(axis), ")"]))
    return total


def made(scope: HostScope, words: Sequence[str]) -> tuple[Polynomial | None, list[str]]:
    """What an expression makes a tensor of: its number of elements, or a tensor of the same shape; neither for any
    other expression."""
    text = " ".join(words)
    while match := _SAME.fullmatch(text):
        text = match[1]
    words = text.split()
    if len(words) == 1:
        return None, words
    at = next((at for at, word in enumerate(words) if word == "("), 0)
    if not at or matching(words, at) != len(words) - 1:
        return None, []
    given = split_arguments(words[at + 1 : -1])
    if words[at - 1] in _LIKE and given:
        return None, given[0]
    if _MADE.fullmatch(words[at - 1]) is None or not given:
        return None, []
    braces = next((each for each in given if each[:1] == ["{"]), None)
    if braces is None:
        same = given[0][:-4] if given[0][-4:] == [".", "sizes", "(", ")"] else []
        return None, same
    total: Polynomial = {(): 1}
    for part in split_arguments(braces[1:-1]):
        total = times(total, scope.polynomial(part))
    return total, []
