"""The cost of verifying: host time of one verification, and of one run of the kernel.

    python benchmarks/verification.py sgemm/07_tiled_1xn 8192 --device cuda

It uses the configuration of the look-up. A verification poisons the outputs, runs the kernel once, compares every
output element with the reference, and checks the guards and the inputs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

from tuner import devices
from tuner.catalog import catalog
from tuner.launch import launcher
from tuner.measure.benchmark import Bench
from tuner.space import parsing
from tuner.space.scope import Scope


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("size")
    parser.add_argument("--device", default=None)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    space = catalog.load(options.kernel)
    device = devices.open_device(devices.for_space(space, options.device))
    sizes = parsing.parse_size(options.size, space.operation)
    scope = Scope(sizes, space.operation.options, device.language, device.limits)
    bench = Bench(device, space, scope)
    call, _ = bench.prepare(launcher.find(space, scope, device).config)

    def milliseconds(work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        device.synchronize()
        return (time.perf_counter() - start) * 1e3

    milliseconds(call)
    run = median([milliseconds(call) for _ in range(options.rounds)])
    verification = median([milliseconds(lambda: bench.workbench.verify(call)) for _ in range(options.rounds)])
    print(f"{space.name} at {options.size} on {device.name}: a run {run:.2f} ms, a verification {verification:.2f} ms")
    print(f"verifying costs {verification - run:.2f} ms besides its one run")


if __name__ == "__main__":
    main()
