"""The names of kernels that mean something to their host code."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tuner.classes import dataclass


@dataclass(frozen=True)
class KernelNames:
    """The names of kernels that mean something to their host code.

    sizes: the scalars that are sizes.
    numbers: macros and constants that are whole numbers.
    templates: template parameters that are numbers.
    read: all names that the kernels read.
    taken: names that a new size must not have.
    """

    sizes: Sequence[str]
    numbers: Collection[str] = ()
    templates: Collection[str] = ()
    read: Collection[str] = ()
    taken: Collection[str] = ()
