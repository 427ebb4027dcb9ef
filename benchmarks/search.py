"""Strategies compared over recorded spaces: one table, and one plot.

    python benchmarks/search.py results/recordings --strategies optuna kt:genetic_algorithm random --plot search.png
    python benchmarks/search.py results/recordings --strategies optuna helion:lfbo --at 10 25 --spaces

For each strategy the table has the optimum divided by the best time found after 25, 50, 100 and 200 evaluations, as the
geometric mean over seeds and spaces, with a 95 % interval in brackets. It also has the evaluations until within 10, 5
and 1 % of the optimum, as the median over seeds and the geometric mean over spaces; a + says that a median is above the
budget. The intervals are of a bootstrap that draws spaces, and seeds in each. Configurations that failed count, too.
`ms` is the strategy's CPU time per evaluation. Without --strategies it compares the default, all of Kernel Tuner's, and
random.

How the searches run:
--shuffle       each seed has the configurations of the recording in another order
--noise 0.02    each measured time is off by a factor, whose logarithm has this standard deviation; what a search found
                counts by its true time
--workers 8     so many configurations are outstanding at a time
--at 5 10       other numbers of evaluations; the largest is the budget
--transfer 200  searches know a search of so many evaluations of each other recording of the same kernel and parameters.
                Recordings without such others are left out, as are strategies that learn nothing from them

What is printed besides:
--beside        on how many spaces the first strategy is above, equal to and below each other one, and where below
--spaces        the table of each space
--leave-out     what the first strategy has without each kernel, and without each device: whether one decides all
--methodology   the score of the package autotuning_methodology, which compares with random search over time

--runs FILE writes each run as it ends, and runs that the file has are not repeated: a comparison that was cut goes on
where it was, here or on another machine. --seconds ends it: the tables are then of the seeds that have ended.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"  # before NumPy is imported: the processes share the cores

import helion_search  # beside this file, as the next ones
import numpy as np
import search_tables
import warm_start
from search_tables import LEARNING, WITHIN, Run

from tuner.exchange import replay
from tuner.search.budget import Budget
from tuner.search.experience import Experience
from tuner.search.strategies import STRATEGIES
from tuner.tuning.recordings import recording
from tuner.tuning.recordings.recording import Entry, Recording

AT = (25, 50, 100, 200)
DEFAULT = (LEARNING, *(name for name in STRATEGIES if name.startswith("kt:") and "brute" not in name), "random")


@dataclass(frozen=True)
class Mode:
    """How the searches run: see the options of the script."""

    evaluations: int = max(AT)
    workers: int = 1
    noise: float = 0.0
    shuffled: bool = False
    transfer: int = 0


@lru_cache(maxsize=4)
def read(path: Path) -> Recording:
    """The recording, read once in each process."""
    return recording.read(path)


@lru_cache(maxsize=64)
def known(path: Path, evaluations: int, seed: int, of_device: bool) -> Experience:
    """A search of another recording."""
    return replace(warm_start.of_search(read(path), evaluations, seed), of_device=of_device)


def others(path: Path, paths: Iterable[Path]) -> list[Path]:
    """The other recordings of the same kernel and parameters."""

    def kind(of: Path) -> tuple[str, frozenset[str]]:
        return read(of).kernel, frozenset(read(of).parameters)

    return [other for other in paths if other != path and kind(other) == kind(path)]


def seen(data: Recording, mode: Mode, seed: int) -> Recording:
    """The recording as a search with this seed sees it: in another order, and with noise."""
    rows = list(data.entries)
    if mode.shuffled:
        random.Random(seed).shuffle(rows)  # noqa: S311
    factors = np.exp(np.random.default_rng([seed, 1]).normal(0.0, mode.noise, len(rows)))

    def noisy(entry: Entry, factor: float) -> Entry:
        return entry if entry.time_ms is None else replace(entry, time_ms=entry.time_ms * factor)

    noisy_entries = {row: noisy(data.entries[row], float(factor)) for row, factor in zip(rows, factors, strict=True)}
    return replace(data, entries=noisy_entries)


def run(strategy: str, path: Path, seed: int, mode: Mode, near: Sequence[Path], until: float) -> Run | None:
    """One replay; None if the time is over. What it has found after each evaluation is the configuration that was
    measured as the fastest."""
    if time.monotonic() > until:
        return None
    data = read(path)
    as_seen = seen(data, mode, seed) if mode.noise or mode.shuffled else data
    if strategy.startswith(helion_search.PREFIX):
        result = helion_search.replay(as_seen, strategy, mode.evaluations, seed)
    else:
        experiences = [known(other, mode.transfer, seed % 2, data.device == read(other).device != "") for other in near]
        budget = Budget(mode.evaluations)
        result = replay.replay(as_seen, strategy, budget, seed, mode.workers, experiences=experiences)
    fractions, best, fraction = list[float](), math.inf, 0.0
    for row, measured in zip(result.rows, result.evaluations, strict=True):
        if measured is not None and measured < best:
            best, fraction = measured, data.optimum_ms / (data.entries[row].time_ms or math.inf)
        fractions.append(fraction)
    fractions += [fraction] * (mode.evaluations - len(fractions))  # a search that ended, or a space that is tried whole
    within = tuple(
        next((n for n, reached in enumerate(fractions, 1) if reached * (1 + share) >= 1), mode.evaluations + 1)
        for share in WITHIN
    )
    seconds = result.seconds_in_strategy / max(1, len(result.evaluations))
    return Run(strategy, space_of(path), data.kernel, data.device, seed, tuple(fractions), within, seconds, result.rows)


Job = tuple[str, Path, int]  # a strategy, a recording, a seed


def kept(file: Path, mode: Mode) -> Iterator[Run]:
    """The runs of this mode that a file of --runs has. A last line that was cut is left out, and ended."""
    text = file.read_text() if file.exists() else ""
    if text and not text.endswith("\n"):
        file.write_text(text + "\n")
    for line in text.splitlines():
        try:
            values = json.loads(line)
        except json.JSONDecodeError:
            continue
        if values.pop("mode") == asdict(mode):
            lists = {"fractions": tuple(values["fractions"]), "within": tuple(values["within"])}
            yield Run(**{**values, **lists, "rows": [tuple(row) for row in values["rows"]]})


def space_of(path: Path) -> str:
    """What the tables call a recording."""
    return path.name.partition(".")[0]


def run_all(
    jobs: Sequence[Job],
    mode: Mode,
    near: Mapping[Path, Sequence[Path]],
    processes: int,
    seconds: float,
    file: Path | None,
) -> list[Run]:
    """The runs, in the order of the jobs, those that ended within so many seconds: `file` takes each as it ends."""
    wanted = {(strategy, space_of(path), seed): (strategy, path, seed) for strategy, path, seed in jobs}
    found = {(each.strategy, each.space, each.seed): each for each in kept(file, mode)} if file else {}
    until = time.monotonic() + seconds
    with ProcessPoolExecutor(processes) as pool:
        futures = [
            pool.submit(run, strategy, path, seed, mode, near[path], until)
            for key, (strategy, path, seed) in wanted.items()
            if key not in found
        ]
        for future in as_completed(futures):
            if (ended := future.result()) is None:
                continue
            found[ended.strategy, ended.space, ended.seed] = ended
            if file:
                with file.open("a") as lines:
                    lines.write(json.dumps({"mode": asdict(mode), **vars(ended)}) + "\n")
    return [found[key] for key in wanted if key in found]


def comparable(runs: Sequence[Run], strategies: Sequence[str]) -> list[Run]:
    """The runs of the spaces and seeds for which every strategy has one."""
    have: dict[tuple[str, int], set[str]] = {}
    for each in runs:
        have.setdefault((each.space, each.seed), set()).add(each.strategy)
    return [each for each in runs if have[each.space, each.seed] == set(strategies)]


def positive(text: str) -> int:
    """A whole number from 1, for an option."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number from 1")
    return int(text)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of .json and .json.gz recordings")
    parser.add_argument("--seeds", type=positive, default=24)
    names = [*STRATEGIES, *helion_search.ALGORITHMS]
    parser.add_argument("--strategies", nargs="+", default=list(DEFAULT), choices=names, metavar="NAME")
    parser.add_argument("--at", nargs="+", type=positive, default=list(AT))
    parser.add_argument("--workers", type=positive, default=1, help="number of outstanding configurations")
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--transfer", type=int, default=0, metavar="EVALUATIONS")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--spaces", action="store_true")
    parser.add_argument("--leave-out", action="store_true")
    parser.add_argument("--methodology", action="store_true", help="needs autotuning_methodology")
    parser.add_argument("--processes", type=positive, default=os.cpu_count())
    parser.add_argument("--runs", type=Path, help="a file of JSON lines, a run in each")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no run after so many seconds")
    parser.add_argument("--plot", type=Path, help="write a plot to this file; needs matplotlib")
    options = parser.parse_args()
    paths = [path for folder in options.folders for path in recording.files(folder)]
    if not paths:
        parser.error(f"{options.folders[0]}: no recordings, .json or .json.gz, in it")
    mode = Mode(max(options.at), options.workers, options.noise, options.shuffle, options.transfer)
    near: dict[Path, list[Path]] = {path: others(path, paths) if options.transfer else [] for path in paths}
    if options.transfer:
        paths = [path for path in paths if near[path]]
        options.strategies = [name for name in options.strategies if name == LEARNING]
    jobs = [(name, path, seed) for seed in range(options.seeds) for path in paths for name in options.strategies]
    ended = run_all(jobs, mode, near, options.processes, options.seconds, options.runs)
    runs = comparable(ended, options.strategies)
    if len(runs) < len(jobs):
        print(f"{len(ended)} of {len(jobs)} runs have ended; the tables are of {len(runs)}, which all strategies have")
    if not runs:
        return
    print(search_tables.table(runs, options.at))
    if options.beside:
        print(f"\n{search_tables.beside(runs, options.at)}")
    if options.spaces:
        for space in search_tables.grouped(runs):
            print(f"\n{space[0].space}\n\n{search_tables.table(space, options.at)}")
    if options.leave_out:
        print(f"\n{search_tables.left_out(runs, options.at)}")
    if options.methodology:
        import methodology  # beside this file

        print(f"\n{methodology.scores(runs, {space_of(path): path for path in paths})}")
    if options.plot:
        search_tables.plot(runs, mode.evaluations, options.plot)


if __name__ == "__main__":
    main()
