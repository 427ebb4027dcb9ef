"""Whether `tuner.dispatch` runs what a program waits for the least on this host, and what `tune missed` makes of it.

    python benchmarks/host_choice.py --missed 20s
    ncu --profile-from-start off --target-processes all python benchmarks/host_choice.py --missed 20s

At small sizes a program waits for the host, so the choice between a kernel and the library depends on the host's time
of each, which is measured once per host. For each size the program prints what is chosen, and the wall times in us of
CALLS calls in a row, the device included: of the chosen way, of the best kernel, of the library, and of torch; the
medians of ROUNDS rounds in turns. Results are compared with products in double precision. `--missed` then tunes sizes
that have been missed, as `tune missed` does on that host, and prints the choices again.

The cache and the records are in a folder of its own each time. The second line stands for another host: a profiler
that intercepts each launch makes it longer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import tuner
from tuner import devices
from tuner.families import vendor
from tuner.families.family import find
from tuner.store.lookup import Candidate

CALLS, ROUNDS = 50, 25
SIZES = (  # M, N, K, batch: kernels take less time than the host, or a little more
    (17, 64, 64, 1), (1, 1000, 512, 1), (128, 128, 136, 1), (96, 200, 333, 1), (8, 2048, 1032, 1), (300, 311, 1000, 1),
    (520, 512, 512, 1), (40, 64, 8200, 1), (1, 4104, 4096, 1), (128, 1032, 4096, 1), (33, 65, 129, 8),
    (1032, 2048, 2048, 1),
)  # fmt: skip
Way = Callable[[], Any]


def walls(ways: Sequence[Way]) -> list[float]:
    """The wall time of a call of each way in us."""
    import torch

    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for own, way in zip(taken, ways, strict=True):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(CALLS):
                way()
            torch.cuda.synchronize()
            own.append((time.perf_counter() - began) / CALLS * 1e6)
    return [median(own) for own in taken]


def line(size: tuple[int, int, int, int]) -> str:
    """The line of a size."""
    import torch

    m, n, k, batch = size
    shapes = (batch, m, n), (batch, m, k), (batch, k, n)
    c, a, b = (torch.empty(shape, device="cuda").uniform_(-1, 1).bfloat16() for shape in shapes)
    chosen, kernel, library = (tuner.dispatch("gemm16", wait=True, library=has) for has in (True, False, True))
    for handle in (chosen, kernel, library):
        handle(c, a, b)
    about, right = chosen.explain(c, a, b), a.double() @ b.double()
    device, space = devices.shared("cuda"), find("gemm16").spaces[0]
    sizes, options, types = {"M": m, "N": n, "K": k, "batch": batch}, {"alpha": 1.0, "beta": 0.0}, {"real": "bfloat16"}
    scope = space.operation.scope(sizes, options, "cuda", device.limits, types)
    loaded = vendor.load(space, scope, device, Candidate({}, "default"))
    assert loaded is not None
    library._loaded = dict.fromkeys(library._loaded, loaded)
    for handle in (chosen, kernel, library):
        for _ in range(CALLS):  # after some, a call is launched without cuBLASLt
            handle(c, a, b)
        c.fill_(torch.nan)
        handle(c, a, b)
        if not bool(((c.double() - right).abs() <= 2.0**-8 * right.abs() + 2.0**-20 * k).all()):
            raise SystemExit(f"wrong at {m}x{n}x{k} x {batch}")
    ways = [partial(handle, c, a, b) for handle in (chosen, kernel, library)]
    ways.append(partial(torch.bmm, a, b, out=c) if batch > 1 else partial(torch.mm, a[0], b[0], out=c[0]))
    times = walls(ways)
    cells = [f"{m}x{n}x{k} x {batch}", about.kernel, about.match, *(f"{each:.1f}" for each in times)]
    return f"| {' | '.join(cells)} | {times[0] / min(times[:3]):.2f} |"


def measured() -> None:
    """Print the host's times, and a line for each size."""
    import torch

    torch.cuda.synchronize()
    host = devices.shared("cuda").host_times()
    assert host is not None
    print(f"\n{torch.cuda.get_device_name()}: the host takes {1e3 * host.kernel_ms:.1f} us for a kernel, ", end="")
    print(f" {1e3 * host.library_ms:.1f} for the library, {1e3 * host.graph_ms:.1f} for a graph\n")
    print("| size | chosen | match | chosen, us | best kernel | library | torch | chosen / least |")
    print("|---|---|---|---|---|---|---|---|")
    for size in SIZES:
        print(line(size), flush=True)


def missed(seconds: str) -> None:
    """Tune what has been missed, and say how many sizes that were."""
    command = [sys.executable, "-m", "tuner", "missed", "--budget", seconds, "--json"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout)
    print(f"\n`tune missed --budget {seconds}`: {len(found['tuned'])} tuned, {len(found['left'])} left")


def main() -> None:
    """Measure and print, in a process of its own each time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missed", metavar="TIME", help="afterwards, tune what has been missed: 20s, 1m")
    parser.add_argument(
        "--here", action="store_true", help="measure in this process, with the folders of the environment"
    )
    options = parser.parse_args()
    if options.here:
        measured()
        return
    with tempfile.TemporaryDirectory() as folder:
        names = {"TUNER_CACHE": "cache", "TUNER_STATE": "state", "TUNER_RESULTS": "results"}
        os.environ.update({name: str(Path(folder) / part) for name, part in names.items()})
        again = [sys.executable, __file__, "--here"]
        subprocess.run(again, check=True)
        if options.missed:
            missed(options.missed)
            subprocess.run(again, check=True)


if __name__ == "__main__":
    main()
