"""The gallery's kernels, and the sizes at which they are tuned and compared: small, medium and large.

Large problems of memory-bound kernels move 1 GB or more. For other kernels the references take too long at such sizes;
their large problems keep a GPU busy for some milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_WIDE = {"sum", "histogram", "histogram_parts", "stencil3d", "separable_convolution"}
SMALL, MEDIUM, LARGE = SIZE_NAMES = ("small", "medium", "large")


@dataclass(frozen=True)
class Problem:
    """A kernel at three sizes; `tiny` is one for a first try on a processor. `bound` by memory, it is compared by its
    GB/s."""

    name: str
    tiny: str
    small: str
    medium: str
    large: str
    bound: str = "memory"
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def kernel(self) -> str:
        return f"gallery/{self.name}"

    @property
    def title(self) -> str:
        return "".join([self.name, *(f", {name}={dtype}" for name, dtype in self.types.items())])

    @property
    def is_wide(self) -> bool:
        """Whether it has much to tune."""
        return self.bound != "memory" or self.name in _WIDE

    def size(self, name: str) -> str:
        return str({"tiny": self.tiny, SMALL: self.small, MEDIUM: self.medium, LARGE: self.large}[name])


K, M, G = 2**10, 2**20, 2**30
_ROWS = ("100x256", "1024x1024", "8192x4096", "16384x8192")
_MATRIX = ("128x192", "1024x1024", "4096x4096", "16384x16384")
_PRODUCT = ("64x64x64", "1024x1024x1024", "2048x2048x2048", "4096x4096x4096")
_FILTER = ("64x96x5x5", "1024x1024x15x15", "2048x2048x15x15", "4096x4096x15x15")


def _vectors(name: str, largest: int, **types: str) -> Problem:
    return Problem(name, f"{64 * K}", f"{M}", f"{16 * M}", f"{largest}", types=types)


PROBLEMS = (  # in the order in which they are tuned, if time is short
    _vectors("vector_add", 128 * M),
    _vectors("sum", 512 * M),
    Problem("softmax", *_ROWS),
    Problem("rms_norm", *_ROWS),
    Problem("layer_norm", *_ROWS),
    Problem("transpose", *_MATRIX),
    _vectors("scan_bulk", 256 * M),
    _vectors("scan_lookback", 256 * M),
    _vectors("histogram", G),
    Problem("stencil3d", "16x16x64", "128x128x128", "256x256x256", "512x512x512"),
    Problem("rgb_to_gray", "128x192", "1024x1024", "8192x8192", "16384x16384"),
    _vectors("axpy", 128 * M, real="float32"),
    _vectors("daxpy", 64 * M),
    Problem("convolution", *_FILTER, "arithmetic"),
    Problem(
        "coulomb", "32x32x64", f"{K}x{K}x{K}", f"{2 * K}x{2 * K}x{2 * K}", f"{4 * K}x{4 * K}x{4 * K}", "arithmetic"
    ),
    Problem("nbody", "512", f"{4 * K}", f"{8 * K}", f"{32 * K}", "arithmetic"),
    Problem("zero_mean", *_ROWS),
    _vectors("scan", 256 * M),
    _vectors("histogram_parts", G),
    Problem("separable_convolution", "64x96x9", "1024x1024x17", "4096x4096x17", "16384x8192x17"),
    Problem("spmv", "512x512x8192", f"{64 * K}x{64 * K}x{M}", f"{M}x{M}x{16 * M}", f"{4 * M}x{4 * M}x{128 * M}"),
    Problem("batched_products", "64x16", f"{4 * K}x16", f"{64 * K}x16", f"{512 * K}x16"),
    Problem("linear_gelu", *_PRODUCT, "arithmetic"),
    Problem("matmul_tiled", *_PRODUCT, "arithmetic"),
    Problem("tma_wgmma", *_PRODUCT, "arithmetic"),
    Problem("tma_copy", *_MATRIX),
    Problem("transpose_part", *_MATRIX),
    Problem("split_k", "32x32x1024", "256x256x16384", "512x512x32768", "512x512x131072", "arithmetic"),
    Problem("convolution_constant", *_FILTER, "arithmetic"),
    Problem("texture", "64x96x32x48", "1024x1024x1080x1920", "4096x4096x1080x1920", "16384x12288x8192x8192"),
    Problem("expdist", "256x256", f"{2 * K}x{2 * K}", f"{4 * K}x{4 * K}", f"{16 * K}x{16 * K}", "arithmetic"),
    Problem("point_in_polygon", "4096x32", f"{64 * K}x128", f"{256 * K}x256", f"{M}x512", "arithmetic"),
    _vectors("axpy", 256 * M, real="float16"),
    Problem("dot", f"{64 * K}", f"{M}", f"{16 * M}", f"{128 * M}"),
    Problem("convolution_host", *_FILTER, "arithmetic"),
)


def chosen(titles: list[str]) -> list[Problem]:
    """The problems of these kernels, all if there are none. Raises KeyError with a name that there is not."""
    known = {problem.name for problem in PROBLEMS}
    for title in titles:
        if title.removeprefix("gallery/") not in known:
            raise KeyError(title)
    names = [title.removeprefix("gallery/") for title in titles] or known
    return [problem for problem in PROBLEMS if problem.name in names]
