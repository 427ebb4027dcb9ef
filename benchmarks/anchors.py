"""The anchors of matrix products: cuBLAS with its default algorithm, the fastest of cuBLASLt, and torch.

    python benchmarks/anchors.py --sizes 1024 4096 --types bfloat16-bfloat16 --sustained 2

Inputs are normally distributed. Every result is compared with torch's float32 product of the same inputs. Times are
medians of interleaved rounds on a busy device. For short runs, the host time of a launch is printed too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from tuner import devices
from tuner.devices.base import RoutineCall
from tuner.measure.results import Sustained
from tuner.measure.sustained import sustain
from tuner.measure.timing.clock import RunConditions, Stopwatch, interleave

TYPES = ("float32-float32", "float16-float16", "float16-float32", "bfloat16-bfloat16", "bfloat16-float32")
LAUNCHES, SHORT_MS = 500, 0.2  # that the host's time is measured over, and of runs that it is told of
Call = Callable[[], None]


def main() -> None:
    """Print a line or two for each size and pair of types."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--types", nargs="+", default=TYPES, metavar="IN-OUT")
    parser.add_argument("--transposed", action="store_true", help="B is stored as N x K")
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds of measurement")
    parser.add_argument("--sustained", type=float, help="also measure sustained rates, for this many seconds each")
    options = parser.parse_args()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    device = devices.open_device("cuda")
    stopwatch = Stopwatch(device, RunConditions())
    for types in options.types:
        for size in options.sizes:
            a, _, c = types.partition("-")
            for line in measured(torch, device, stopwatch, size, a, c, options):
                print(f"{types}{' NT' if options.transposed else ''} {size}: {line}", flush=True)


def measured(
    torch: Any, device: devices.Device, stopwatch: Stopwatch, size: int, a: str, c: str, options: argparse.Namespace
) -> Iterator[str]:
    """A line for the burst, and one for what is sustained."""
    A, B = (torch.randn(size, size, device="cuda", dtype=getattr(torch, a)) for _ in "AB")
    C, own = (torch.empty(size, size, device="cuda", dtype=getattr(torch, kind)) for kind in (c, a))
    right_operand = B.T if options.transposed else B
    answer = A.float() @ right_operand.float()
    arguments = {**{name: x.data_ptr() for name, x in zip("ABC", (A, B, C), strict=True)}, **dict.fromkeys("MNK", size)}
    problem = RoutineCall("gemm", arguments, {"A": a, "B": a, "C": c}, "B" if options.transposed else "")
    default, offered = device.library(problem), device.library_algorithms(problem)
    if default is None:
        raise SystemExit("cuBLAS is missing")
    bound = (2.0**-8 if c == "bfloat16" else 2.0**-10 if c == "float16" else 0.0) * answer.abs() + 2**-19 * size

    def is_right(call: Call) -> bool:
        C.fill_(float("nan"))
        call()
        torch.cuda.synchronize()
        return bool(((C.float() - answer).abs() <= bound).all())

    def by_torch() -> None:
        torch.matmul(A, right_operand, out=own)

    algorithms: list[Call] = [call for call in offered if is_right(call)]
    calls: list[Call] = [default, by_torch, *algorithms]
    assert is_right(default)
    times = [median(taken) for taken in interleave(device, stopwatch, calls, options.seconds).times]
    best = min(range(2, len(calls)), key=lambda position: times[position])
    names = (default.name, f"torch.matmul to {a}", f"{offered[0].name}, number {best - 1}")
    shown = list(zip(names, (0, 1, best), strict=True))
    figures = (f"{name} {rate(times[i], size)}{enqueued(torch, calls[i], times[i])}" for name, i in shown)
    yield f"{len(offered)} offered, {len(algorithms)} right; {'; '.join(figures)}"
    if options.sustained:
        found = sustain(device, RunConditions(), [(calls[i], times[i]) for _, i in shown], options.sustained)
        told = (f"{name} {at_length(run, size)}" for (name, _), run in zip(shown, found, strict=True) if run)
        yield "sustained " + "; ".join(told)


def rate(time_ms: float, size: int) -> str:
    """`0.2010 ms, 683.8 TFLOP/s`."""
    return f"{time_ms:.4f} ms, {2e-9 * size**3 / time_ms:.1f} TFLOP/s"


def enqueued(torch: Any, call: Call, time_ms: float) -> str:
    """`, host 3.1 us` for a short run."""
    if time_ms > SHORT_MS:
        return ""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(LAUNCHES):
        call()
    took = time.perf_counter() - began
    torch.cuda.synchronize()
    return f", host {took / LAUNCHES * 1e6:.1f} us"


def at_length(run: Sustained, size: int) -> str:
    """The rate, the clock and the power."""
    return f"{rate(run.time_ms, size)}, {run.clock_mhz or 0:.0f} MHz, {run.power_w or 0:.0f} W"


if __name__ == "__main__":
    main()
