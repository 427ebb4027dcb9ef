"""Check that the vendor library launches the blocks that its heuristics announce.

    python benchmarks/library_grids.py sgemm --sizes benchmarks/sizes/any_size.txt

At each size the library's product runs under torch's profiler, and the number of blocks of its first kernel is
compared with that of `Tiles`. Algorithms without tiles, and persistent ones, are counted but not compared.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from tuner import devices
from tuner.devices import Device
from tuner.devices.cuda.blas import cublas_tiles
from tuner.families import family, products
from tuner.space import size_lists
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.texts import short_size

MARK = 777  # elements of an array that is filled between two sizes
BESIDE = ("splitK", "scal_kernel")  # kernels of the library that are not the product's


def main() -> None:
    """Print a table of algorithms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family")
    parser.add_argument("--sizes", default="benchmarks/sizes/any_size.txt", help="a file of sizes")
    options = parser.parse_args()
    space, device = family.find(options.family).spaces[0], devices.open_device("cuda")
    sizes = [size.sizes for size in size_lists.read(options.sizes, space.operation)]
    scopes = [Scope(each, dict(space.operation.options), device.language, device.limits, {}) for each in sizes]
    counts: dict[int, Counter[str]] = {}
    for scope, blocks in zip(scopes, launched(space, scopes, device), strict=True):
        plan = products.product(space, scope)
        choice = None if plan is None else cublas_tiles.heuristic(plan)
        if plan is None or choice is None or blocks is None:
            continue
        of, tiles = counts.setdefault(choice.algorithm, Counter()), cublas_tiles.tiles(plan, choice, device.units)
        if choice.tile is None or choice.algorithm in cublas_tiles.PERSISTENT:
            of["not compared"] += 1
        elif tiles.blocks == blocks:
            of["same"] += 1
        else:
            of["others"] += 1
            print(f"{short_size(scope.sizes)}: {choice}: {tiles.blocks:g} predicted, {blocks} launched")
    print(f"{options.family} on {device.name}\n\n| algorithm | blocks as predicted | others | not compared |")
    print("|---|---|---|---|")
    for algorithm, of in sorted(counts.items()):
        print(f"| {algorithm} | {of['same']} | {of['others']} | {of['not compared']} |")


def launched(space: Space, scopes: Sequence[Scope], device: Device) -> list[int | None]:
    """The blocks of the library's product at each size, by the profiler; None where it has none."""
    calls = [_call(space, scope, device) for scope in scopes]
    for call in calls:  # what is loaded once is loaded here
        call()
    mark = torch.empty(MARK, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for call in calls:
            call()
            mark.fill_(1.0)
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        events = [event for event in json.loads(file.read_text())["traceEvents"] if event.get("cat") == "kernel"]
    found: list[int | None] = []
    here: int | None = None
    for event in sorted(events, key=lambda event: event["ts"]):
        if "FillFunctor" in event["name"]:
            found.append(here)
            here = None
        elif here is None and not any(name in event["name"] for name in BESIDE):
            here = math.prod(event["args"]["grid"])
    return found


def _call(space: Space, scope: Scope, device: Device) -> Callable[[], None]:
    """The product at a size on new arrays, as the library runs it."""
    specs = products.specs(space, scope)
    arrays = [torch.empty(spec.shape, dtype=getattr(torch, spec.element.name), device="cuda") for spec in specs]
    plan = products.product(space, scope)
    launch = None if plan is None else device.product(plan, specs)
    return (lambda: None) if launch is None else lambda: launch.on_arrays(arrays, None, 1.0, 0.0)


if __name__ == "__main__":
    main()
