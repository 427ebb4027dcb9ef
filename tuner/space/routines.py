"""The vendor routines that `library:` may name. `Device.library` of a backend provides them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Routine:
    """What the routine reads of an operation, by name: the arrays with their last two extents, where they are not
    stored transposed; the sizes; the sizes and options that have a value where the operation has none of the name."""

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
