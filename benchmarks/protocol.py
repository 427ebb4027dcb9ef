"""The effect of the measuring protocol on times, and its cost.

    python benchmarks/protocol.py --device cuda
    python benchmarks/protocol.py sgemm/03_naive@256 hgemm/08_mma_pipelined@4096 --device cuda

Protocol 1 ran a kernel of less than a millisecond once on the same arrays, and then timed it there. Protocol 2 lets
our own kernels restore the inputs and poison the outputs. Both time the configuration of the look-up, alternating in
one process. A copy of a matrix of N x N floats represents memory-bound kernels.

The second line of a problem shows the cost: configurations from all over the space are measured, as in a search
without a race. It prints the share of the time that goes into preparing runs and comparing their outputs, and the
one-time cost of further input sets. Without problems on the command line, it is printed only for the larger sizes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tuner import devices
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import TrialError, TunerError
from tuner.launch import launcher
from tuner.measure.answers.referee import Referee
from tuner.measure.benchmark import Bench
from tuner.measure.timing.clock import RunConditions, Stopwatch, spread
from tuner.measure.verify import input_sets
from tuner.search.enumeration import enumerated
from tuner.space import parsing
from tuner.space.answers.cache import ReferenceCache
from tuner.space.default import first_valid
from tuner.space.model import Space
from tuner.space.scope import Scope

SIZES = (128, 256, 512, 1024, 2048, 4096)
KERNELS = {
    "cuda": ["copy", "sgemm/03_naive", "sgemm/07_tiled_1xn", "sgemm/13_double_buffered", "hgemm/08_mma_pipelined"],
    "opencl": ["copy", "sgemm/03_naive", "sgemm/07_tiled_1xn"],
    "host": ["copy", "sgemm/01_host_blocked"],
}
COSTED = 512  # the least size for which the cost is printed
WARMED_MS = 1.0  # protocol 1 did not warm the caches for longer kernels

COPY = """\
title: Copy a matrix
operation:
  sizes: {n: }
  extent: [n * n]
  arguments:
    - {name: y, dtype: float32, shape: [n, n], role: out}
    - {name: x, dtype: float32, shape: [n, n], role: in}
    - {name: n, dtype: int32}
  reference: x
  bytes: 8 * n * n
kernel: copy
languages: [LANGUAGE]
parameters: {block_size: [64, 128, 256, 512, 1024]}
"""
COPY_C = "void copy(float *y, const float *x, int n) { for (long i = 0; i < (long)n * n; i++) y[i] = x[i]; }\n"
COPY_GPU = """\
#include "portable.h"
KERNEL void copy(GLOBAL float *y, GLOBAL const float *x, int n) {
    long i = blockIdx.x * (long)block_size + threadIdx.x;
    if (i < (long)n * n) y[i] = x[i];
}
"""
GEOMETRY = "grid_divisors: {x: [block_size]}\nblock: [block_size]\n"


class Earlier(RunConditions):
    """The conditions of protocol 1: the kernel itself goes before."""

    def __init__(self, device: Device, call: Callable[[], None]) -> None:
        self._call = call if device.asynchronous else lambda: None
        self.expected_ms = 0.0

    def prepare(self) -> None:
        if self.expected_ms < WARMED_MS:
            self._call()


def space_of(name: str, language: str, folder: Path) -> Space:
    """A shipped kernel, or the copy."""
    if name != "copy":
        return catalog.load(name)
    text, suffix, geometry = (COPY_C, "c", "") if language == "c" else (COPY_GPU, "cu", GEOMETRY)
    (folder / f"copy.{suffix}").write_text(text)
    (folder / "copy.yaml").write_text(COPY.replace("LANGUAGE", language) + geometry)
    return catalog.load(str(folder / "copy.yaml"))


def compare(bench: Bench, rounds: int) -> str:
    """A line of the first table: the median of each protocol in ms, its spread, and their difference."""
    device = bench.device
    try:
        call, _ = bench.prepare(launcher.find(bench.space, bench.scope, device).config)
        bench.workbench.verify(call)
    except TrialError:  # the record of another device does not run here
        call, _ = bench.prepare(first_valid(bench.space, bench.scope))
        bench.workbench.verify(call)
    earlier = Earlier(device, call)
    watches = [Stopwatch(device, earlier), Stopwatch(device, bench.workbench)]
    times: list[list[float]] = [[], []]
    for round_ in range(rounds + 1):
        for which in (0, 1) if round_ % 2 else (1, 0):
            times[which].append(watches[which].time(call))
        earlier.expected_ms = times[0][-1]
    old, new = (median(taken[1:]) for taken in times)
    spreads = [spread(taken[1:]) for taken in times]
    return f"{old:9.4f} ms {spreads[0]:6.1%}   {new:9.4f} ms {spreads[1]:6.1%}   {new / old - 1:+7.1%}"


def cost(bench: Bench, cache: ReferenceCache, count: int) -> str:
    """A line of the second table: the time for `count` configurations, and the shares of it."""
    device, bench_arrays = bench.device, bench.workbench
    found = [*enumerated(bench.space, bench.scope).configs()]
    configs = found[:: max(1, len(found) // count)][:count]
    spent = {"preparing": 0.0, "comparing": 0.0}

    def timed(name: str, work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            device.synchronize()
            began = time.perf_counter()
            try:
                work()
                device.synchronize()
            finally:
                spent[name] += time.perf_counter() - began

        return run

    for config in configs:  # compiled ahead, as a search does
        bench.measure(config)
    bench_arrays.prepare = timed("preparing", bench_arrays.prepare)  # type: ignore[method-assign]
    bench_arrays.check = timed("comparing", bench_arrays.check)  # type: ignore[method-assign]
    began = time.perf_counter()
    for config in configs:
        bench.measure(config)
    total = time.perf_counter() - began
    began = time.perf_counter()
    for seed in range(1, bench_arrays.set_count + 1):
        input_sets.draw(Referee(bench.device, bench.space, cache), bench.scope, seed + 100)
    sets = time.perf_counter() - began
    shares = "   ".join(f"{name} {seconds / total:5.1%}" for name, seconds in spent.items())
    return f"{total:7.2f} s for {len(configs)} configurations: {shares}   {sets:.2f} s for other sets, once"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", metavar="KERNEL@SIZE")
    parser.add_argument("--device", default="host")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--configurations", type=int, default=6)
    options = parser.parse_args()
    device = devices.open_device(options.device)
    pairs = [problem.partition("@")[::2] for problem in options.problems]
    most = SIZES if device.kind == "cuda" else SIZES[:3]
    pairs = pairs or [(name, str(size)) for name in KERNELS[device.kind] for size in most]
    print(f"{device.name}: protocol 1 and its spread, protocol 2 and its spread, difference; then the cost")
    with tempfile.TemporaryDirectory() as folder:
        for name, size in pairs:
            space, cache = space_of(name, device.language, Path(folder)), ReferenceCache()
            sizes = parsing.parse_size(size, space.operation)
            scope = Scope(sizes, space.operation.options, device.language, device.limits)
            label = f"{name} {size}"
            try:
                bench = Bench(device, space, scope, cache=cache)
                print(f"{label:32}{compare(bench, options.rounds)}", flush=True)
                if options.problems or int(size) >= COSTED:
                    print(f"{'':32}{cost(bench, cache, options.configurations)}", flush=True)
            except TunerError as error:
                print(f"{label:32}{error}", flush=True)


if __name__ == "__main__":
    main()
