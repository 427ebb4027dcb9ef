"""Which configurations have equal bits, and what the digests that tell it cost, as a share of the time of tuning.

    python benchmarks/bits.py --device opencl

Random configurations of some kernels are built and measured as in a search. Per configuration, the table has the
seconds of its build, those of its verification and timed runs, and those of the digests among the latter: their number
times what one takes by itself. The share is that of all digests in builds and runs. Then it has the number of
configurations that were right, of their classes of equal bits, of the configurations in the largest class, and of those
whose bits differ from run to run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from statistics import median

import numpy as np

from tuner import devices
from tuner.catalog import catalog
from tuner.measure import search_measurement
from tuner.measure.benchmark import Bench
from tuner.measure.results import BUILD, Outcome
from tuner.measure.verify.bits import RunBits
from tuner.search.listing import listed
from tuner.space import parsing
from tuner.space.scope import Scope
from tuner.space.values import bit_classes

REPEATS, COUNT = 21, "count"
ON_PROCESSORS = {
    "host": {"sgemm/00_host_simple": "256", "sgemm/01_host_blocked": "512", "gallery/convolution_host": "1024x1024"},
    "opencl": {
        "gallery/vector_add": "4194304",
        "gallery/transpose": "2048",
        "gallery/sum": "4194304",
        "gallery/histogram": "1048576",
        "gallery/convolution": "512x512",
        "sgemm/07_tiled_1xn": "256",
        "gallery/softmax": "1024x1024",
    },
}
ON_GPUS = {
    "gallery/vector_add": "67108864",
    "gallery/transpose": "8192",
    "gallery/sum": "67108864",
    "gallery/histogram": "67108864",
    "gallery/convolution": "4096x4096",
    "sgemm/07_tiled_1xn": "4096",
    "sgemm/12_warptiled": "1024",
    "sgemm/16_stream_k": "1024",
    "gallery/softmax": "4096x4096",
    "gallery/scan": "16777216",
    "gallery/layer_norm": "4096x4096",
}


class Counted(RunBits):
    """Keeps the number of digests beside them, because they may be taken in another process."""

    def add(self, inputs: str, outputs: list[tuple[str, int, int]]) -> None:
        super().add(inputs, outputs)
        self.digests[COUNT] = str(int(self.digests.get(COUNT, "0")) + 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="opencl")
    parser.add_argument("--configurations", type=int, default=8)
    options = parser.parse_args()
    os.environ["TUNER_CACHE"] = tempfile.mkdtemp()
    kind = devices.split(options.device)[0]
    vars(search_measurement)["RunBits"] = Counted
    print(f"{'kernel':28} {'build s':>9} {'runs s':>9} {'digests s':>10} {'share':>7}  right classes largest vary")
    sums = [0.0, 0.0, 0.0]
    for kernel, size in ON_PROCESSORS.get(kind, ON_GPUS).items():
        space, device = catalog.load(kernel), devices.open_device(options.device)
        sizes = parsing.parse_size(size, space.operation)
        scope = Scope(sizes, space.operation.options, device.language, device.limits)
        bench, pool = Bench(device, space, scope), listed(space, scope)
        count = min(options.configurations, len(pool))
        chosen = np.random.default_rng(49).choice(len(pool), count, replace=False)
        outcomes = [bench.measure(pool.config(int(row))) for row in chosen]
        found = [_cost(bench, outcome) for outcome in outcomes]
        build, runs, added = (sum(each[column] for each in found) / len(found) for column in range(3))
        line = f"{kernel:28} {build:9.4f} {runs:9.4f} {added:10.5f} {added / (build + runs):7.2%}"
        print(f"{line}  {_classes(outcomes)}", flush=True)
        sums = [total + value for total, value in zip(sums, (build, runs, added), strict=True)]
    print(f"{'all':28} {sums[0]:9.4f} {sums[1]:9.4f} {sums[2]:10.5f} {sums[2] / (sums[0] + sums[1]):7.2%}")


def _classes(outcomes: Sequence[Outcome]) -> str:
    """How many configurations were right, their classes, the configurations in the largest, and those that vary."""
    bits = [{name: each for name, each in o.bits.items() if name != COUNT} for o in outcomes if o.failure is None]
    sizes = [len(each) for each in bit_classes.classes(dict(enumerate(bits)))]
    return f"{len(bits):5} {len(sizes):7} {max(sizes, default=0):7} {sum(map(bit_classes.do_vary, bits)):4}"


def _cost(bench: Bench, outcome: Outcome) -> tuple[float, float, float]:
    """The seconds of the build, of verification and runs, and of the digests among these."""
    runs = sum(seconds for stage, seconds in outcome.seconds.items() if stage != BUILD)
    count = outcome.bits.get(COUNT, "0") if outcome.failure else outcome.bits[COUNT]
    return outcome.seconds.get(BUILD, 0.0), runs, int(count) * _digest_seconds(bench)


def _digest_seconds(bench: Bench) -> float:
    """The seconds of the digests of all outputs, once."""
    calls, times = [*bench.workbench._layouts[0].digests.values()], list[float]()
    for _ in range(REPEATS):
        bench.device.synchronize()
        began = time.perf_counter()
        for call in calls:
            call()
        bench.device.synchronize()
        times.append(time.perf_counter() - began)
    return median(times)


if __name__ == "__main__":
    main()
