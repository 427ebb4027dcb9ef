"""Memory of the process that holds the device, every hundred configurations.

    python benchmarks/memory.py sgemm/07_tiled_1xn 512 --device cuda --configurations 1000

Measures the valid configurations of the space one after another, as the worker does, and starts over after the last.
Prints the resident memory of the process and, on cuda, the free memory of the device.
"""

from __future__ import annotations

import argparse
import itertools
import resource
from pathlib import Path

from tuner import devices
from tuner.catalog import catalog
from tuner.children.forks import Forks
from tuner.measure.benchmark import Bench
from tuner.search.enumeration import enumerated
from tuner.space import parsing
from tuner.space.scope import Scope


def resident() -> float:
    """Megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("size")
    parser.add_argument("--device", default=None)
    parser.add_argument("--configurations", type=int, default=1000)
    options = parser.parse_args()
    space = catalog.load(options.kernel)
    device = devices.open_device(devices.for_space(space, options.device))
    sizes = parsing.parse_size(options.size, space.operation)
    scope = Scope(sizes, space.operation.options, device.language, device.limits)
    if device.runs_in_process:
        device.isolation = Forks(begin=device.adopt)
    bench = Bench(device, space, scope)
    valid = enumerated(space, scope).configs()
    for number, config in enumerate(itertools.islice(itertools.cycle(valid), options.configurations), 1):
        bench.measure(config, best=0.0 if number > 1 else None)
        if number % 100 == 0:
            free = device.free_memory()
            on_device = f", {free / 1e6:.0f} MB free on the device" if free is not None else ""
            print(f"{number} configurations: {resident():.0f} MB resident{on_device}")


if __name__ == "__main__":
    main()
