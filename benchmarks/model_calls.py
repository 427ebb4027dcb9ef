"""Time of a row of products from Python, as a model's layers call them, beside torch.

    python benchmarks/model_calls.py --rows 1 16 256 2048

The products are those of a transformer with 7 billion parameters: of its layers, q, k, v, o (4096 x 4096), gate and up
(11008 x 4096) and down (4096 x 11008), then its head (32000 x 4096). Weights are stored as [out, in], as
`torch.nn.Linear` has them. 100 products are enqueued one after the other, in BF16, each with weights of its own as far
as memory allows; the time ends when the last result is there. Both sides alternate in rounds. Each result is compared
with a product in double precision first. A ratio is torch's time over ours, with the 95 % interval of the median.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import tuner

LAYER = ((4096, 4096),) * 4 + ((11008, 4096),) * 2 + ((4096, 11008),)
HEAD = (32000, 4096)
CALLS = 100
ROUNDS = 20
SETS = 4  # layers with weights of their own: more than the L2 cache holds


def shapes(count: int) -> list[tuple[int, int]]:
    """(out, in) of each product: whole layers and the head, cut to the count."""
    layers = [*LAYER * (count // len(LAYER) + 1)][: count - 1]
    return [*layers, HEAD]


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median, by order statistics."""
    ordered, half = sorted(ratios), 0.98 * math.sqrt(len(ratios))
    low, high = math.floor(len(ordered) / 2 - half), math.ceil(len(ordered) / 2 + half)
    return ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


def timed(calls: Sequence[Callable[[], object]]) -> float:
    """The time of all calls in ms, until the device has done them."""
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter()
    for call in calls:
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) * 1e3


def check(found: Any, x: Any, weight: Any, name: str) -> None:
    """Raise SystemExit for a wrong product: farther off than BF16's rounding and float32's sums allow."""
    right = x.double() @ weight.double().T
    allowed = 2.0**-8 * right.abs() + 2.0**-24 * x.shape[1] * (16 + 0.5 * math.sqrt(x.shape[1]))
    if not bool(((found.double() - right).abs() <= allowed).all()):
        raise SystemExit(f"{name} at {tuple(x.shape)} x {tuple(weight.shape)}: wrong")


def main() -> None:
    """Measure and print a table."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 256, 2048], metavar="M")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    generator = torch.Generator("cuda").manual_seed(7)

    def drawn(*shape: int) -> Any:
        return torch.empty(shape, device="cuda").uniform_(-1, 1, generator=generator).bfloat16()

    weights = {shape: [drawn(*shape) for _ in range(SETS)] for shape in dict.fromkeys(shapes(CALLS))}
    handle = tuner.dispatch("gemm16_nt", wait=True)
    print("| M | torch, ms | matmul(a, b, out) | x torch | dispatch(c, a, b) | x torch | runs |")
    print("|---|---|---|---|---|---|---|")
    for rows in options.rows:
        inputs = {inner: drawn(rows, inner) for inner in {inner for _, inner in weights}}
        outputs = {out: torch.empty(rows, out, dtype=torch.bfloat16, device="cuda") for out, _ in weights}
        runs = dict[str, None]()
        ways: dict[str, list[Callable[[], object]]] = {"torch": [], "matmul": [], "dispatch": []}
        for number, shape in enumerate(shapes(CALLS)):
            out, inner = shape
            x, c, weight = inputs[inner], outputs[out], weights[shape][number % SETS]
            t, stacked = weight.T, [array.unsqueeze(0) for array in (c, x, weight)]
            ways["torch"].append(lambda x=x, t=t, c=c: torch.mm(x, t, out=c))  # type: ignore[misc]
            ways["matmul"].append(lambda x=x, t=t, c=c: tuner.matmul(x, t, c))  # type: ignore[misc]
            tuner.matmul(x, t, c, wait=True)
            ways["dispatch"].append(lambda a=stacked: handle(*a))  # type: ignore[misc]
            for name in ways:
                c.fill_(math.nan)
                ways[name][-1]()
                check(c, x, weight, name)
            told = handle.explain(*stacked)
            runs[f"{out}x{inner}: {told.kernel} ({told.match})"] = None
        times = [{name: timed(calls) for name, calls in ways.items()} for _ in range(options.rounds + 1)][1:]
        cells = [f"{median(each['torch'] for each in times):.3f}"]
        for name in ("matmul", "dispatch"):
            ratios = [each["torch"] / each[name] for each in times]
            low, high = interval(ratios)
            cells += [f"{median(each[name] for each in times):.3f}", f"{median(ratios):.3f} ({low:.3f} to {high:.3f})"]
        print(f"| {rows} | {' | '.join(cells)} | {'; '.join(runs)} |", flush=True)


if __name__ == "__main__":
    main()
