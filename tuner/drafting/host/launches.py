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


def _by_call(function: HostFunction, at: int, kernel: str) -> Iterator[LaunchSite]:
    parts = split_arguments(function.body[at + 2 : matching(function.body, at + 1)])
    if len(parts) > 5 and kernel in parts[0]:
        grid, block, *_ = map(tuple, parts[1:])
        yield LaunchSite(function, at, grid, block, (), tuple(map(tuple, parts[5:])))
