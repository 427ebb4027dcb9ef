"""Threads that work on the parts of a large array: NumPy and zlib let them run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

T = TypeVar("T")
LARGE = 1 << 26  # bytes of an array from which on threads are worth their start


def mapped(of: Callable[[int], T], starts: Iterable[int]) -> list[T]:
    """What `of` returns for each start of a part, under NumPy's error settings of this thread."""
    from concurrent.futures import ThreadPoolExecutor  # a launch has no large arrays

    settings = np.geterr()

    def run(start: int) -> T:
        with np.errstate(**settings):
            return of(start)

    with ThreadPoolExecutor() as threads:
        return [*threads.map(run, starts)]
