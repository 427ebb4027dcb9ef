"""The time of a loop of empty launches, beside that of its CUDA graph.

    python benchmarks/loops.py --launches 55 200 2000

A loop is timed as `tune` times it, and as a graph that is launched many times in a row. The two should differ by 5 % at
most. Needs an NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

import tuner
from tuner import devices
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.cuda.driver.context import Context, current_context
from tuner.devices.cuda.driver.resources import Graph, Stream
from tuner.measure.benchmark import Bench

CODE = 'extern "C" __global__ void nothing(int *y, int number) { if (number < 0) *y = 0; }\n'
SPACE = """\
title: Launches that do nothing
operation:
  sizes: {launches: }
  arguments:
    - {name: y, dtype: int32, shape: [1], role: inout}
    - {name: number, dtype: int32}
  reference: y
source: nothing.cu
steps:
  - repeat: {number: {from: 1, to: launches}}
    steps: [{kernel: nothing, grid: [1], block: [threads]}]
parameters: {threads: [32]}
"""
REPEATS = 30


def tuned_ms(device: Device, file: Path, launches: int) -> float:
    """The median time of the loop as `tune` measures it."""
    space = catalog.load(str(file))
    scope = space.operation.scope({"launches": launches}, {}, device.language, device.limits, {})
    outcome = Bench(device, space, scope).measure({"threads": 32})
    if outcome.failure is not None:
        raise SystemExit(f"{launches} launches: {outcome.failure}: {outcome.log}")
    return median(outcome.times)


def graph_ms(device: Device, file: Path, launches: int) -> float:
    """The time of a launch of the loop's graph, of REPEATS in a row."""
    kernel = tuner.load(file, launches, device=device)
    context = Context(current_context() or 0, 0)  # that of the device, which this thread has opened
    stream, y = Stream(context), device.upload(np.zeros(1, np.int32))
    work = kernel.program.work()
    graph = Graph(context, stream, device.bind(work, [y.handle], stream.handle.value), "capturing")
    timer = device.timer()
    graph.launch()
    device.synchronize()
    timer.start()
    for _ in range(REPEATS):
        graph.launch()
    timer.stop()
    device.synchronize()
    return timer.milliseconds() / REPEATS


def main() -> None:
    """Prints a line for each number of launches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, nargs="+", default=[55, 200, 2000])
    arguments = parser.parse_args()
    device = devices.open_device("cuda")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nothing.yaml"
        file.write_text(SPACE, encoding="utf-8")
        file.with_suffix(".cu").write_text(CODE, encoding="utf-8")
        print(f"{device.name}\nlaunches  as tune times it  as a graph")
        for launches in arguments.launches:
            mine, graph = tuned_ms(device, file, launches), graph_ms(device, file, launches)
            print(f"{launches:8}  {mine:12.4f} ms  {graph:8.4f} ms ({mine / graph - 1:+.1%})")


if __name__ == "__main__":
    main()
