"""How near the best of all configurations a search comes in a part of the time that all of them take.

    python benchmarks/search_time.py spaces/triton/matmul.yaml 2048x2048x2048 --seeds 1 2 3
    python benchmarks/search_time.py mine.yaml 4096 --device opencl --part 0.2

Each run of `tune` is a process of its own, with an empty store and an empty ledger, and with a copy of the space file
that no shipped record belongs to. Its time is that of the process. First `tune` tries all configurations; then it gets
a budget, once for each seed, so that the process should end after `--part` of that time. `--beside` is what a process
takes besides its budget. All runs begin with an empty cache of builds; with `--cached`, each has those of a run of all
configurations before. At the end, all choices are measured in the same rounds, one beside the other.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 3.0  # for the rounds at the end
Config = dict[str, Any]


def alone(file: Path, folder: Path) -> Path:
    """A copy of a space file in `folder`, with absolute paths."""
    data = yaml.safe_load(file.read_text())

    def absolute(name: str) -> str:
        """The path of a file that the space file names: beside it, or in the folder of shipped kernels."""
        name, colon, function = name.partition(":")
        beside = (file.parent / name).resolve()
        found = beside if beside.exists() else ROOT / "kernels" / file.resolve().parent.name / name
        return f"{found}{colon}{function}"

    data["source"] = absolute(data.get("source", f"{file.stem}.{'py' if 'triton' in data['languages'] else 'cu'}"))
    operation = data["operation"]
    if isinstance(operation, str):
        data["operation"] = absolute(operation)
    elif isinstance(reference := operation.get("reference"), dict) and "python" in reference:
        reference["python"] = absolute(reference["python"])
    copy = folder / file.name
    copy.write_text(yaml.safe_dump(data, sort_keys=False))
    return copy


def tuned(file: Path, size: str, more: list[str], cache: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of a process of `tune` from an empty store and ledger, and its answer."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TUNER_CACHE": str(cache), "TRITON_CACHE_DIR": str(cache / "triton")}
        environment |= {"TUNER_STATE": f"{folder}/state", "TUNER_RESULTS": f"{folder}/results"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "tuner", str(file), size, "--json", *more]
        began = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(done.stderr)
    return seconds, json.loads(done.stdout)


def beside(file: Path, size: str, device_id: str, configs: list[Config]) -> list[tuple[float, float]]:
    """The median time in ms and the spread of each configuration, measured in the same rounds."""
    from tuner import devices
    from tuner.catalog import catalog
    from tuner.measure.benchmark import Bench
    from tuner.space import chosen_types, parsing

    space, device = catalog.load(str(file)), devices.open_device(device_id)
    op = space.operation
    types = chosen_types.defaults(op)
    scope = op.scope(parsing.parse_size(size, op), op.options, device.language, device.limits, types)
    return [(final.time_ms, final.spread) for final in Bench(device, space, scope).finals(configs, SECONDS).candidates]


def main() -> None:
    """Try all, search, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a space file")
    parser.add_argument("size")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--part", type=float, default=0.2, help="of the time of all configurations")
    parser.add_argument("--beside", type=float, default=2.0, help="seconds of a process besides its budget")
    parser.add_argument("--budgets", nargs="+", help="instead: a budget for each seed")
    parser.add_argument("--cached", action="store_true", help="with all builds in the cache")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{given.file.stem} {given.size}, {cores} cores, builds {'cached' if given.cached else 'made'}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file, cache, device = alone(given.file, Path(folder)), Path(folder, "cache"), ["--device", given.device]

        def run(name: str, more: list[str]) -> tuple[float, Config]:
            if not given.cached:
                shutil.rmtree(cache, ignore_errors=True)
            seconds, answer = tuned(file, given.size, [*device, *more], cache)
            print(f"  {name:28} {seconds:6.2f} s, {answer['evaluated']} tried", flush=True)
            return seconds, answer["best"]["config"]

        if given.cached:
            run("all, for their builds", [])
        whole, best = run("all", [])
        budget = f"{max(given.part * whole - given.beside, 0.5):.2f}s"
        budgets = given.budgets or [budget] * len(given.seeds)
        runs = [
            run(f"seed {seed}, --budget {budget}", ["--budget", budget, "--seed", str(seed)])
            for seed, budget in zip(given.seeds, budgets, strict=True)
        ]
        times = beside(file, given.size, given.device, [best, *(config for _, config in runs)])
    fastest = min(time_ms for time_ms, _ in times)
    print(f"  the best of all: {times[0][0]:.5g} ms, {fastest / times[0][0]:.2%} of the fastest choice's speed")
    for seed, (seconds, config), (time_ms, spread) in zip(given.seeds, runs, times[1:], strict=True):
        speed = f"{times[0][0] / time_ms:.2%} of its speed (spread {spread:.1%})"
        print(f"  seed {seed}: {seconds / whole:.3f} of the time, {time_ms:.5g} ms, {speed}: {json.dumps(config)}")


if __name__ == "__main__":
    main()
