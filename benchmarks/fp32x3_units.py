"""What halves would lose where units differ along the depth, beside a sum in float32; NumPy emulates both.

    python benchmarks/fp32x3_units.py 6 10 14 18 20 22 24 26

For each number r: 384 x 1024 times 1024 x 384 normal numbers. Column k of A is multiplied by 2^x, and row k of B by
2^-x, with x from -r/2 to r/2: such as quantities in different units, and coefficients for them. So all products are of
one size, and SGEMM does as well as without these factors. It prints the errors over |A| |B| against float64 if all
elements were sums of halves; which share of the rows and columns is for halves; and which share of the elements would
be summed again. What tensor cores cut off is left out.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SIDE, DEPTH = 384, 1024
SMALL, RARE, DOUBT = 2.0**-3, 256, 512  # as in kernels/sgemm3x/halves.h and again.h


def lifted(rows: Array) -> Array:
    """Rows whose largest magnitudes are 2^14 to 2^15."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    return np.asarray(np.ldexp(rows, 14 - np.floor(np.log2(largest)).astype(int)))


def halves(rows: Array) -> tuple[Array, Array]:
    """What float16 holds of numbers, and of what that leaves."""
    first = rows.astype(np.float16).astype(float)
    return first, (rows - first).astype(np.float16).astype(float)


def small_numbers(rows: Array) -> Array:
    """How many numbers of each row count as small."""
    return np.asarray(((rows != 0) & (np.abs(rows) < SMALL)).sum(axis=1))


def by_halves(a: Array, b: Array) -> Array:
    """a b^T by three products."""
    (a1, a2), (b1, b2) = halves(a), halves(b)
    return np.asarray(a1 @ b1.T + a1 @ b2.T + a2 @ b1.T)


def in_order(a: Array, b: Array) -> Array:
    """a b^T by sums in float32."""
    total = np.zeros((len(a), len(b)), np.float32)
    for k in range(a.shape[1]):
        total = (total + np.outer(a[:, k], b[:, k])).astype(np.float32)
    return total.astype(float)


def main() -> None:
    """Print a table."""
    print("| range | float32: largest, median | halves: largest, median | rows and columns for halves | summed again |")
    print("|---|---|---|---|---|")
    for r in map(int, sys.argv[1:]):
        random = np.random.default_rng(r)
        units = 2.0 ** random.uniform(-r / 2, r / 2, DEPTH)
        rows = random.standard_normal((2, SIDE, DEPTH)) * np.stack([units, 1 / units])[:, None, :]
        a, b = (lifted(each.astype(np.float32).astype(float)) for each in rows)
        exact, size = a @ b.T, np.abs(a) @ np.abs(b).T
        errors = [np.abs(product - exact) / size for product in (in_order(a, b), by_halves(a, b))]
        cells = [f"{each.max():.1e}, {np.median(each):.1e}" for each in errors]
        small, others = ([count(each) for each in (a, b)] for count in (small_numbers, lambda x: (x != 0).sum(axis=1)))
        share = np.mean([RARE * (few - 1) <= of for few, of in zip(small, others, strict=True)])
        met = np.minimum(small[0][:, None], others[1]) + np.minimum(small[1], others[0][:, None])
        again = np.mean(np.abs(by_halves(a, b)) < DOUBT * met)
        print(f"| 2^{r} | {cells[0]} | {cells[1]} | {share:.0%} | {again:.1%} |")


if __name__ == "__main__":
    main()
