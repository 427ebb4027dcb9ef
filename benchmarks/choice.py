"""The cost of a choice: the first dispatch of a process, the choice at a new size, and later calls.

    python benchmarks/choice.py sgemm --device cuda --loads 20
    python benchmarks/choice.py sgemm --described "NVIDIA H200"

Each of several processes finds the family, reads its records and tables for the device, builds the time model, and
chooses once at each of several new sizes. The time of imports is shown separately; opening the device is not counted.
A choice includes the query of how the library would run a product. A later process finds the learnt model in the
cache; set `TUNER_CACHE` to an empty folder to measure a first one. With `--loads`, a handle of the first process also
loads its choices at that many sizes, and a second handle loads them again from the build cache; then it is called again
at one size, compared with the kernel itself. `--described` needs no GPU: nothing is loaded, and the library's answer is
constant.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median, quantiles
from types import SimpleNamespace
from typing import Any

SEED, SMALLEST, LARGEST = 1, 16, 8192
ROUNDS, CALLS = 15, 200
Figures = dict[str, list[float]]  # by name, in ms


class Array:
    """Memory of a GPU that nobody has written."""

    def __init__(self, device: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype
        self._memory = device.allocate(dtype.itemsize * math.prod(shape), guard=0)
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": dtype.str, "data": (int(self._memory.handle), False), "version": 3
        }  # fmt: skip


def described(name: str, units: int, cache: int) -> Any:
    """An NVIDIA GPU of this name, as far as a choice asks."""
    from tuner.devices.conditions import DEFAULT
    from tuner.devices.cuda.architectures import limits_of
    from tuner.devices.cuda.blas import cublas_tiles
    from tuner.devices.cuda.compiler import NvrtcCompiler

    return SimpleNamespace(
        id="cuda:0", kind="cuda", language="cuda", name=name, architecture="sm_90a", limits=limits_of("sm_90a"),
        units=units, last_cache=cache, on_processor=False, compiler=NvrtcCompiler("sm_90a"),
        conditions=DEFAULT, host_times=lambda: None,
        tiles=lambda product: cublas_tiles.tiles(product, cublas_tiles.Heuristic(1, (128, 128), 1, 1.0), units),
    )  # fmt: skip


def arrays_of(device: Any, operation: Any, scope: Any) -> list[Any]:
    """Arrays of a size, which hold anything."""
    import numpy as np

    from tuner.space import operation as operations
    from tuner.space.chosen_types import dtype

    found: list[Any] = []
    for argument in operation.arrays:
        shape, element = operations.shape(argument, scope), dtype(argument, scope).numpy
        if device.kind == "cuda":
            found.append(Array(device, shape, element))
        elif device.kind == "opencl":
            from pyopencl import array

            found.append(array.empty(device.queue, shape, element))
        else:
            found.append(np.ones(shape, element))
    return found


def timed(figures: Figures, name: str, action: Callable[..., Any], *arguments: Any) -> Any:
    """What an action returns; its time is added."""
    start = time.perf_counter()
    result = action(*arguments)
    figures.setdefault(name, []).append((time.perf_counter() - start) * 1e3)
    return result


def once(options: argparse.Namespace) -> Figures:
    """All of it in this process."""
    import numpy as np  # noqa: F401  # its import is nobody's choice

    figures: Figures = {}
    tuner = timed(figures, "import tuner", lambda: __import__("tuner"))
    timed(figures, "import tuner.families.loader", lambda: __import__("tuner.families.loader"))
    from tuner import devices
    from tuner.families import products
    from tuner.families.choice import FamilyTable
    from tuner.space import chosen_types

    shown = options.described
    device = described(shown, options.units, options.cache) if shown else devices.shared(options.device)
    handle = timed(figures, "find the family", lambda: tuner.dispatch(options.family))
    op = handle.family.operation
    types = chosen_types.parse(dict(each.split("=") for each in options.type), op)
    scope = op.scope(dict.fromkeys(op.sizes, 1), dict(op.options), device.language, device.limits, types)
    table = timed(
        figures, "read what is known, make the model", lambda: FamilyTable(handle.family.spaces, device, scope, True)
    )
    draw = random.Random(SEED)  # noqa: S311

    def drawn(most: int) -> dict[str, int]:
        span = math.log(most / SMALLEST)
        return {name: size or int(SMALLEST * math.exp(draw.random() * span)) for name, size in op.sizes.items()}

    timed(figures, "first choice", next, table.choices(drawn(LARGEST)))
    products.tiles = partial(timed, figures, "library's answer, a part of a choice", products.tiles)
    for _ in range(options.sizes):
        timed(figures, "choice", next, table.choices(drawn(LARGEST)))
    if options.loads and not shown:
        most = LARGEST // 4 if device.kind == "cuda" else LARGEST // 64  # a processor takes long for a product
        loaded(figures, options, device, [drawn(most) for _ in range(options.loads)])
    return figures


def loaded(figures: Figures, options: argparse.Namespace, device: Any, sizes: list[dict[str, int]]) -> None:
    """First calls at these sizes, and later ones at the smallest."""
    import tuner

    for name in ("first call, with builds", "first call, builds in the cache"):
        handle = tuner.dispatch(options.family, device=device)
        operation = handle.family.operation
        for each in sizes:
            arrays = arrays_of(device, operation, operation.scope(each, {}, device.language, device.limits, {}))
            timed(figures, name, partial(handle, *arrays))
            device.synchronize()
    least = {size: default or SMALLEST for size, default in operation.sizes.items()}
    arrays = arrays_of(device, operation, operation.scope(least, {}, device.language, device.limits, {}))
    kernel = handle.kernel(*arrays)
    for name, call in ("kernel(...), later", kernel), ("dispatch(...)(...), later", handle):
        for _ in range(ROUNDS):
            device.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                call(*arrays)
            figures.setdefault(name, []).append((time.perf_counter() - start) / CALLS * 1e3)
    device.synchronize()


def main() -> None:
    """Print a table of all processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--described", help="name of an absent NVIDIA GPU, as in records")
    parser.add_argument("--units", type=int, default=132, help="multiprocessors of that GPU")
    parser.add_argument("--cache", type=int, default=50 << 20, help="bytes of its last-level cache")
    parser.add_argument("--type", action="append", default=[], metavar="NAME=DTYPE", help="such as real=bfloat16")
    parser.add_argument("--sizes", type=int, default=200)
    parser.add_argument("--loads", type=int, default=0)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(once(options)))
        return
    figures: Figures = {}
    for number in range(options.processes):
        loads = [] if number == 0 else ["--loads", "0"]
        command = [sys.executable, *sys.argv, *loads, "--one"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for name, times in json.loads(done.stdout.splitlines()[-1]).items():
            figures.setdefault(name, []).extend(times)
    print(f"{options.family} on {options.described or options.device}: {options.processes} processes\n")
    print("| what | ms, median | quartiles | least, most |\n|---|---|---|---|")
    for name, times in figures.items():
        low, _, high = quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
        print(f"| {name} | {median(times):.4g} | {low:.4g} to {high:.4g} | {min(times):.4g}, {max(times):.4g} |")


if __name__ == "__main__":
    main()
