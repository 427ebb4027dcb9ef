"""A launch of a kernel in host code, as tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.classes import dataclass
from tuner.drafting.host.program import HostFunction
from tuner.space.sources.tokens import matching

_ZERO = re.compile(r"0(?:x0+|\.0*)?f?|false")
_CLEARING = ("memset", *(f"{make}Memset{end}" for make in ("cuda", "hip") for end in ("", "Async")))
_FREEING = tuple(f"{make}Free{end}" for make in ("cuda", "hip") for end in ("", "Async"))
_STATEMENT_ENDS = (";", "{", "}")


@dataclass(frozen=True)
class LaunchSite:
    """A launch in a function. Each tuple holds tokens.

    axes: the number of axes of OpenCL's work sizes, where `grid` counts work-items; 0 where it counts blocks.
    enqueued: the function and the position of grid and block, if another function sets the arguments.
    shared: the bytes of dynamic shared memory; empty for none.
    """

    function: HostFunction
    position: int
    grid: tuple[str, ...]
    block: tuple[str, ...]
    template: tuple[tuple[str, ...], ...]
    arguments: tuple[tuple[str, ...], ...]
    axes: int = 0
    enqueued: tuple[HostFunction, int] | None = None
    shared: tuple[str, ...] = ()


def pointed_to(words: Sequence[str]) -> tuple[str, ...]:
    """What a pointer to an argument points to: `x` for `(void *)&x`; unclear for anything else."""
    words = [*words]
    while words[:1] == ["("] and matching(words, 0) < len(words) - 1:
        words = words[matching(words, 0) + 1 :]
    if words[:2] == ["&", "("] and matching(words, 1) == len(words) - 1:
        return tuple(words[2:-1])
    return tuple(words[1:]) if words[:1] == ["&"] else ("?",)


def is_cleared(launch: LaunchSite, words: Sequence[str]) -> bool:
    """Whether the launching function surely sets the array that it passes as `words` to zero, and does not name it from
    there to the launch, as another launch or a copy that writes it would."""
    body, end = launch.function.body, launch.position
    cleared, given = max((_last(launch, name, words) for name in _CLEARING), key=lambda found: found[0])
    made = [each for each in launch.function.assignments.get(" ".join(words), ()) if "calloc" in each.words]
    if made and cleared < made[-1].position < end:
        cleared = body.index("calloc", made[-1].position)
    elif len(given) < 2 or len(given[1]) != 1 or _ZERO.fullmatch(given[1][0]) is None:
        return False
    if words[-1] in body[matching(body, cleared + 1) : end] or _has_condition(body, cleared):
        return False
    return _surely_precedes(body, cleared, end)


def _has_condition(body: Sequence[str], at: int) -> bool:
    """Whether the call at a position is the statement of an `if`, an `else` or a loop, without braces."""
    begin = next((place + 1 for place in range(at - 1, -1, -1) if body[place] in _STATEMENT_ENDS), 0)
    before, openings = body[begin:at], 0
    for place, word in enumerate(before, begin):
        openings += (word == "(") - (word == ")")
        if openings < 0:  # behind the head of a `for`
            return True
        if word in ("for", "if", "while") and matching(body, body.index("(", place)) < at:
            return True
    return "else" in before


def _surely_precedes(body: Sequence[str], first: int, end: int) -> bool:
    """Whether the blocks around a position that end before another one, `end`, run without a condition: `{ ... }` as a
    statement, and the body of a `do`, which macros that check errors have."""
    openings = list[int]()
    for at, word in enumerate(body[:end]):
        if word == "{":
            openings.append(at)
        elif word == "}" and openings:
            opening = openings.pop()
            if opening < first < at:
                before = opening - 2 if body[opening - 1 : opening] == ("do",) else opening - 1
                if before >= 0 and body[before] not in _STATEMENT_ENDS:
                    return False
    return True


def is_temporary(launch: LaunchSite, words: Sequence[str]) -> bool:
    """Whether the launching function declares the array that it passes as `words`, and then only frees it."""
    function, name = launch.function, words[-1] if words else ""
    if len(words) != 1 or not function.declares(name) or name in function.parameters:
        return False
    end = matching(function.body, function.body.index("(", launch.position))
    freed = [at for call in _FREEING for at, given in function.calls(call) if at > end and given[:1] == [[name]]]
    return function.body[end:].count(name) == len(freed)


def _without_cast(words: Sequence[str], count: int) -> list[str]:
    """The last words of an argument, without a cast before them; empty if they are a member of something else."""
    before = words[: len(words) - count]
    return [] if before and before[-1] in (".", ">", "->") else [*words[len(before) :]]


def _last(launch: LaunchSite, name: str, words: Sequence[str]) -> tuple[int, list[list[str]]]:
    """The last call of a function before the launch whose first argument is `words`, perhaps with a cast: its position
    and arguments; -1 without one."""
    every = [(at, given) for at, given in launch.function.calls(name) if at < launch.position and given]
    found = [(at, given) for at, given in every if _without_cast(given[0], len(words)) == [*words]]
    return found[-1] if found else (-1, [])
