"""The vendor routines that figures may stand beside: what `library:` may name, and the names an operation then has.

A backend computes a routine in `Device.library`.
"""

from __future__ import annotations

from collections.abc import Mapping

# Each with the sizes, options and arrays that it is called with.
ROUTINES: Mapping[str, tuple[str, ...]] = {
    "gemm": ("A", "B", "C", "M", "N", "K", "batch", "alpha", "beta"),
}
