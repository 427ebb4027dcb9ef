"""How often the same configuration wins: small kernels tuned again and again by Kernel Tuner and by tuner.

    python benchmarks/kernel_tuner_repeats.py
    python benchmarks/kernel_tuner_repeats.py --times 20 --kernels add

Both measure all configurations of the same text in OpenCL, on the same device, each time in a process of its own, from
nothing. Kernel Tuner takes the mean of its seven runs of each; `tune` ends with its finals. For each kernel and tuner,
the table has how often the most frequent winner won, how many configurations won at all, and the median seconds of a
process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

ADD = """\
__kernel void add(__global float *c, __global const float *a, __global const float *b, int n) {
    int i = get_group_id(0) * block_size_x + get_local_id(0);
    if (i < n) c[i] = a[i] + b[i];
}
"""
PRODUCT = """\
__kernel void product(__global float *c, __global const float *a, __global const float *b, int n) {
    int x = get_group_id(0) * block_size_x + get_local_id(0), y = get_group_id(1) * block_size_y + get_local_id(1);
    float sum = 0;
    if (x >= n || y >= n) return;
    for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}
"""
KERNELS: dict[str, dict[str, Any]] = {
    "add": {
        "text": ADD,
        "n": 1 << 20,
        "shape": ["n"],
        "reference": "a + b",
        "tolerance": "4 * epsilon",
        "parameters": {"block_size_x": [32 * i for i in range(1, 33)]},
        "block": ["block_size_x"],
    },
    "product": {
        "text": PRODUCT,
        "n": 256,
        "shape": ["n", "n"],
        "reference": "a @ b",
        "tolerance": "64 * n * epsilon",
        "parameters": {"block_size_x": [8, 16, 32, 64, 128], "block_size_y": [1, 2, 4, 8, 16]},
        "block": ["block_size_x", "block_size_y"],
    },
}
AXES = "xyz"


def main() -> None:
    """Tune and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=[*KERNELS])
    parser.add_argument("--one", nargs=2, metavar=("TUNER", "KERNEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        tuner, name = options.one
        print(json.dumps(by_kernel_tuner(name) if tuner == "Kernel Tuner" else by_tuner(name)))
        return
    print(f"{'kernel':10} {'tuner':14} same winner  winners  seconds")
    for name in options.kernels:
        found: dict[str, list[tuple[str, float]]] = {"Kernel Tuner": [], "tuner": []}
        for _ in range(options.times):  # in turn, so that what the machine does meanwhile is the same for both
            for tuner, runs in found.items():
                runs.append(_tuned(tuner, name))
        for tuner, runs in found.items():
            winners = Counter(winner for winner, _ in runs)
            same = f"{max(winners.values())}/{len(runs)}"
            seconds = median(each for _, each in runs)
            print(f"{name:10} {tuner:14} {same:>11} {len(winners):8} {seconds:8.1f}", flush=True)


def _tuned(tuner: str, name: str) -> tuple[str, float]:
    """The best configuration as text, and the seconds of the process."""
    with tempfile.TemporaryDirectory() as folder:
        own = {**os.environ, "TUNER_STATE": f"{folder}/state", "TUNER_RESULTS": f"{folder}/results"}
        command = [sys.executable, str(Path(__file__).resolve()), "--one", tuner, name]
        began = time.monotonic()
        done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[-1], time.monotonic() - began


def by_kernel_tuner(name: str) -> dict[str, Any]:
    """The best configuration by Kernel Tuner."""
    import kernel_tuner  # only this process needs it
    import numpy as np

    own = KERNELS[name]
    n, draw = own["n"], np.random.default_rng(49)
    shape = [n for _ in own["shape"]]
    a, b = (draw.standard_normal(shape, np.float32) for _ in range(2))
    _, env = kernel_tuner.tune_kernel(
        name,
        own["text"],
        tuple(shape),
        [np.zeros_like(a), a, b, np.int32(n)],
        own["parameters"],
        lang="OpenCL",
        answer=[a + b if name == "add" else a @ b, None, None, None],
        atol=1e-3,
    )
    return {parameter: env["best_config"][parameter] for parameter in own["parameters"]}


def by_tuner(name: str) -> dict[str, Any]:
    """The best configuration by `tuner.tune`, all of the space."""
    import tuner

    own = KERNELS[name]
    Path(f"{name}.cl").write_text(own["text"])
    space = {
        "title": name,
        "operation": {
            "sizes": {"n": own["n"]},
            "extent": own["shape"],
            "arguments": [
                *({"name": each, "dtype": "float32", "shape": own["shape"], "role": role} for each, role in ROLES),
                {"name": "n", "dtype": "int32"},
            ],
            "reference": own["reference"],
            "tolerance": own["tolerance"],
        },
        "kernel": name,
        "languages": ["opencl"],
        "parameters": own["parameters"],
        "grid_divisors": {axis: [block] for axis, block in zip(AXES, own["block"], strict=False)},
        "block": own["block"],
    }
    Path(f"{name}.yaml").write_text(json.dumps(space))  # JSON is YAML
    best = tuner.tune(f"{name}.yaml", own["n"], device="opencl", progress=False).best
    assert best is not None
    return dict(best)


ROLES = (("c", "out"), ("a", "in"), ("b", "in"))

if __name__ == "__main__":
    main()
