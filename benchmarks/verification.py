"""What verifying costs beside running: host time of one verification, and of one run of the kernel.

    python benchmarks/verification.py sgemm/07_tiled_1xn 8192 --device cuda

Takes the configuration that the look-up gives. A verification poisons the outputs, runs the kernel once, compares every
output element with the reference, and looks at guards and inputs.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

from tuner import devices, launcher
from tuner.measure.benchmark import Bench
from tuner.space import catalog, operation
from tuner.space.model import Scope


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("size")
    parser.add_argument("--device", default=None)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    space = catalog.load(options.kernel)
    device = devices.open(devices.for_space(space, options.device))
    scope = Scope(
        operation.parse_size(options.size, space.operation), space.operation.options, device.language, device.limits
    )
    bench = Bench(device, space, scope)
    call, _ = bench.prepare(launcher.find(space, scope, device).config)

    def took(run: object) -> float:
        began = time.perf_counter()
        run()  # type: ignore[operator]
        device.synchronize()
        return (time.perf_counter() - began) * 1e3

    took(call)
    runs = [took(call) for _ in range(options.rounds)]
    verifications = [took(lambda: bench.workbench.verify(call)) for _ in range(options.rounds)]
    run, whole = median(runs), median(verifications)
    print(f"{space.name} at {options.size} on {device.name}: a run {run:.2f} ms, a verification {whole:.2f} ms")
    print(f"verifying costs {whole - run:.2f} ms besides the one run that it makes")


if __name__ == "__main__":
    main()
