"""All names that some names reach, through what each of them reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def closed(first: Iterable[str], read: Callable[[str], Iterable[str]]) -> frozenset[str]:
    """The names `first`, and all that these read, directly or through others; `read` says what a name reads."""
    found, waiting = set[str](), {*first}
    while waiting:
        found.add(name := waiting.pop())
        waiting.update(each for each in read(name) if each not in found)
    return frozenset(found)
