"""The best of a search at each of many sizes, over every kernel of a family that is not far behind.

    python benchmarks/size_searches.py sgemm --sizes benchmarks/sizes/any_size.txt --seconds 20 --into searches

All sizes are searched in one run, like `tune sgemm --sizes FILE --budget 20s` but without finals: the reader of the
results measures them again. Each size gets that many seconds for every kernel that was not far behind in a trial of a
fifth of the time. `--at-once 4` starts four such runs in parallel, each with a quarter of the sizes and of the CPU
cores. On a GPU they take turns measuring; on another device set TUNER_TURNS to a lock file for that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.space import size_lists
from tuner.space.texts import short_size, size_text
from tuner.tuning.crew.crews import Crews
from tuner.tuning.exploration import explored
from tuner.tuning.progress import Quiet
from tuner.tuning.request import UNTUNABLE, CheckedRequest, TuningRequest, requests_at
from tuner.tuning.several.problems import dropped, members, trial_budget
from tuner.tuning.several.table import TrialTable

BEST = 3  # configurations of each kernel at a size
Found = list[tuple[str, dict[str, Any], float]]  # kernels, configurations and times in ms, the best first


def search(family: str, texts: Sequence[str], seconds: float, device: str, file: Path) -> None:
    """Search at these sizes, and write after each what was found at all of them so far."""
    found: dict[str, Found] = {}
    spaces, device_ids, _ = members(family, device)
    template = TuningRequest(family, None, device=device_ids, budget=f"{seconds:g}s")
    progress, history = Quiet(lambda text: None), TrialTable()
    with Crews(progress.noted) as crews:
        for size in size_lists.parse(texts, spaces[0].operation):
            began = time.monotonic()
            requests = requests_at(template, spaces, size.sizes)
            try:
                last_first = dict(reversed(requests.items()))
                gone = dropped(crews, last_first, size.sizes, history, progress, trial_budget(template))
                for name in [name for name in requests if name not in {each.kernel for each in gone}]:
                    with (
                        contextlib.suppress(*UNTUNABLE),
                        explored(crews, CheckedRequest.of(requests[name]), progress) as done,
                    ):
                        history.add(size.sizes, name, done.trials)
            finally:  # what is cut off has found something, too
                found[size_text(size.sizes)] = ranking = _best(history, size.sizes)
                file.write_text(json.dumps(found, indent=1) + "\n")
            took = time.monotonic() - began
            kernels = len({kernel for kernel, _, _ in ranking})
            best = f"{ranking[0][2]:.4g} ms, {ranking[0][0]}" if ranking else "nothing"
            print(f"{short_size(size.sizes)}: {kernels} kernels in {took:.0f} s: {best}", flush=True)


def _best(table: TrialTable, sizes: Mapping[str, int]) -> Found:
    """The best BEST of each kernel."""
    ranking: Found = []
    for (kernel, _), trial in table.ranking(sizes):
        if sum(name == kernel for name, _, _ in ranking) < BEST:
            ranking.append((kernel, dict(trial.config), trial.value or math.nan))
    return ranking


def read(folder: Path, family: str) -> dict[str, Found]:
    """What was found by size, as `size_text` writes it."""
    found: dict[str, Found] = {}
    for file in sorted(folder.glob(f"{family}-*.json")):
        found |= {size: [(k, c, ms) for k, c, ms in rows] for size, rows in json.loads(file.read_text()).items()}
    return found


def run(
    family: str,
    sizes: Sequence[Mapping[str, int]],
    seconds: float,
    device: str,
    into: Path,
    at_once: int = 1,
    limit: float = math.inf,
) -> Iterator[str]:
    """Search in processes of their own, and give a line for each. What is not over after `limit` seconds is cut off."""
    into.mkdir(parents=True, exist_ok=True)
    cores, count = sorted(os.sched_getaffinity(0)), max(1, min(at_once, len(sizes)))
    began, runs = time.monotonic(), list[subprocess.Popen[bytes]]()
    try:
        for number in range(count):
            own = {*cores[number::count]} or {*cores}
            command = [sys.executable, __file__, family, *map(size_text, sizes[number::count]), "--device", device]
            command += ["--seconds", str(seconds), "--file", str(into / f"{family.replace('/', '_')}-{number}.json")]
            with (into / f"{family.replace('/', '_')}-{number}.txt").open("wb") as log:
                # A ledger of its own: what an earlier run has tried would end the search early.
                environment = {**os.environ, "TUNER_STATE": tempfile.mkdtemp()}
                runs.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment))
            with contextlib.suppress(OSError):
                os.sched_setaffinity(runs[-1].pid, own)
        for number, each in enumerate(runs):
            with contextlib.suppress(subprocess.TimeoutExpired):
                left = max(0.0, began + limit - time.monotonic())
                each.wait(left if math.isfinite(left) else None)
            if each.poll() is None:
                for other in runs[number:]:
                    other.send_signal(signal.SIGINT)
            status, took = each.wait(), time.monotonic() - began
            yield f"searched at {len(sizes[number::count])} sizes: exit status {status} after {took:.0f} s"
    finally:
        for each in runs:
            each.kill()


def main() -> None:
    """Search, and print a line for each process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family")
    parser.add_argument("texts", nargs="*", metavar="size", help="for --file: the sizes")
    parser.add_argument("--sizes", help="a file of sizes, or a grid")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each search")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--into", type=Path, default=Path("searches"), help="folder for the results")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--limit", type=float, default=math.inf, help="total seconds")
    parser.add_argument("--file", type=Path, help="search in this process, and write the results to this file")
    options = parser.parse_args()
    if options.file:
        with contextlib.suppress(KeyboardInterrupt):
            search(options.family, options.texts, options.seconds, options.device, options.file)
        return
    operation = members(options.family, options.device)[0][0].operation
    read_of = size_lists.read(options.sizes, operation) if options.sizes else []
    sizes = [size.sizes for size in [*size_lists.parse(options.texts, operation), *read_of]]
    for text in run(
        options.family, sizes, options.seconds, options.device, options.into, options.at_once, options.limit
    ):
        print(text, flush=True)


if __name__ == "__main__":
    main()
