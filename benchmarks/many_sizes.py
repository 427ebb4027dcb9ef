"""The time to tune a kernel at several sizes in one run, against one run per size.

    python benchmarks/many_sizes.py sgemm/13_double_buffered --device cuda --budget 3
    python benchmarks/many_sizes.py sgemm/03_naive 64 65 66 67 68 69 70 71 72 73 74 75 --device opencl

Every run is a separate `tune` process with the same seed and budget. Each side has its own cache, ledgers and store,
empty at first and shared by its runs, so that the single runs also find the builds and records of earlier ones. The
last columns compare the best times that both found, in ms.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = ["512", "768", "1024", "1536", "2048", "3000", "128x2048x2048", "2048x128x2048", "512x512x8192", "16x4096x4096",
         "700x900x1100", "4096x1024x1024"]  # fmt: skip


def main() -> None:
    """Run both sides, and print their times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("sizes", nargs="*", default=SIZES)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", default="3")
    parser.add_argument("--most", type=int, help="maximum number of single runs; the total time is extrapolated")
    arguments = parser.parse_args()
    sizes, options = arguments.sizes, ["--device", arguments.device, "--budget", arguments.budget]
    with tempfile.TemporaryDirectory() as folder:
        together_s, answer = _timed(Path(folder) / "together", [arguments.kernel, *sizes, *options])
        together = [result["best"]["time_ms"] for result in answer["results"]]
        print(f"{len(sizes)} sizes in one run: {together_s:.1f} s", flush=True)
        runs = []
        for size in sizes[: arguments.most]:
            runs.append(_timed(Path(folder) / "single", [arguments.kernel, size, *options]))
            print(f"{size} alone: {runs[-1][0]:.1f} s", flush=True)
    single_s = sum(seconds for seconds, _ in runs)
    print(f"{len(runs)} runs: {single_s:.1f} s, {single_s / len(runs):.2f} s each")
    print(f"one run takes {together_s / (single_s / len(runs) * len(sizes)):.0%} of {len(sizes)} runs")
    for size, one, (seconds, answer) in zip(sizes, together, runs, strict=False):
        alone = answer["best"]["time_ms"]
        print(f"{size:>16}  {seconds:6.1f} s  in one run {one:.4f} ms, alone {alone:.4f} ms ({one / alone - 1:+.1%})")


def _timed(folder: Path, arguments: list[str]) -> tuple[float, Any]:
    """The seconds that `tune` takes, and its answer."""
    own = {f"TUNER_{name.upper()}": str(folder / name) for name in ("cache", "state", "results")}
    began = time.perf_counter()
    command = [sys.executable, "-m", "tuner", *arguments, "--json"]
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return time.perf_counter() - began, json.loads(done.stdout)


if __name__ == "__main__":
    main()
