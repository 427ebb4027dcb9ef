"""`tuner.matmul(precision="fp32x3")` beside float32: times and errors.

    python benchmarks/fp32x3.py times 1024 2048 4096 8192 --triton
    python benchmarks/fp32x3.py times --drawn 48001 --count 40
    python benchmarks/fp32x3.py errors 256 1024 4096 16384
    python benchmarks/fp32x3.py routes 1024 4096

`times` measures these calls in turn on the same arrays of normal numbers: fp32x3; `tuner.matmul` without a precision,
that is, the dispatch of sgemm; `torch.mm` without TF32, that is, cuBLAS's SGEMM; and with `--triton` a plain product in
Triton with `tf32x3` and `bf16x6`, in the best of three configurations. Times are medians, with quartiles; where a host
takes longer than the device, they are of the host. `--drawn` draws sizes of 512 to 8192, half of them multiples of 64.

`errors` multiplies 1024 x K by K x 1024 for each K, for each kind of data. For cuBLAS's SGEMM and for fp32x3 it prints
the largest error over |A| |B|, its median, and the median error relative to the exact element, against float64; and how
many tiles took each route. The last column counts the elements that were summed again, and the parts of tiles, of 64
rows, of which more were in doubt, so that they were multiplied in float32.

`routes` measures the kernel on squares of each kind of data, beside `torch.bmm` without TF32, and prints these counts.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from functools import partial
from statistics import geometric_mean, median, quantiles
from typing import Any

import torch

import tuner

Size = tuple[int, int, int]
Call = Callable[[], object]
LEAST_MS = 3.0  # of calls in a row that are measured together
KINDS = ("normal", "uniform [0, 1)", "+-[0.5, 1.5)", "phi 0.5", "phi 1", "phi 1.5", "phi 2", "phi 3", "phi 4")
DEPENDENT = ("units 8", "units 10", "units 12", "units 14", "units 18", "units 24", "units 30", "two units")
ODD = (*DEPENDENT, "identity", "half of the rows 0", "an infinity in each row")


def drawn(seed: int, count: int) -> list[Size]:
    """Sizes from a seed."""
    numbers, sizes = random.Random(seed), list[Size]()  # noqa: S311  # sizes
    while len(sizes) < count:
        m, n, k = (round(2 ** numbers.uniform(9, 13)) for _ in range(3))
        if numbers.random() < 0.5:
            m, n, k = m // 64 * 64, n // 64 * 64, k // 64 * 64
        if min(m, n, k) >= 512 and m * n * k < 2**37.5:
            sizes.append((m, n, k))
    return sizes


def milliseconds(call: Call, times: int) -> float:
    """The time of a call, of so many in a row."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / times


