"""Finds the launches of a kernel in host code: grid, block, template arguments and arguments, as tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuner.drafting.expansion import split_arguments
from tuner.drafting.host import opencl_launches
from tuner.drafting.host.launch_site import LaunchSite, pointed_to
from tuner.drafting.host.program import HostFunction, HostProgram
from tuner.space.sources.tokens import matching, split

_WITH_POINTERS = ("cudaLaunchKernel", "cudaLaunchCooperativeKernel", "hipLaunchKernel", "hipLaunchCooperativeKernel")


def launches(program: HostProgram, kernel: str, count: int) -> Iterator[LaunchSite]:
    """The launches of a kernel with `count` arguments: `kernel<<<grid, block>>>(...)`, functions that launch, those of
    OpenCL, and calls of a kernel in C."""
    for function in program.functions:
        for at, word in enumerate(function.body):
            if word == kernel:
                yield from _chevrons(function, at)
            elif word == "hipLaunchKernelGGL" and function.body[at + 1 : at + 2] == ("(",):
                yield from _by_call(function, at, kernel)
        yield from _by_pointers(program, function, kernel)
        for at, given in function.calls(kernel) if program.is_plain and not function.is_device else ():
            yield LaunchSite(function, at, (), (), (), tuple(map(tuple, given)))
    yield from opencl_launches.launches(program, kernel, count)


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
        grid, block, *rest = map(tuple, configured)
        shared = rest[0] if rest[:1] != [("0",)] and rest else ()
        yield LaunchSite(function, at, grid, block, template, tuple(map(tuple, arguments)), shared=shared)


def _closing(body: Sequence[str], start: int) -> int:
    """The position of `>>>` after `<<<`; 0 if there is none."""
    at = start
    while at + 3 < len(body) and body[at] != ";":
        if tuple(body[at : at + 4]) == (">", ">", ">", "("):
            return at
        at = (matching(body, at) if body[at] in "([{" else at) + 1
    return 0


def _by_call(function: HostFunction, at: int, kernel: str) -> Iterator[LaunchSite]:
    parts = split_arguments(function.body[at + 2 : matching(function.body, at + 1)])
    if len(parts) > 5 and kernel in parts[0]:
        grid, block, *_ = map(tuple, parts[1:])
        yield LaunchSite(function, at, grid, block, (), tuple(map(tuple, parts[5:])))


def _by_pointers(program: HostProgram, function: HostFunction, kernel: str) -> Iterator[LaunchSite]:
    """The launches by functions that get an array of pointers to the arguments."""
    for name in _WITH_POINTERS:
        for at, given in function.calls(name):
            if len(given) > 3 and kernel in given[0]:
                yield LaunchSite(function, at, tuple(given[1]), tuple(given[2]), (), _pointed(function, at, given[3]))
    handles = {
        "".join(given[0][1:])
        for other in program.functions
        for _, given in other.calls("cuModuleGetFunction")
        if len(given) == 3 and f'"{kernel}"' in given[2]
    }
    for at, given in function.calls("cuLaunchKernel"):
        if len(given) > 9 and "".join(given[0]) in handles:
            grid, block = (["(", *given[i], ",", *given[i + 1], ",", *given[i + 2], ")"] for i in (1, 4))
            yield LaunchSite(function, at, tuple(grid), tuple(block), (), _pointed(function, at, given[9]))


def _pointed(function: HostFunction, at: int, words: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The arguments that an array of pointers points to; none if they are unclear."""
    while words[:1] == ["("] and matching(words, 0) < len(words) - 1:
        words = words[matching(words, 0) + 1 :]
    array, _ = function.last("".join(words), at)
    return tuple(map(pointed_to, split_arguments(array.words[1:-1]))) if array and array.words[:1] == ("{",) else ()
