"""Tells how many terms the sums of a kernel have, by the loops around them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set

from tuner.classes import dataclass
from tuner.drafting.polynomials import names_in
from tuner.drafting.roles.borders import end_of
from tuner.space.sources.tokens import matching

_HEADER = re.compile(r"(?:\w+ )*?(\w+) = (.*?) ; \1 < (= )?(.*?) ; (.*)")
_CAST = re.compile(r"\( (?:unsigned |long )*(?:int|long|unsigned|size_t) \) ")


def counts(body: str, values: Collection[str], known: Collection[str], knobs: Set[str]) -> list[str]:
    """The numbers of passes of the loops around the sum that has most of them up to sizes, of the sums in `values`.
    Loops up to `knobs`, and to numbers within steps of several, are parts of others. Empty if no sum has loops up to
    `known` names alone."""
    words, found = body.split(" "), list[str]()
    loops = [*_loops(words)]
    for at in range(1, len(words) - 2):
        is_sum = words[at : at + 2] == ["+", "="] and words[at + 2] != "="
        first = _begin(words, at - 1) if is_sum else 0
        if not is_sum or words[first] not in values or any(each.begin < at < each.first for each in loops):
            continue
        outer, element = [each for each in loops if each.first < at < each.end], {*words[first + 1 : at]}
        for each in reversed(outer):  # `f[i] += x` with i from i0 on
            element |= {*each.start.split(" ")} if each.variable in element else set()
        around = [each for each in outer if each.variable not in element and not each.sets(words, words[first])]
        has_steps = any(each.has_steps for each in around)
        own = [each.passes for each in around if each.passes and knobs.isdisjoint(names_in(each.passes))]
        own = [each for each in own if names_in(each) or not has_steps]
        own_sizes, sizes = (sum(bool(names_in(each)) for each in every) for every in (own, found))
        if (own_sizes, len(own)) > (sizes, len(found)) and all({*names_in(each)} <= {*known} for each in own):
            found = own
    return found


@dataclass(frozen=True)
class _Loop:
    """A loop: the positions where it begins, where its body begins, and where it ends; its variable, with what this
    starts at; the number of its passes, and whether it counts by more than 1."""

    begin: int
    first: int
    end: int
    variable: str
    start: str
    passes: str
    has_steps: bool

    def sets(self, words: Sequence[str], name: str) -> bool:
        """Whether the body sets a sum anew in each pass."""
        return re.search(rf"(?<!\. )\b{name} = (?!=)", " ".join(words[self.first : self.end])) is not None


def _loops(words: Sequence[str]) -> Iterator[_Loop]:
    """The loops of a body that count up."""
    for at in (at for at, word in enumerate(words) if word == "for" and words[at + 1] == "("):
        close = matching(words, at + 1)
        if match := _HEADER.fullmatch(_CAST.sub("", " ".join(words[at + 2 : close]))):
            has_steps = re.search(r"\+ \+|\+ = 1$", match[5]) is None
            yield _Loop(at, close, end_of([*words], close + 1), match[1], match[2], _passes(match), has_steps)


def _begin(words: Sequence[str], at: int) -> int:
    """Where the variable or the element begins that ends at a position."""
    while words[at] == "]":
        at = max(i for i in range(at) if words[i] == "[" and matching(words, i) == at) - 1
    while at > 1 and words[at - 1] == ".":
        at -= 2
    return at


def _passes(header: re.Match[str]) -> str:
    """The number of passes of a loop, without what it begins with, except for a window."""
    limit = re.sub(r"(?<=\() | (?=\))", "", header[4]).replace(" / ", " // ")
    is_window = header[3] and header[2] in (f"- {header[4]}", f"- ( {header[4]} )")
    return f"2 * {limit} + 1" if is_window else f"{limit} + 1" if header[3] else limit
