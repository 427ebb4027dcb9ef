"""How often the same configuration wins with Kernel Tuner: the small spaces of verdicts.py, tuned again and again.

    python benchmarks/kernel_tuner_repeats.py --device opencl --repeats 20 --minutes 5
    python benchmarks/kernel_tuner_repeats.py --device cuda gallery/transpose sgemm/07_tiled_1xn

Kernel Tuner measures all configurations in a process of its own each time, without a cache of its times, and takes the
mean of seven runs of each, as is its default. It compiles the text that `tune` compiles for each configuration, and
launches it with the same grid and block, so verdicts.py shows what `tune` does with the same kernels. (Of a kernel of
two steps, it measures the first one.) For each kernel, the table has how often the most frequent winner won, how many
configurations won at all, the gain of the best mean over the second best, and the seconds of a process: their medians.
The next run is of the kernel with the fewest so far. With `--keep FILE`, runs are noted there, and those that it notes
are counted, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import verdicts

from tuner.catalog import catalog
from tuner.space import chosen_types, operation
from tuner.space.config import Config
from tuner.space.instance import Instance
from tuner.space.sources.rendering import render

BACKENDS = {"opencl": "OpenCL", "cuda": "CuPy"}
NUMBER, BLOCK = "number", ("block_size_x", "block_size_y", "block_size_z")  # Kernel Tuner's parameters
SEED = 49


def main() -> None:
    """Tune and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", help="default: all for the kind of device")
    parser.add_argument("--device", choices=BACKENDS, default="opencl")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after so many")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="note the runs there, and count all that it notes")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)  # one process, which prints its winner
    options = parser.parse_args()
    kernels = options.kernels or [*verdicts.KERNELS[options.device]]
    if options.once:
        print(json.dumps(tuned(kernels[0], options.device)))
        return
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder:
        keep: Path = options.keep or Path(folder, "runs.jsonl")
        keep.touch()
        runs = [json.loads(line) for line in keep.read_text().splitlines()]
        while time.monotonic() < end:
            counts = {kernel: sum(run["kernel"] == kernel for run in runs) for kernel in kernels}
            kernel = min(counts, key=counts.__getitem__)
            if counts[kernel] >= options.repeats:
                break
            command = [sys.executable, __file__, kernel, "--device", options.device, "--once"]
            began = time.monotonic()
            line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
            runs.append({**json.loads(line), "kernel": kernel, "seconds": time.monotonic() - began})
            with keep.open("a") as file:
                file.write(json.dumps(runs[-1]) + "\n")
    print(f"{'kernel':28} {'same winner':>12} {'winners':>8} {'gain':>6} {'seconds':>8}")
    for kernel in kernels:
        if own := [run for run in runs if run["kernel"] == kernel]:
            winners = Counter(run["winner"] for run in own)
            same = f"{max(winners.values())}/{len(own)}"
            gain, seconds = (median(run[name] for run in own) for name in ("gain", "seconds"))
            print(f"{kernel:28} {same:>12} {len(winners):>8} {gain:>6.1%} {seconds:>8.1f}")


def tuned(kernel: str, device: str) -> dict[str, Any]:
    """The number of the configuration that Kernel Tuner finds the fastest, and the gain over the next one."""
    import kernel_tuner  # only this process needs it

    size = verdicts.KERNELS[device][kernel]
    scope = verdicts._scope(catalog.load(kernel), size, device)
    space = verdicts._small(kernel, scope)
    rows = (dict(zip(space.parameters, row, strict=True)) for row in itertools.product(*space.parameters.values()))
    configs: list[Config] = [config for config in rows if space.valid(config, scope)]
    instances = [Instance(space, config, scope) for config in configs]
    steps = [render(instance)[0] for instance in instances]
    blocks = [step.geometry.block for step in steps]
    values = {name: sorted({block[axis] for block in blocks}) for axis, name in enumerate(BLOCK)}
    results, _ = kernel_tuner.tune_kernel(
        steps[0].kernel,
        lambda parameters: steps[parameters[NUMBER]].source.text,
        lambda parameters: steps[parameters[NUMBER]].geometry.grid,
        _arguments(instances, steps[0].arguments),
        {NUMBER: [*range(len(steps))], **values},
        grid_div_x=[],
        grid_div_y=[],
        grid_div_z=[],
        restrictions=[f"({', '.join(BLOCK)}) == {blocks}[{NUMBER}]"],
        lang=BACKENDS[device],
        compiler_options=[*steps[0].source.options],
        defines={},
        quiet=True,
    )
    times = sorted((float(run["time"]), run[NUMBER]) for run in results if isinstance(run["time"], float))
    return {"winner": times[0][1], "gain": times[1][0] / times[0][0] - 1, "times": [*map(list, times)]}


def _arguments(instances: list[Instance], names: tuple[str, ...]) -> list[Any]:
    """What the kernel takes. Inputs hold random numbers; scratch memory has room for every configuration."""
    draw, first = np.random.default_rng(SEED), instances[0]
    op, scope = first.space.operation, first.scope
    scalars = {a.name: value for a, value in zip(op.by_value, operation.scalars(op, scope), strict=True)}
    found: list[Any] = []
    for name in names:
        if name in scalars:
            found.append(scalars[name])
            continue
        argument, nbytes = first.argument(name), max(each.nbytes(name) for each in instances)
        dtype = chosen_types.dtype(argument, scope).numpy
        if argument.role != "in":
            found.append(np.zeros(nbytes // dtype.itemsize, dtype))
        elif dtype.kind == "f":
            found.append(draw.standard_normal(nbytes // dtype.itemsize).astype(dtype))
        else:
            found.append(np.frombuffer(draw.bytes(nbytes), dtype).copy())
    return found


if __name__ == "__main__":
    main()
