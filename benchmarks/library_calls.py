"""The host's time of dispatched calls that run the vendor's library, and of `tuner.matmul`, beside torch's.

    python benchmarks/library_calls.py

At each size the handle runs the library, whatever it would choose. Calls with the same arrays follow one another,
CALLS in a row without waiting for the device, in turns with torch's `mm` or `bmm` with `out=`: the least mean is the
host's time. The second figures are wall times of calls over SETS sets of arrays, device included. Results are compared
with products in double precision. Times are in us.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

import tuner
from tuner import devices
from tuner.families import vendor
from tuner.families.family import find
from tuner.store.lookup import Candidate

CALLS, ROUNDS, SETS = 20, 40, 4
SIZES = (  # M, N, K, batch, and whether B is stored transposed
    (640, 192, 15808, 1, True), (856, 296, 11672, 1, False), (64, 64, 9000, 1, False), (256, 512, 4096, 1, False),
    (288, 520, 224, 64, True), (1, 11008, 4096, 1, True), (128, 1024, 128, 1, True), (100, 300, 200, 4, False),
)  # fmt: skip
Call = Callable[[], Any]


def drawn(*shape: int) -> torch.Tensor:
    """Numbers between -1 and 1."""
    return torch.empty(shape, device="cuda").uniform_(-1, 1).bfloat16()


def times(rows: Sequence[Sequence[Call]], rounds: int, waits: bool) -> list[float]:
    """For each row of calls, the time of a call, with that of the device if it `waits` for it: the median of all
    rounds if it does, else the least."""
    taken: list[list[float]] = [[] for _ in rows]
    for _ in range(rounds):
        for own, calls in zip(taken, rows, strict=True):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for call in calls:
                call()
            if waits:
                torch.cuda.synchronize()
            own.append((time.perf_counter() - began) / len(calls) * 1e6)
    return [median(own) if waits else min(own) for own in taken]


def of_torch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, is_transposed: bool) -> Call:
    """The same product by torch."""
    b = b.transpose(1, 2) if is_transposed else b
    if len(c) == 1:
        return functools.partial(torch.mm, a[0], b[0], out=c[0])
    return functools.partial(torch.bmm, a, b, out=c)


def line(m: int, n: int, k: int, batch: int, is_transposed: bool) -> str:
    """The line of a size."""
    name = "gemm16_nt" if is_transposed else "gemm16"
    shape = (batch, n, k) if is_transposed else (batch, k, n)
    device, space = devices.shared("cuda"), find(name).spaces[0]
    options, types = {"alpha": 1.0, "beta": 0.0}, {"real": "bfloat16"}
    scope = space.operation.scope({"M": m, "N": n, "K": k, "batch": batch}, options, "cuda", device.limits, types)
    library = vendor.load(space, scope, device, Candidate({}, "default"))
    assert library is not None
    sets = [
        (torch.empty(batch, m, n, dtype=torch.bfloat16, device="cuda"), drawn(batch, m, k), drawn(*shape))
        for _ in range(SETS)
    ]
    gemm, (c, a, b) = tuner.dispatch(name, wait=True), sets[0]
    gemm(c, a, b)
    chosen = gemm.explain(c, a, b).kernel
    gemm._loaded = dict.fromkeys(gemm._loaded, library)
    for _ in range(CALLS):  # after some, a call is launched without cuBLASLt
        for each in sets:
            gemm(*each)
    right = a.double() @ (b.transpose(1, 2) if is_transposed else b).double()
    c.fill_(torch.nan)
    gemm(c, a, b)
    if not bool(((c.double() - right).abs() <= 2.0**-8 * right.abs() + 2.0**-20 * k).all()):
        raise SystemExit(f"wrong at {m}x{n}x{k} x {batch}")
    theirs = [of_torch(*each, is_transposed) for each in sets]
    rows: list[list[Call]] = [[functools.partial(gemm, c, a, b)] * CALLS, [theirs[0]] * CALLS]
    if batch == 1:
        left, turned, out = a[0], b[0].T if is_transposed else b[0], c[0]
        tuner.matmul(left, turned, out, wait=True)
        rows.append([functools.partial(tuner.matmul, left, turned, out)] * CALLS)
    host = [f"{each:.1f}" for each in times(rows, ROUNDS, waits=False)]
    ours: list[Call] = [functools.partial(gemm, *each) for each in sets]
    wall = [f"{each:.1f}" for each in times([ours * CALLS, theirs * CALLS], ROUNDS // 3, waits=True)]
    cells = [f"{m}x{n}x{k} x {batch}", *host[:2], host[2] if batch == 1 else "", *wall, chosen]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure and print."""
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("| size | dispatch | torch | matmul | dispatch, wall | torch, wall | chosen for dispatch and matmul |")
    print("|---|---|---|---|---|---|---|")
    for size in SIZES:
        print(line(*size), flush=True)


if __name__ == "__main__":
    main()
