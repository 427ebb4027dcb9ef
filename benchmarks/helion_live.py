"""Helion's search and tuner's on a GPU: the same kernel in Triton, the same configurations, the same time.

    python benchmarks/helion_live.py --kernel matmul --seconds 15 --seeds 1 2 3

Needs an NVIDIA GPU, torch, Triton and helion. Each run is a process of its own with empty caches: a script that calls
`helion.autotuner.autotune` with `autotune_budget_seconds`, `tune KERNEL` with `--budget SECONDS`, and `tune KERNEL`
with as many configurations as Helion has launched. Helion compiles one configuration after the other: it builds ahead
only what its own language has written.

Prints each run as it ends. After each seed, all choices so far are measured in the same rounds, one beside the other:
for each choice its time, and how far it is from the fastest. `--log FILE` takes the choices and times as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helion_search  # beside this file, as the others
import search_time
import triton_repeats
import triton_tuning

Config = dict[str, Any]


def choose(kernel: str, algorithm: str, seconds: int, seed: int) -> None:
    """Print how many configurations Helion's algorithm has launched, and its choice."""
    import torch
    from helion.autotuner import autotune

    space, scope, (default,) = triton_tuning.chosen(kernel, 1)
    function, values = triton_tuning.jit_of(kernel), triton_tuning.arguments(space, scope)
    names = space.names(default, scope)
    given = {*default, *(argument.name for argument in space.operation.arguments)}
    constants = {name: names[name] for name in function.arg_names if name not in given}
    launched = set[str]()

    def compile_of(config: Any) -> Any:
        own = dict(config.config)
        grid = space.steps[0].blocks({**space.names(own, scope), **own})

        def call(*arguments: Any) -> Any:
            launched.add(str(own))
            function[grid](*arguments, **own, **constants)
            return arguments[0]  # the output, which Helion compares

        return call

    name, options = helion_search.ALGORITHMS[algorithm]
    best = autotune(
        {name: helion_search.fragment(values, default[name]) for name, values in space.parameters.items()},
        compile_of,
        values,
        algorithm=name,
        device=torch.device("cuda"),
        autotune_random_seed=seed,
        autotune_budget_seconds=seconds,
        autotune_progress_bar=False,
        autotune_config_filter=lambda config: config if space.valid(dict(config.config), scope) else None,
        **options,
    )
    print(json.dumps([len(launched), dict(best.config)]))


def run(command: list[str], folder: str) -> tuple[float, str]:
    """The wall time of a process with empty caches, and its output."""
    environment = {**os.environ, "TUNER_CACHE": f"{folder}/cache", "TUNER_STATE": f"{folder}/state"}
    environment |= {"TRITON_CACHE_DIR": f"{folder}/triton", "TUNER_RESULTS": f"{folder}/results"}
    environment["PYTHONPATH"] = os.pathsep.join([str(triton_tuning.ROOT), os.environ.get("PYTHONPATH", "")])
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return time.perf_counter() - began, done.stdout


def runs(kernel: str, algorithm: str, seconds: int, seed: int) -> Iterator[tuple[str, int, float, Config]]:
    """Helion's run, and tuner's in the same time and with as many configurations: whose it is, how many configurations
    it has launched, its wall time in s, and its choice."""
    with tempfile.TemporaryDirectory() as folder:
        own = ["--choose", "--kernel", kernel, "--seconds", str(seconds), "--seeds", str(seed)]
        took, said = run([sys.executable, __file__, *own, "--algorithm", algorithm], folder)
    launched, config = json.loads(said.strip().splitlines()[-1])
    yield algorithm, launched, took, config
    for who, budget in (("tuner", f"{seconds}s"), ("tuner, as many", str(launched))):
        with tempfile.TemporaryDirectory() as folder:
            file = search_time.alone(triton_tuning.ROOT / f"spaces/triton/{kernel}.yaml", Path(folder))
            more = ["--budget", budget, "--seed", str(seed), "--json"]
            took, said = run([sys.executable, "-m", "tuner", str(file), triton_tuning.PROBLEMS[kernel], *more], folder)
        answer = json.loads(said)
        yield who, answer["evaluated"], took, answer["best"]["config"]


def note(file: Path | None, line: dict[str, Any]) -> None:
    """Append a line to the log."""
    if file:
        with file.open("a") as log:
            log.write(json.dumps(line) + "\n")


def main() -> None:
    """Tune by both, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="matmul", choices=list(triton_tuning.PROBLEMS))
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--algorithm", default="helion:lfbo_quick", choices=list(helion_search.ALGORITHMS))
    parser.add_argument("--log", type=Path)
    parser.add_argument("--choose", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.choose:
        choose(given.kernel, given.algorithm, given.seconds, given.seeds[0])
        return
    cores = len(os.sched_getaffinity(0))
    print(f"{given.kernel} {triton_tuning.PROBLEMS[given.kernel]}, {given.seconds} s each, {cores} cores", flush=True)
    choices: list[tuple[str, Config]] = []
    for seed in given.seeds:
        for who, launched, seconds, config in runs(given.kernel, given.algorithm, given.seconds, seed):
            name = f"{who}, seed {seed}"
            print(f"  {name}: {launched} configurations, {seconds:.1f} s", flush=True)
            note(given.log, {"run": name, "configurations": launched, "seconds": seconds, "config": config})
            choices.append((name, config))
        different = [json.loads(text) for text in dict.fromkeys(json.dumps(c, sort_keys=True) for _, c in choices)]
        times = triton_repeats.beside(given.kernel, different)
        fastest = min(time_ms for time_ms, _ in times.values())
        print(f"  after seed {seed}, beside each other:")
        for name, config in choices:
            time_ms, spread = times[tuple(sorted(config.items()))]
            part = f"{fastest / time_ms:.2%} of the fastest"
            print(f"    {name}: {time_ms:.5g} ms (spread {spread:.1%}), {part}: {config}", flush=True)
            note(given.log, {"after": seed, "run": name, "ms": time_ms, "spread": spread})


if __name__ == "__main__":
    main()
