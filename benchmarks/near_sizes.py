"""A search with few evaluations, on a device, that knows records of two other sizes.

    python benchmarks/near_sizes.py results/recordings/09_wgmma-4096-NVIDIA_H200.json.gz --near 2048 8192

Tunes the recorded kernel at the sizes of `--near` with `--trials` each, in an empty store, from a copy of the space
file that no shipped record or recording belongs to. Then tunes it at the recorded size with `--budget`; this search
knows what the store has by then. Prints after how many of its evaluations one was within 1 % of the optimum, by the
recorded times, so that a lucky measurement does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import search_time  # beside this file

from tuner.space.config import Config
from tuner.tuning.recordings import recording

SHARE = 0.01


def main() -> None:
    """Tune at three sizes for each recording."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--near", nargs="+", required=True, help="the two sizes")
    parser.add_argument("--trials", type=int, default=60, help="evaluations at each size of --near")
    parser.add_argument("--budget", type=int, default=8)
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    for path in options.recordings:
        data = recording.read(path)
        size = ",".join(f"{name}={value}" for name, value in data.size.items())
        with tempfile.TemporaryDirectory() as name:
            tried = searched(data.kernel, size, options, Path(name))
        times = [data.entries[tuple(config[name] for name in data.parameters)].time_ms for config in tried]
        shares = [0.0 if time_ms is None else data.optimum_ms / time_ms for time_ms in times]
        first = next((n for n, share in enumerate(shares, 1) if share * (1 + SHARE) >= 1), None)
        reached = f"after {first}" if first else f"not within {len(shares)}"
        print(f"{path.name}: within 1 % {reached}; the best had {max(shares):.2%} of the optimum's speed", flush=True)


def searched(kernel: str, size: str, options: argparse.Namespace, folder: Path) -> list[Config]:
    """The configurations that the last search tried, in their order."""
    file = search_time.alone(search_time.ROOT / f"spaces/{kernel}.yaml", folder)
    environment = {**os.environ, "TUNER_STATE": f"{folder}/state", "TUNER_RESULTS": f"{folder}/results"}
    environment["PYTHONPATH"] = os.pathsep.join([str(search_time.ROOT), os.environ.get("PYTHONPATH", "")])

    def tune(*words: str) -> str:
        command = [sys.executable, "-m", "tuner", *words, "--device", options.device]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{shlex.join(command)}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
        return done.stdout

    for near in options.near:
        tune(str(file), near, "--budget", str(options.trials))
    tune(str(file), size, "--budget", str(options.budget))
    trials = json.loads(tune("history", str(file), size, "--all", "--json"))["trials"]
    return [trial["config"] for trial in trials]


if __name__ == "__main__":
    main()
