"""Where host code reads the constants of kernels: in the grids and blocks of launches, or for anything else."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from tuner.drafting.host.program import HostFunction, HostProgram
from tuner.space.sources.tokens import matching

MOST_LETTERS = 60  # of a statement in a draft
_ENQUEUES = ("clEnqueueNDRangeKernel", "enqueueNDRangeKernel", "hipLaunchKernelGGL")
_PRINTS = {"printf", "fprintf", "sprintf", "snprintf", "cout", "cerr", "puts", "assert", "static_assert"}
_NAME = re.compile(r"[A-Za-z_]\w*")


def elsewhere(program: HostProgram) -> dict[str, str]:
    """The names that host code reads outside of the grids and blocks of launches and of what these follow from, each
    with the statement that reads it. A name that grids or blocks read is none of them."""
    found, configured = dict[str, str](), set[str]()
    for function in program.functions:
        if function.is_device:
            continue
        names = _configured(function)
        configured |= names
        for first, end in _statements(function.body):
            statement = function.body[first:end]
            if _PRINTS & {*statement} or statement[:1] == ("dim3",) or (_assigned(statement) or "-") in names:
                continue
            for name in filter(_NAME.fullmatch, _outside_of_launches(statement)):
                found.setdefault(name, spelled(statement))
    return {name: text for name, text in found.items() if name not in configured}


def _statements(body: Sequence[str]) -> Iterator[tuple[int, int]]:
    first = 0
    for at, word in enumerate(body):
        if word in (";", "{", "}"):
            if at > first:
                yield first, at
            first = at + 1


def _assigned(statement: Sequence[str]) -> str:
    """The variable that a statement assigns to; empty if it does not assign."""
    at = next((at for at, word in enumerate(statement) if word == "="), 0)
    while at > 2 and statement[at - 2] == ".":
        at -= 2
    return statement[at - 1] if at else ""


@functools.lru_cache(maxsize=64)
def _configured(function: HostFunction) -> frozenset[str]:
    """The names in grids and blocks of launches, and those that these are computed from."""
    body, waiting = function.body, set[str]()
    for first, end in _configurations(body):
        waiting |= {*filter(_NAME.fullmatch, body[first:end])}
    found = set[str]()
    while waiting:
        found.add(name := waiting.pop())
        for other, assigned in function.assignments.items():
            if other.partition(".")[0] == name:
                waiting |= {word for each in assigned for word in filter(_NAME.fullmatch, each.words)} - found
    return frozenset(found)


def _configurations(body: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where the grids and blocks of launches begin and end."""
    for at, word in enumerate(body):
        if tuple(body[at : at + 3]) == ("<", "<", "<") and body[at - 1 : at] != ("<",):
            end = next((i for i in range(at, len(body)) if tuple(body[i : i + 3]) == (">", ">", ">")), at)
            yield at, end
        elif word in _ENQUEUES and tuple(body[at + 1 : at + 2]) == ("(",):
            yield at, matching(body, at + 1)


def _outside_of_launches(statement: Sequence[str]) -> list[str]:
    inside = {at for first, end in _configurations(statement) for at in range(first, end)}
    return [word for at, word in enumerate(statement) if at not in inside]


def spelled(tokens: Sequence[str]) -> str:
    """Tokens as somebody writes them, shortened if they are many."""
    text = re.sub(r"([|&<>]) \1(?= )", r"\1\1", " ".join(tokens))
    text = re.sub(r"([+\-*/%&|^<>=!]) (?==)", r"\1", text)
    text = re.sub(r"(\w) ([+\-]) \2", r"\1\2\2", text)
    text = re.sub(r"([+\-]) \1 (\w)", r"\1\1\2", text)
    text = re.sub(r"(?<=[=(,<] )([-&*!]) (?=\w)", r"\1", text)
    text = re.sub(r" ([;,.)\[\]])|(?<=[(.\[!]) |(?<=\w) (?=\()", r"\1", text)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."
