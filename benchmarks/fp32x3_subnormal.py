"""What `fp32x3` would lose because tensor cores align subnormal float16 as they are written, and that it does not.

    python benchmarks/fp32x3_subnormal.py

A row of A is 2^p, a 1, and zeros. Rows of B are 0.5 to 1.5, but the one that 2^p meets is 0. The 1 is lifted to
2^(14 - p): from p = 29 on, this is a subnormal float16. Halves hold it exactly. But tensor cores of Hopper do not align
a product by its own exponent: they take the sum of those that the operands are written with, -14 for a subnormal
number. So products of this 1 keep fewer digits. For each p, the largest error over |A| |B| in units of 2^-24, at
K = 256, where docs/fp32x3.md promises 91:
- of halves alone, as NumPy emulates the sums of tensor cores if they normalise;
- of halves alone, as it emulates them if they do not;
- of the kernel on this machine's GPU, if it is one of compute capability 9.0 and torch is installed. The 1 counts as
  small, so that elements are summed again where it matters.
"""

from __future__ import annotations

import numpy as np
from fp32x3_units import Array, halves, lifted

POWERS = (28, 30, 32, 34, 35, 36, 37, 38)
SIDE, DEPTH, PROMOTE = 64, 256, 32
FRACTION = 25  # binary digits that terms keep below the largest, according to the model of Hopper in MMA-Sim
NORMALISED, AS_WRITTEN = -126, -14  # the least exponent of a float16 when it is aligned


def operands(power: int, side: int) -> tuple[Array, Array]:
    """A, and B transposed."""
    a = np.zeros((side, DEPTH))
    a[:, 0] = 2.0**power
    a[np.arange(side), 1 + np.arange(side) % (DEPTH - 1)] = 1.0
    b = np.random.default_rng(power).random((side, DEPTH), np.float32).astype(float) + 0.5
    b[:, 0] = 0.0
    return a, b.astype(np.float32).astype(float)


def exponents(numbers: Array, least: int) -> Array:
    """Those of numbers when they are aligned; far below all others for 0."""
    return np.where(numbers == 0, -126, np.maximum(np.frexp(numbers)[1] - 1, least))


def instruction(total: Array, a: Array, b: Array, least: int) -> Array:
    """total + a b^T of 16 of the depth, aligned to the largest exponent."""
    terms = np.concatenate([a[:, None, :] * b[None], total[:, :, None]], axis=2)
    of_products = exponents(a, least)[:, None, :] + exponents(b, least)[None]
    largest = np.maximum(of_products.max(axis=2), exponents(total, -126))
    unit = np.exp2(largest - FRACTION)
    summed = np.trunc(terms / unit[:, :, None]).sum(axis=2) * unit
    last = np.exp2(exponents(summed, -126) - 23)
    return np.asarray(np.trunc(summed / last) * last)


def emulated(power: int, least: int) -> float:
    """The largest error, in units of round-off."""
    a, b = map(lifted, operands(power, SIDE))
    planes_a, planes_b, total = halves(a), halves(b), np.zeros((SIDE, SIDE), np.float32)
    for start in range(0, DEPTH, PROMOTE):
        part = np.zeros(total.shape)
        for i, j in ((1, 0), (0, 1), (0, 0)):
            for k in range(start, start + PROMOTE, 16):
                part = instruction(part, planes_a[i][:, k : k + 16], planes_b[j][:, k : k + 16], least)
        total = (total + part).astype(np.float32)
    exact = a @ b.T
    return float((np.abs(total - exact) / exact).max() * 2**24)


def measured(power: int) -> str:
    """The largest error on this machine's GPU, and how many tiles took halves, and elements were summed again."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0):
        return "no GPU of compute capability 9.0"
    import tuner

    rows, columns = operands(power, DEPTH)
    a, b = (torch.tensor(each, dtype=torch.float32, device="cuda")[None] for each in (rows, columns.T.copy()))
    c = torch.empty_like(b)
    launch = tuner.load("sgemm3x/wgmma_halves", DEPTH).bind(c, a, b)
    launch()
    exact = a.double() @ b.double()
    counted = launch.scratch("routes")
    error = float(((c.double() - exact).abs() / exact).max() * 2**24)
    return f"{error:.1f}; {counted[0]} of {counted[:3].sum()} tiles by halves, {counted[5]} parts of tiles in float32"


def main() -> None:
    """Print a table."""
    print("| p | halves if they normalise | halves if not | the kernel on this GPU |")
    print("|---|---|---|---|")
    for power in POWERS:
        errors = [f"{emulated(power, least):.1f}" for least in (NORMALISED, AS_WRITTEN)]
        print(f"| {power} | {errors[0]} | {errors[1]} | {measured(power)} |", flush=True)


if __name__ == "__main__":
    main()
