"""How much times of one process say of the next, and those of a search of the finals.

    python benchmarks/sittings.py --device opencl --processes 10
    python benchmarks/sittings.py --device host --processes 20 --keep times.jsonl

The small spaces of verdicts.py are measured whole in `--processes` fresh processes: each configuration as in a search,
then all together in rounds, as in the finals. For each kernel, the table has, over its eight fastest configurations:

- search: the median time of a configuration in the search over the shortest of all in the same process: the median, and
  the largest but for a twentieth;
- within, between: the relative standard deviation of the median ratio, over the rounds, of a configuration's time to
  that of the fastest. `within` is what the rounds of one process let expect, `between` that of several processes.
  If `between` is larger, an interval from one process is too narrow.

With `--keep FILE`, times are noted there, and those that it notes are counted, too. With `--small-pages`, arrays lie in
small pages, wherever the system puts them: on OpenCL devices that are CPUs, and large arrays on `host`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median, quantiles, stdev
from typing import Any
from unittest import mock

import verdicts

from tuner import devices
from tuner.catalog import catalog
from tuner.devices import pages
from tuner.devices.base import Array
from tuner.measure.benchmark import Bench
from tuner.space.texts import config_text

TOP = 8
ROUNDS, SECONDS = 24, 3.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", help="default: all for the kind of device")
    parser.add_argument("--device", default="opencl")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="note the times there, and count all that it notes")
    parser.add_argument("--small-pages", action="store_true")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)  # one process, which prints its times
    options = parser.parse_args()
    kernels = options.kernels or [*verdicts.KERNELS[devices.split(options.device)[0]]]
    if options.once:
        small = mock.patch.object(pages, "mapped", functools.partial(_in_small_pages, pages.mapped))
        with small if options.small_pages else contextlib.nullcontext():
            print(json.dumps(_times(kernels[0], options.device)))
        return
    with tempfile.TemporaryDirectory() as folder:
        keep: Path = options.keep or Path(folder, "times.jsonl")
        for _, kernel in itertools.product(range(options.processes), kernels):
            command = [sys.executable, __file__, kernel, "--device", options.device, "--once"]
            command += ["--small-pages"] * options.small_pages
            line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            with keep.open("a") as file:
                file.write(line)
        noted = [json.loads(line) for line in keep.read_text().splitlines()]
    print(f"{'kernel':26} processes  search: median, 95 %  within  between")
    for kernel in kernels:
        if len(runs := [each for each in noted if (each["kernel"], each["device"]) == (kernel, options.device)]) > 2:
            print(f"{kernel:26} {len(runs):9}  {_row(runs)}")


def _in_small_pages(mapped: Callable[..., Array], size: int, huge: bool) -> Array:
    return mapped(size, huge=False)


def _times(kernel: str, device: str) -> dict[str, Any]:
    """The times of all right configurations in a search and in rounds, in ms, by the text of the configuration."""
    size = verdicts.KERNELS[devices.split(device)[0]][kernel]
    opened = devices.open_apart(device)
    scope = verdicts._scope(catalog.load(kernel), size, device)
    space = verdicts._small(kernel, scope)
    rows = (dict(zip(space.parameters, row, strict=True)) for row in itertools.product(*space.parameters.values()))
    bench = Bench(opened, space, scope)
    outcomes = [(config, bench.measure(config)) for config in rows if space.valid(config, scope)]
    right = [(config, outcome) for config, outcome in outcomes if outcome.failure is None]
    finals = bench.finals([config for config, _ in right], SECONDS, with_library=False, most_rounds=ROUNDS)
    opened.close()
    times = {config_text(config): final.times for (config, _), final in zip(right, finals.candidates, strict=True)}
    return {
        "kernel": kernel,
        "device": device,
        "search": {config_text(config): outcome.times for config, outcome in right},
        "finals": times,
    }


def _row(runs: list[dict[str, Any]]) -> str:
    names = [name for name in runs[0]["finals"] if all(run["finals"].get(name) for run in runs)]
    overall = {name: median(median(run["finals"][name]) for run in runs) for name in names}
    fastest, *others = sorted(overall, key=overall.__getitem__)[:TOP]
    search = [
        median(run["search"][name]) / min(median(times) for times in run["search"].values() if times)
        for run in runs
        for name in (fastest, *others)
    ]
    within, between = [], []
    for name in others:
        logs = [_logs(run["finals"][name], run["finals"][fastest]) for run in runs]
        between.append(stdev(map(median, logs)))
        within.append(mean(_error(each) for each in logs))
    return f"{median(search):14.2f} {quantiles(search, n=20)[-1]:6.2f}  {median(within):6.1%}  {median(between):7.1%}"


def _logs(times: list[float], others: list[float]) -> list[float]:
    return [math.log(time_ms / other) for time_ms, other in zip(times, others, strict=True)]


def _error(logs: list[float]) -> float:
    """The standard error of the median of values with this interquartile range, if they are normally distributed."""
    low, _, high = quantiles(logs, n=4)
    return 0.93 * (high - low) / math.sqrt(len(logs))


if __name__ == "__main__":
    main()
