"""How often tuning chooses the same configuration: tunings of small kernels in Triton, each from nothing.

    python benchmarks/triton_repeats.py                # 20 tunings of each by tuner, and by @triton.autotune
    python benchmarks/triton_repeats.py --times 5 --kernels softmax

Needs an NVIDIA GPU, torch and Triton. `tune` runs in a process of its own each time, with an empty store, and takes its
builds from the cache; each `@triton.autotune` is a new one, in one process, whose kernels stay compiled. At the end all
configurations that either has chosen are measured in rounds, one beside the other. A choice counts as equal to the
fastest if its median is within half of the fastest one's spread, its interquartile range.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import triton_tuning  # beside this file

SMALL = {"softmax": "2048x1000", "layer_norm": "2048x1000"}
SECONDS = 3.0  # for the rounds at the end
Chosen = list[tuple[tuple[str, Any], ...]]  # the configuration of each tuning


def ours(kernel: str, most: int, times: int, folder: Path) -> Chosen:
    """The choices of `tune`."""
    file = triton_tuning.as_file(kernel, most, folder)
    command = [sys.executable, "-m", "tuner", str(file), SMALL[kernel], "--fresh", "--json"]
    environment = {**os.environ, "TUNER_CACHE": str(folder / "cache"), "TUNER_STATE": str(folder / "state")}
    environment["PYTHONPATH"] = f"{triton_tuning.ROOT}:{os.environ.get('PYTHONPATH', '')}"
    found = []
    for number in range(times):
        run = [*command, "--results", str(folder / f"results{number}")]
        done = subprocess.run(run, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        found.append(_key(json.loads(done.stdout)["best"]["config"]))
    return found


def theirs(kernel: str, most: int, times: int) -> Chosen:
    """The choices of `@triton.autotune`, from another process, since this one opens the GPU later."""
    command = [sys.executable, __file__, "--choose", kernel, "--most", str(most), "--times", str(times)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [_key(json.loads(line)) for line in done.stdout.strip().splitlines()]


def choose(kernel: str, most: int, times: int) -> None:
    """Print the choice of each new `@triton.autotune`."""
    import triton

    space, scope, configs = triton_tuning.chosen(kernel, most)
    names = space.names(configs[0], scope)
    function, values = triton_tuning.jit_of(kernel), triton_tuning.arguments(space, scope)
    given = {*configs[0], *(argument.name for argument in space.operation.arguments)}
    constants = {name: names[name] for name in function.arg_names if name not in given}
    for _ in range(times):
        tuned = triton.autotune(triton_tuning.listed(configs), key=[])(function)
        tuned[lambda meta: space.steps[0].blocks({**names, **meta})](*values, **constants)
        best = {**tuned.best_config.kwargs}
        options = {name: getattr(tuned.best_config, name) for name in triton_tuning.OPTIONS if name in configs[0]}
        print(json.dumps({**best, **options}))


def beside(kernel: str, configs: list[dict[str, Any]]) -> dict[tuple[tuple[str, Any], ...], tuple[float, float]]:
    """The median time in ms and the spread of each configuration, measured in the same rounds."""
    from tuner import devices
    from tuner.measure.benchmark import Bench

    space, scope, _ = triton_tuning.chosen(kernel, 1)
    device = devices.open_device("cuda:0")
    op = space.operation
    own = op.scope(scope.sizes, scope.options, device.language, device.limits, scope.types)
    finals = Bench(device, space, own).finals(configs, SECONDS)
    return {
        _key(config): (final.time_ms, final.spread) for config, final in zip(configs, finals.candidates, strict=True)
    }


def _key(config: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(config.items()))


def counted(found: Chosen) -> str:
    """The choices, the most frequent first, each with how often it was chosen."""
    return json.dumps([[count, dict(choice)] for choice, count in Counter(found).most_common()])


def told(name: str, found: Chosen, times: dict[tuple[tuple[str, Any], ...], tuple[float, float]]) -> str:
    """A line about the choices of one tuner."""
    counts = Counter(found)
    fastest, spread = min(times.values())
    equal = sum(times[choice][0] <= fastest * (1 + spread / 2) for choice in found)
    worst = max(times[choice][0] for choice in found) / fastest - 1
    (_, most), *_ = counts.most_common(1)
    return (
        f"  {name:17} {len(counts):2} different, one of them {most} of {len(found)} times; equal to the fastest "
        f"{equal} of {len(found)} times; the worst is {worst:.1%} slower"
    )


def main() -> None:
    """Tune again and again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="*", default=list(SMALL), choices=list(SMALL))
    parser.add_argument("--most", type=int, default=12, help="configurations of each kernel")
    parser.add_argument("--times", type=int, default=20, help="tunings by each tuner")
    parser.add_argument("--choose", help=argparse.SUPPRESS)
    given = parser.parse_args()
    triton_tuning.PROBLEMS.update(SMALL)
    if given.choose:
        choose(given.choose, given.most, given.times)
        return
    for kernel in given.kernels:
        print(f"{kernel} {SMALL[kernel]}, at most {given.most} configurations", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            own = ours(kernel, given.most, given.times, Path(folder))
            print("  tuner chose", counted(own), flush=True)  # a run that is cut off has said something
            other = theirs(kernel, given.most, given.times)
            print("  @triton.autotune chose", counted(other), flush=True)
        times = beside(kernel, [dict(choice) for choice in dict.fromkeys([*own, *other])])
        print(told("tuner", own, times))
        print(told("@triton.autotune", other, times), flush=True)


if __name__ == "__main__":
    main()
