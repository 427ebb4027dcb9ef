"""What it costs that each configuration on `host` runs in a fork, and whether its times are those of a fresh process.

    python benchmarks/forks.py --mib 256 --rounds 15

A copy and a random gather, of arrays of this size, are measured in turns: in a fresh process that has just computed
inputs and answers, and in a fork of a process that holds them. Prints the median times, their ratio, its standard
error by a bootstrap of the rounds, and how long a fork takes. Needs 16 times the size in memory.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, stdev

from tuner import devices
from tuner.catalog import catalog
from tuner.children.forks import Forks
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.space.scope import Scope

REPEATS = 9
RESAMPLED = 1000  # times that the rounds are drawn again
PROMPT = 50  # forks whose time is measured
SPACE = """\
title: {name}
kernel: {name}
source: {name}.c
languages: [c]
parameters: {{unused: [0]}}
operation:
  sizes: {{n: }}
  extent: [n]
  arguments:
    - {{name: y, dtype: float32, shape: [n], role: out}}
    - {{name: x, dtype: float32, shape: [n], role: in}}
    - {{name: at, dtype: int32, shape: [{indices}], role: in, fill: {{integers: [0, n - 1]}}}}
    - {{name: n, dtype: int32}}
  reference: {reference}
"""
SOURCE = """\
void {name}(float *y, const float *x, const int *at, int n) {{
    #pragma omp parallel for
    for (int i = 0; i < n; i++) y[i] = x[{index}];
}}
"""
KERNELS = {"copy": ("1", "x", "i"), "gather": ("n", "take(x, at)", "at[i]")}


def bench_of(file: str, size: int) -> Bench:
    """The arrays and answers of a kernel."""
    device, space = devices.open_device("host"), catalog.load(file)
    scope = Scope({"n": size}, {}, device.language, device.limits)
    return Bench(device, space, scope, Method(REPEATS, race=False))


def time_of(bench: Bench) -> float:
    """The median time of the kernel in ms."""
    outcome = bench.measure({"unused": 0})
    assert outcome.failure is None, outcome.log
    return median(outcome.times)


def compared(folder: Path, name: str, size: int, rounds: int) -> None:
    """Print the times of one kernel in fresh processes and in forks."""
    indices, reference, index = KERNELS[name]
    (folder / f"{name}.c").write_text(SOURCE.format(name=name, index=index))
    file = folder / f"{name}.yaml"
    file.write_text(SPACE.format(name=name, indices=indices, reference=reference))
    holder = subprocess.Popen(command("hold", file, size), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    requests, replies = holder.stdin, holder.stdout
    assert requests is not None
    assert replies is not None
    fork_ms = float(replies.readline())
    fresh, forked = list[float](), list[float]()

    def in_fork() -> None:
        print(file=requests, flush=True)
        forked.append(float(replies.readline()))

    def alone() -> None:
        done = subprocess.run(command("alone", file, size), capture_output=True, text=True, check=True)
        fresh.append(float(done.stdout))

    for _ in range(rounds):
        for measure in random.sample([in_fork, alone], 2):
            measure()
    holder.communicate()
    pairs = list(zip(fresh, forked, strict=True))
    error = stdev(ratio(random.choices(pairs, k=rounds)) for _ in range(RESAMPLED))  # noqa: S311
    print(
        f"{name}, {size * 4 >> 20} MiB: fresh {median(fresh):.4g} ms, forked {median(forked):.4g} ms, ratio "
        f"{ratio(pairs):.4f} +- {error:.4f}; a fork takes {fork_ms:.2f} ms"
    )


def ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """The median time in forks over the median time in fresh processes."""
    return median(forked for _, forked in pairs) / median(fresh for fresh, _ in pairs)


def command(role: str, file: Path, size: int) -> list[str]:
    """The command line of this script as another process."""
    return [sys.executable, __file__, "--role", json.dumps([role, str(file), size])]


def play(role: str, file: str, size: int) -> None:
    """Be a fresh process, or one that forks for each line that it reads."""
    bench = bench_of(file, size)
    if role == "alone":
        print(time_of(bench))
        return
    forks = bench.device.isolation = Forks(begin=bench.device.adopt)
    times = list[float]()
    for _ in range(PROMPT):
        began = time.perf_counter()
        forks.run(lambda: None)
        times.append(time.perf_counter() - began)
    print(median(times) * 1e3, flush=True)
    for _ in sys.stdin:
        print(time_of(bench), flush=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, nargs="+", default=[1, 256])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--role", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        play(*options.role)
        return
    with tempfile.TemporaryDirectory() as folder:
        for mib in options.mib:
            for name in KERNELS:
                compared(Path(folder), name, mib << 18, options.rounds)


if __name__ == "__main__":
    main()
