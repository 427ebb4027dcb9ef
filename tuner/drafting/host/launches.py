"""Finds the launches of a kernel in host code: grid, block, template arguments and arguments, as tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.drafting.expansion import split_arguments
from tuner.drafting.host.program import HostFunction, HostProgram
from tuner.space.sources.prototype import matching, split

_HIP = ("hipLaunchKernelGGL", "hipLaunchKernel")


@dataclass(frozen=True)
class LaunchSite:
    """A launch in a function. Each tuple holds tokens."""

    function: HostFunction
    position: int
    grid: tuple[str, ...]
    block: tuple[str, ...]
    template: tuple[tuple[str, ...], ...]
    arguments: tuple[tuple[str, ...], ...]


def launches(program: HostProgram, kernel: str) -> Iterator[LaunchSite]:
    """The launches of a kernel: `kernel<<<grid, block>>>(...)`, and HIP's function for it."""
    for function in program.functions:
        for at, word in enumerate(function.body):
            if word == kernel:
                yield from _chevrons(function, at)
            elif word in _HIP and function.body[at + 1 : at + 2] == ("(",):
                yield from _by_call(function, at, kernel)
        yield from _of_opencl(program, function, kernel)


def _chevrons(function: HostFunction, at: int) -> Iterator[LaunchSite]:
    body, template, start = function.body, tuple[tuple[str, ...], ...](), at + 1
    if body[start : start + 1] == ("<",) and body[start : start + 3] != ("<", "<", "<"):
        end = next((i for i in range(start, len(body) - 3) if body[i : i + 4] == (">", "<", "<", "<")), 0)
        if not end or ";" in body[start:end]:
            return
        template = tuple(map(tuple, split(body[start + 1 : end])))
        start = end + 1
    if body[start : start + 3] != ("<", "<", "<"):
        return
    end = _closing(body, start + 3)
    if not end or body[end + 3 : end + 4] != ("(",):
        return
    configured = split_arguments(body[start + 3 : end])
    arguments = split_arguments(body[end + 4 : matching(body, end + 3)])
    if len(configured) > 1:
        grid, block, *_ = map(tuple, configured)
        yield LaunchSite(function, at, grid, block, template, tuple(map(tuple, arguments)))


def _closing(body: Sequence[str], start: int) -> int:
    """The position of `>>>` after `<<<`; 0 if there is none."""
    at = start
    while at + 3 < len(body) and body[at] != ";":
        if tuple(body[at : at + 4]) == (">", ">", ">", "("):
            return at
        at = (matching(body, at) if body[at] in "([{" else at) + 1
    return 0


def _of_opencl(program: HostProgram, function: HostFunction, kernel: str) -> Iterator[LaunchSite]:
    """The launch whose arguments a function sets by clSetKernelArg, all with numbers; its grid is not read."""
    found = dict[int, tuple[str, ...]]()
    position = 0
    for at, given in function.calls("clSetKernelArg"):
        if len(given) == 4 and "".join(given[0]) in _kernels(program, function, kernel) and given[1][0].isdecimal():
            position = at
            number, value = int(given[1][0]), _value(given[3])
            if found.setdefault(number, value) != value:
                return  # the arguments of several launches
    if found and sorted(found) == [*range(len(found))]:
        yield LaunchSite(function, position, (), (), (), tuple(found[number] for number in range(len(found))))


def _kernels(program: HostProgram, function: HostFunction, kernel: str) -> set[str]:
    """The variables of a function that hold an OpenCL kernel of this name."""

    def created(other: HostFunction) -> set[str]:
        every = ((name, each.words) for name, found in other.assignments.items() for each in found)
        return {name for name, words in every if "clCreateKernel" in words and f'"{kernel}"' in words}

    own = created(function)
    others = {name for other in program.functions for name in created(other)}
    return own | {name for name in others if name not in function.assignments}


def _value(words: Sequence[str]) -> tuple[str, ...]:
    """What a pointer to an argument points to: `x` for `(void *)&x`; unclear for anything else."""
    start = 0
    while words[start : start + 1] == ["("]:
        start = matching(words, start) + 1
    return tuple(words[start + 1 :]) if words[start : start + 1] == ["&"] else ("?",)


def _by_call(function: HostFunction, at: int, kernel: str) -> Iterator[LaunchSite]:
    parts = split_arguments(function.body[at + 2 : matching(function.body, at + 1)])
    if len(parts) > 5 and kernel in parts[0]:
        grid, block, *_ = map(tuple, parts[1:])
        yield LaunchSite(function, at, grid, block, (), tuple(map(tuple, parts[5:])))
