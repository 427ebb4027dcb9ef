"""A launch of a kernel in host code, as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.drafting.host.program import HostFunction
from tuner.space.sources.tokens import matching


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
