"""Whether a verdict repeats: kernels are tuned again and again, each time from an empty store.

    python benchmarks/verdicts.py --device opencl
    python benchmarks/verdicts.py --device cuda --repeats 20 --minutes 15 gallery/sum gallery/softmax sgemm/07_tiled_1xn

Each kernel is tuned `--repeats` times over a small space of its own parameters, all of it, and as often with a budget
of three quarters of it, other seeds and the default strategy. (A random third of a space in which nothing is tied holds
the best in a third of the runs, whatever the finals do.) Each run has worker processes, a store and a ledger of its
own; builds come from one cache. For each kernel, the table has how often the most frequent winner won, of how many
runs; the same if the fastest of the finals won instead of the one that the rule chooses; how many winners of the
budgeted runs the test of the finals calls tied with the fastest of them, in one last final round of them all, and how
much longer the slowest of them takes there (`apart`); how many of these runs measured that fastest one at all, which no
final round can make up for; how many of the intervals that runs state of a tied finalist's ratio hold the ratio in
another run (`held`: on a processor, 95 % should); and the median seconds of a run. In the end it prints how often the
goal, 19 of 20, is met. After ten runs of each kind, the next one is of the kernel that has taken the least time so far,
so kernels that take long are tuned less often if `--minutes` end before `--repeats`.

With `--keep FOLDER`, each run is noted in a file there, and the tables count all runs that the files of the folder
note. So repeats may be spread over several hours, in which a machine is idle, or over groups of processors. Only runs
of one version of the code belong into one folder.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from tuner import devices
from tuner.catalog import catalog
from tuner.measure.benchmark import Bench
from tuner.measure.results import Final
from tuner.space import parsing
from tuner.space.config import Config, ConfigKey, Value, config_key
from tuner.space.default import declared_or_first
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.store import verdicts
from tuner.tuning import driver
from tuner.tuning.driver import Result
from tuner.tuning.finals import processes, ties
from tuner.tuning.progress import Quiet
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
FEW = 10  # runs of each kind that all kernels have before those that take little time have more
SITTINGS = 4  # processes in which winners of smaller budgets are compared, on a processor


@dataclass
class Found:
    """The winners of a kernel's runs, and the fastest of their finals; those of budgeted runs apart."""

    winners: list[Config] = field(default_factory=list)
    fastest: list[Config] = field(default_factory=list)
    budgeted: list[Config] = field(default_factory=list)
    measured: list[set[ConfigKey]] = field(default_factory=list)  # for each of the budgeted runs
    finals: list[dict[ConfigKey, Final]] = field(default_factory=list)  # of each run
    seconds: dict[int, list[float]] = field(default_factory=lambda: {0: [], BUDGET: []})  # of runs, by their budgets

    def add(self, run: Mapping[str, Any]) -> None:
        """Count a run as it was noted."""
        self.seconds[run["budget"]].append(run["seconds"])
        self.finals.append({config_key(config): _final(by_process) for config, by_process in run["finals"]})
        if run["budget"]:
            self.budgeted.append(run["winner"])
            self.measured.append({config_key(config) for config, *_ in run["search"]})
        else:
            self.winners.append(run["winner"])
            self.fastest.append(run["fastest"])

    def turn(self, budget: int) -> tuple[int, float]:
        """A key, which is the smallest for the next run: FEW of each, then what has taken the least time."""
        return min(self.count(budget), FEW), sum(self.seconds[budget])

    def held(self) -> tuple[int, int]:
        """How many of the intervals of tied finalists' ratios hold the ratio in another run, and of how many."""
        held = of = 0
        for run in self.finals:
            fastest = min(processes.in_all([*run.values()]), key=lambda final: final.time_ms)
            base = next(key for key, final in run.items() if final is fastest)
            standings = dict(zip(run, ties.standings([*run.values()]), strict=True))
            tied = {key: standing.ratio for key, standing in standings.items() if standing.is_tied and key != base}
            for other in self.finals:
                for key, (low, _, high) in tied.items():
                    pair = [other[each] for each in (base, key) if each in other]
                    if other is not run and len(pair) == 2 and len({len(final.processes) for final in pair}) == 1:
                        held += low <= verdicts.ratio(pair[0].times, pair[1].times).middle <= high
                        of += 1
        return held, of

    def count(self, budget: int) -> int:
        """How many runs with this budget are counted."""
        return len(self.seconds[budget])


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
        while time.monotonic() < end:
            rest = [
                (each, budget) for budget in (0, BUDGET) for each in problems if found[each].count(budget) < repeats
            ]
            if not rest:
                break
            name, budget = min(rest, key=lambda pair: found[pair[0]].turn(pair[1]))
            more = {"budget": str(budget), "seed": secrets.randbelow(10**6)} if budget else {}
            began = time.monotonic()
            result = _tuned(spaces[name], problems[name], device, folder / f"{time.time_ns()}", **more)
            run = {"kernel": name, "device": device, "budget": budget, "seconds": time.monotonic() - began}
            found[name].add(run := {**run, **_noted(result)})
            print(json.dumps(run), file=file, flush=True)
    print(
        f"{'kernel':28} {'same winner':>12} {'same fastest':>13} {'budgeted: tied':>15} {'apart':>6} {'measured':>9} "
        f"{'held':>9} {'seconds':>8}"
    )
    met = 0
    for name, size in problems.items():
        of = found[name]
        fastest, tied_ones, apart = _judged(name, size, device, of.budgeted)
        tied = sum(config_key(config) in tied_ones for config in of.budgeted)
        measured = sum(fastest in keys for keys in of.measured)
        same = max(Counter(map(config_key, of.winners)).values(), default=0)
        same_fastest = max(Counter(map(config_key, of.fastest)).values(), default=0)
        exhaustive, budgeted = len(of.winners), len(of.budgeted)
        seconds = median([*of.seconds[0], *of.seconds[BUDGET]]) if exhaustive + budgeted else 0.0
        intervals, pairs = of.held()
        counts = f"{same}/{exhaustive}", f"{same_fastest}/{exhaustive}", f"{tied}/{budgeted}", f"{measured}/{budgeted}"
        held = f"{intervals / pairs:.1%}" if pairs else ""
        print(
            f"{name:28} {counts[0]:>12} {counts[1]:>13} {counts[2]:>15} {apart:>6.1%} {counts[3]:>9} {held:>9} "
            f"{seconds:>8.1f}"
        )
        met += same >= GOAL * exhaustive and tied >= GOAL * budgeted
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


