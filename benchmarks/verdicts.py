"""Whether a verdict repeats: kernels are tuned again and again, each time from an empty store.

    python benchmarks/verdicts.py --device opencl
    python benchmarks/verdicts.py --device cuda --repeats 20 --minutes 15 gallery/sum gallery/softmax sgemm/07_tiled_1xn

Each kernel is tuned `--repeats` times over a small space of its own parameters, all of it, and as often with a budget
of three quarters of it, other seeds and the default strategy. (A random third of a space in which nothing is tied holds
the best in a third of the runs, whatever the finals do.) Each run has worker processes, a store and a ledger of its
own; builds come from one cache. For each kernel, the table has how often the most frequent winner won, of how many
runs; the same if the fastest of the finals won instead of the one that the rule chooses; and how many winners of the
budgeted runs one last final round of them all calls tied with its fastest. In the end it prints how often the goal, 19
of 20, is met.

With `--keep FOLDER`, each run is noted in a file there, and the tables count all runs that the files of the folder
note. So repeats may be spread over several hours, in which a machine is idle, or over groups of processors. Only runs
of one version of the code belong into one folder.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from tuner import devices
from tuner.catalog import catalog
from tuner.measure.benchmark import Bench
from tuner.space import parsing
from tuner.space.config import Config, Value, config_key
from tuner.space.default import declared_or_first
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.store import verdicts
from tuner.store.record import Record
from tuner.tuning import driver
from tuner.tuning.exploration import Quiet
from tuner.tuning.request import TuningRequest

KERNELS = {  # for each kind of device, kernels with a size at which a run takes some milliseconds at most
    "host": {"sgemm/00_host_simple": "192", "sgemm/01_host_blocked": "384", "gallery/convolution_host": "256x256"},
    "opencl": {
        "gallery/vector_add": "1048576",
        "gallery/transpose": "1024",
        "gallery/sum": "1048576",
        "gallery/histogram": "1048576",
        "gallery/rgb_to_gray": "1024x1024",
        "sgemm/03_naive": "128",
        "sgemm/07_tiled_1xn": "128",
    },
    "cuda": {
        "gallery/transpose": "8192",
        "gallery/sum": "67108864",
        "gallery/softmax": "4096x4096",
        "sgemm/07_tiled_1xn": "2048",
    },
}
MOST = 32  # configurations of a kernel's small space
BUDGET = 24
GOAL = 0.95


@dataclass
class Found:
    """The winners of a kernel's runs, and the fastest of their finals; those of budgeted runs apart."""

    winners: list[Config] = field(default_factory=list)
    fastest: list[Config] = field(default_factory=list)
    budgeted: list[Config] = field(default_factory=list)

    def add(self, run: Mapping[str, Any]) -> None:
        """Count a run as it was noted."""
        if run["budget"]:
            self.budgeted.append(run["winner"])
        else:
            self.winners.append(run["winner"])
            self.fastest.append(run["fastest"])