def in_turn(calls: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    """The times of calls that take turns."""
    for call in calls.values():
        call()
        call()
    torch.cuda.synchronize()
    counts = {name: max(1, min(40, int(LEAST_MS / milliseconds(call, 2)))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(milliseconds(call, counts[name]))
    return times


def measured(size: Size, rounds: int, has_triton: bool) -> dict[str, float]:
    """Print the times at a size, and return their medians."""
    m, n, k = size
    A, B = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    C = torch.empty(m, n, device="cuda")
    for precision in ("fp32x3", None):
        tuner.matmul(A, B, out=C, precision=precision, wait=True)
    calls: dict[str, Call] = {
        "fp32x3": lambda: tuner.matmul(A, B, out=C, precision="fp32x3"),
        "sgemm's dispatch": lambda: tuner.matmul(A, B, out=C),
        "cuBLAS": lambda: torch.mm(A, B, out=C),
    }
    if has_triton:
        calls |= {f"Triton {name}": triton_call(A, B, C, name) for name in ("tf32x3", "bf16x6")}
    times = in_turn(calls, rounds)
    medians = {name: median(each) for name, each in times.items()}
    rates = ", ".join(
        f"{name} {medians[name]:.4f} ms ({quantiles(each)[0]:.4f} to {quantiles(each)[2]:.4f}), "
        f"{2e-9 * m * n * k / medians[name]:.0f} TFLOP/s, {medians['cuBLAS'] / medians[name]:.2f} x"
        for name, each in times.items()
    )
    explanation = tuner.matmul.explain(A, B, precision="fp32x3")
    print(f"{m}x{n}x{k}: {rates}; {explanation.kernel}, {explanation.match}", flush=True)
    return medians


def times(sizes: Sequence[Size], rounds: int, has_triton: bool) -> None:
    """Print the times at all sizes, and how they compare."""
    every = [measured(size, rounds, has_triton) for size in sizes]
    ratios = [each["sgemm's dispatch"] / each["fp32x3"] for each in every]
    print(
        f"{len(ratios)} sizes: {geometric_mean(ratios):.3f} x sgemm's dispatch on average, at least {min(ratios):.3f}; "
        f"below 1.3 x at {sum(ratio < 1.3 for ratio in ratios)}, below 1 x at {sum(ratio < 1 for ratio in ratios)}"
    )


def triton_call(A: Any, B: Any, C: Any, precision: str) -> Call:
    """The fastest of a few configurations."""
    from fp32x3_triton import product

    calls = [product(A, B, C, precision, config) for config in ((128, 128, 32, 8), (128, 64, 32, 4), (64, 128, 32, 4))]
    for call in calls:
        call()
    return min(calls, key=lambda call: milliseconds(call, 3))


def data(kind: str, *shape: int) -> Any:
    """Random numbers; with phi, (uniform - 0.5) exp(phi normal)."""
    uniform = torch.rand(shape, device="cuda")
    if kind == "normal":
        return torch.randn(shape, device="cuda")
    if kind.startswith("phi"):
        return (uniform - 0.5) * torch.exp(float(kind[4:]) * torch.randn(shape, device="cuda"))
    return uniform if kind.startswith("uniform") else (0.5 + uniform) * torch.randn(shape, device="cuda").sign()


def pair(kind: str, m: int, k: int, n: int) -> tuple[Any, Any]:
    """A and B. With units, columns of A are in units that reach so far, and rows of B in their reciprocals."""
    if kind not in ODD:
        return data(kind, 1, m, k), data(kind, 1, k, n)
    A, B = data("normal", 1, m, k), data("normal", 1, k, n)
    if kind == "two units":
        units = torch.where(torch.arange(k, device="cuda") < k // 2, 1.0, 1e-12)
        return (0.5 + data("uniform", 1, m, k)) * units, (0.5 + data("uniform", 1, k, n)) * units.flip(0)[:, None]
    if kind.startswith("units"):
        units = torch.exp2(float(kind[6:]) * (torch.rand(k, device="cuda") - 0.5))
        return A * units, B / units[:, None]
    if kind == "identity":
        B = torch.eye(k, n, device="cuda")[None].contiguous()
    elif kind == "half of the rows 0":
        A[:, m // 2 :] = 0
    else:
        A[..., 0] = float("inf")
    return A, B


def routes(sizes: Sequence[int], rounds: int) -> None:
    """Print a table of the times of all kinds of data, and of the routes that they take."""
    print("| size | data | fp32x3, ms | over cuBLAS | tiles by halves, bfloat16, float32 | summed again, all again |")
    print("|---|---|---|---|---|---|")
    for n in sizes:
        kernel = tuner.load("sgemm3x/wgmma_halves", n)
        for kind in (*KINDS, *ODD):
            A, B = pair(kind, n, n, n)
            C, D = torch.empty(1, n, n, device="cuda"), torch.empty(1, n, n, device="cuda")
            launch = kernel.bind(C, A, B)
            calls: dict[str, Call] = {"fp32x3": launch, "cuBLAS": partial(torch.bmm, A, B, out=D)}
            medians = {name: median(each) for name, each in in_turn(calls, rounds).items()}
            ratio = medians["cuBLAS"] / medians["fp32x3"]
            print(f"| {n} | {kind} | {medians['fp32x3']:.4f} | {ratio:.2f} x | {counts(launch)} |", flush=True)


def counts(launch: Any) -> str:
    """Tiles of each route, and what was done again."""
    held = launch.scratch("routes")
    return f"{', '.join(map(str, held[:3]))} | {held[4]}, {held[5]}"


def errors(depths: Sequence[int]) -> None:
    """Print a table of errors."""
    print(
        "| K | data | cuBLAS: largest, median, relative | fp32x3 | tiles by halves, bfloat16, float32 | summed again |"
    )
    print("|---|---|---|---|---|---|")
    for k in depths:
        kernel = tuner.load("sgemm3x/wgmma_halves", {"M": 1024, "N": 1024, "K": k})
        for kind in (*KINDS, *DEPENDENT):
            A, B = pair(kind, 1024, k, 1024)
            exact, size = A.double() @ B.double(), A.double().abs() @ B.double().abs()
            theirs, ours = torch.bmm(A, B), torch.empty(1, 1024, 1024, device="cuda")
            launch = kernel.bind(ours, A, B)
            launch()
            cells = [cell((C.double() - exact).abs(), size, exact) for C in (theirs, ours)]
            print(f"| {k} | {kind} | {cells[0]} | {cells[1]} | {counts(launch)} |", flush=True)


def cell(error: Any, size: Any, exact: Any) -> str:
    """Errors in words."""
    over = error / size
    return f"{float(over.max()):.2e}, {float(over.median()):.2e}, {float((error / exact.abs()).median()):.2e}"


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("times", "errors", "routes"))
    parser.add_argument("numbers", type=int, nargs="*", help="sizes of squares, or depths")
    parser.add_argument("--drawn", type=int, help="the seed of drawn sizes")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--triton", action="store_true")
    asked = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    if asked.what == "errors":
        errors(asked.numbers)
        return
    if asked.what == "routes":
        routes(asked.numbers, asked.rounds)
        return
    sizes = [(n, n, n) for n in asked.numbers]
    times(sizes + (drawn(asked.drawn, asked.count) if asked.drawn is not None else []), asked.rounds, asked.triton)


if __name__ == "__main__":
    main()