def _tuned(space: Space, size: str, device: str, folder: Path, **more: Any) -> Result:
    """The result of a run with an empty store and an empty ledger, in worker processes of its own."""
    os.environ["TUNER_STATE"] = str(folder / "state")
    request = TuningRequest(space, size, device, results=folder / "results", **more)
    return driver.tune(request, Quiet(lambda _: None))


def _noted(result: Result) -> dict[str, Any]:
    """What is kept of a run: the winner and the fastest, and times from which it can be told why they differ from those
    of another run. `search` has each configuration that was measured, its median time and its shortest; `finals` each
    finalist, and its times in each process. Times are in ms."""
    record = result.record
    assert record is not None
    finals = [(each.trial.config, each.final) for each in result.selection.finalists if each.final.failure is None]
    lasting = processes.in_all([final for _, final in finals])
    return {
        "winner": record.config,
        "fastest": min((each for each in finals if each[1] in lasting), key=lambda each: each[1].time_ms)[0],
        "search": [(t.config, t.time_ms, min(t.outcome.times)) for t in result.trials if t.time_ms is not None],
        "finals": [(config, final.by_process) for config, final in finals],
    }


def _final(by_process: Sequence[Sequence[float]]) -> Final:
    """A Final with these times in each process."""
    return Final(tuple(itertools.chain(*by_process)), processes=tuple(map(len, by_process)))


def _judged(name: str, size: str, device: str, winners: list[Config]) -> tuple[ConfigKey | None, set[ConfigKey], float]:
    """The fastest of the winners in one final round of them all, those that the finals' test calls tied with it, and
    how much longer the slowest takes, relative.

    On a processor, as in the finals, rounds run in several processes. None if there are no winners.
    """
    distinct = {config_key(config): config for config in winners}
    if len(distinct) < 2:
        return next(iter(distinct), None), set(distinct), 0.0
    finals = _sitting(name, size, device, [*distinct.values()])
    for _ in range(0 if devices.split(device)[0] == "cuda" else SITTINGS - 1):
        later = _sitting(name, size, device, [*distinct.values()])
        finals = [one.and_later(other) for one, other in zip(finals, later, strict=True)]
    right = {key: final for key, final in zip(distinct, finals, strict=True) if final.failure is None}
    fastest = min(right, key=lambda key: right[key].time_ms)
    standings = ties.standings([*right.values()])
    apart = max(standing.ratio.middle for standing in standings) - 1
    return fastest, {key for key, standing in zip(right, standings, strict=True) if standing.is_tied}, apart


def _sitting(name: str, size: str, device: str, configs: list[Config]) -> list[Final]:
    """The results of these configurations in final rounds in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measured, name, size, device, configs).result()


def _measured(name: str, size: str, device: str, configs: list[Config]) -> list[Final]:
    opened = devices.open_apart(device)
    scope = _scope(catalog.load(name), size, device)
    finals = Bench(opened, _small(name, scope), scope).finals(configs, with_library=False)
    opened.close()
    return finals.candidates


if __name__ == "__main__":
    main()