def main() -> None:
    """Tune and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", help="default: all for the kind of device")
    parser.add_argument("--device", default="opencl")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after so many")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="note the runs there, and count all that it notes")
    options = parser.parse_args()
    known = KERNELS[devices.split(options.device)[0]]
    problems = {name: known[name] for name in options.kernels or known}
    with tempfile.TemporaryDirectory() as folder:
        keep: Path = options.keep or Path(folder) / "runs"
        keep.mkdir(parents=True, exist_ok=True)
        _compare(problems, options.device, options.repeats, time.monotonic() + 60 * options.minutes, Path(folder), keep)


def _compare(problems: Mapping[str, str], device: str, repeats: int, end: float, folder: Path, keep: Path) -> None:
    spaces = {name: _small(name, _scope(catalog.load(name), size, device)) for name, size in problems.items()}
    kept = [json.loads(line) for file in keep.glob("*.jsonl") for line in file.read_text().splitlines()]
    found = {name: Found() for name in problems}
    for run in kept:
        if run["kernel"] in found and run["device"] == device:
            found[run["kernel"]].add(run)
    with (keep / f"{time.time_ns()}.jsonl").open("w") as file:
        for repeat in range(repeats):  # kernel by kernel, so that what the machine does meanwhile is the same for all
            for (name, size), budget in itertools.product(problems.items(), (0, BUDGET)):
                done = found[name].budgeted if budget else found[name].winners
                if time.monotonic() > end or len(done) > repeat:
                    continue
                more = {"budget": str(budget), "seed": secrets.randbelow(10**6)} if budget else {}
                record = _tuned(spaces[name], size, device, folder / f"{repeat} {name} {budget}", **more)
                fastest = (each["config"] for each in record.tied if each["low"] == each["high"] == 1.0)
                run = {
                    "kernel": name, "device": device, "budget": budget,
                    "winner": record.config, "fastest": next(fastest, record.config),
                }  # fmt: skip
                found[name].add(run)
                print(json.dumps(run), file=file, flush=True)
    print(f"{'kernel':28} {'same winner':>12} {'same fastest':>13} {'budgeted: tied':>15}")
    met = 0
    for name, size in problems.items():
        of = found[name]
        tied = _tied(spaces[name], size, device, of.budgeted)
        same = max(Counter(map(config_key, of.winners)).values(), default=0)
        same_fastest = max(Counter(map(config_key, of.fastest)).values(), default=0)
        counts = f"{same}/{len(of.winners)}", f"{same_fastest}/{len(of.fastest)}", f"{tied}/{len(of.budgeted)}"
        print(f"{name:28} {counts[0]:>12} {counts[1]:>13} {counts[2]:>15}")
        met += same >= GOAL * len(of.winners) and tied >= GOAL * len(of.budgeted)
    print(f"goal met for {met} of {len(problems)} kernels")


def _small(name: str, scope: Scope) -> Space:
    """A shipped kernel with at most MOST valid configurations, the default among them: values are added to those of the
    default, parameter by parameter, as long as there is room."""
    space = catalog.load(name)
    default = declared_or_first(space, scope)
    chosen: dict[str, tuple[Value, ...]] = {parameter: (default[parameter],) for parameter in space.parameters}
    for parameter, declared in space.parameters.items():
        for value in declared:
            more = {**chosen, parameter: tuple(each for each in declared if each == value or each in chosen[parameter])}
            rows = itertools.product(*more.values())
            if sum(space.valid(dict(zip(more, row, strict=True)), scope) for row in rows) <= MOST:
                chosen = more
    return replace(space, parameters=chosen, default=default)


def _scope(space: Space, size: str, device: str) -> Scope:
    opened = devices.open_device(device)
    try:
        sizes = parsing.parse_size(size, space.operation)
        return Scope(sizes, space.operation.options, opened.language, opened.limits)
    finally:
        opened.close()


def _tuned(space: Space, size: str, device: str, folder: Path, **more: Any) -> Record:
    """The record of a run with an empty store and an empty ledger, in worker processes of its own."""
    os.environ["TUNER_STATE"] = str(folder / "state")
    request = TuningRequest(space, size, device, results=folder / "results", **more)
    record = driver.tune(request, Quiet(lambda _: None)).record
    assert record is not None
    return record


def _tied(space: Space, size: str, device: str, winners: list[Config]) -> int:
    """How many of the winners one final round of them all does not separate from its fastest."""
    if not winners:
        return 0
    scope, opened = _scope(space, size, device), devices.open_device(device)
    distinct = {config_key(config): config for config in winners}
    finals = Bench(opened, space, scope).finals([*distinct.values()], with_library=False)
    times = dict(zip(distinct, (final.times for final in finals.candidates), strict=True))
    opened.close()
    fastest = min((each for each in times.values() if each), key=median)
    ratios = {key: verdicts.ratio(fastest, own) for key, own in times.items() if own}
    tied = {key for key, ratio in ratios.items() if verdicts.is_tied(ratio, median(fastest))}
    return sum(config_key(config) in tied for config in winners)


if __name__ == "__main__":
    main()
