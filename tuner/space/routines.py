"""The vendor routines that `library:` may name. `Device.library` of a backend provides them."""

from collections.abc import Mapping

# For each routine, the sizes, options and arrays that its operation must have.
ROUTINES: Mapping[str, tuple[str, ...]] = {
    "gemm": ("A", "B", "C", "M", "N", "K", "batch", "alpha", "beta"),
}
