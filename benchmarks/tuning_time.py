"""The wall time of the command `tune`; if another checkout is named, of both, alternating.

    python benchmarks/tuning_time.py sgemm/13_double_buffered 256 4096 --budget 1 --device cuda
    python benchmarks/tuning_time.py sgemm/09_coarsened_2d 1024 --budget 120 --beside ../earlier

Each run starts a new ledger and a new store. A first, uncounted run of each checkout fills its build cache and Python's
bytecode cache. Prints medians with minimum and maximum, and the memory of the largest process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parents[1]
# Run by another process, so that each measurement has the children of its own.
MEASURED = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "tuner", *sys.argv[1:]], capture_output=True, text=True)
sys.stderr.write(done.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""


def run(checkout: Path, arguments: list[str], cache: Path) -> tuple[float, float]:
    """Seconds, and megabytes of the largest process, of one `tune`."""
    with tempfile.TemporaryDirectory() as folder:
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {
            **inherited,
            "PYTHONPATH": os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")]),
            "TUNER_CACHE": str(cache),
            "TUNER_STATE": f"{folder}/state",
            "TUNER_RESULTS": f"{folder}/results",
        }
        command = [sys.executable, "-c", MEASURED, *arguments]
        began = time.perf_counter()
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr}")
    return seconds, int(done.stdout) / 1000


def main() -> None:
    """Time the checkouts in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("sizes", nargs="+", metavar="size")
    parser.add_argument("--budget", default="1")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="another checkout of this repository")
    given = parser.parse_args()
    checkouts = [HERE, *([given.beside.resolve()] if given.beside else [])]
    options = ["--budget", given.budget, "--device", given.device, "--strategy", "random", "--seed", "1"]
    print("| size | checkout | s: median (least to most) | MB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as cache:
        for size in given.sizes:
            found: dict[Path, list[tuple[float, float]]] = {checkout: [] for checkout in checkouts}
            for number in range(given.runs + 1):
                for position, checkout in enumerate(checkouts):
                    one = run(checkout, [given.kernel, size, *options], Path(cache, str(position)))
                    found[checkout] += [one] if number else []
            for checkout, runs in found.items():
                seconds = [taken for taken, _ in runs]
                span = f"{median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})"
                print(f"| {size} | {checkout.name} | {span} | {max(memory for _, memory in runs):.0f} |", flush=True)


if __name__ == "__main__":
    main()
