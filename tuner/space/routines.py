"""The vendor library's routines that `library:` may name; `Device.library` of each backend implements them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tuner.classes import dataclass


@dataclass(frozen=True)
class Routine:
    """The names that the routine expects in an operation.

    arrays: each with the names of its last two extents, if it is not transposed.
    sizes: the required sizes.
    defaults: values of further sizes and options, used if the operation does not declare them.
    """

    arrays: Mapping[str, tuple[str, str]]
    sizes: tuple[str, ...]
    defaults: Mapping[str, float] = field(default_factory=dict)


ROUTINES: Mapping[str, Routine] = {
    "gemm": Routine(
        arrays={"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")},
        sizes=("M", "N", "K"),
        defaults={"batch": 1, "alpha": 1.0, "beta": 0.0},
    ),
}
