"""The gain of a warm start: searches of recordings that know what was measured on other devices or at other sizes.

    python benchmarks/warm_start.py results/recordings/09-3072.json.gz --near 09-2048.json.gz 09-4096.json.gz
    python benchmarks/warm_start.py --leave-one-out results/recordings --seeds 24 --processes 8

The first form knows what records of the near recordings would hold: the best configuration and its runners-up, as
`tune` takes them from the store; with `--logs N`, what a search of N evaluations has measured there. Times of other
sizes are converted as `tune` does on an H200. `--misled` adds a search that knows the worst configurations of the
recording itself, as the best of another. The second form searches each recording of a folder, knowing a search of
--trials evaluations, with the same seed or the next, of each other recording of the same kernel and parameters.
`--misled` there turns the order of these around: what was slowest is given as the fastest.

Prints the evaluations until within 10, 5 and 1 % of the optimum, as medians over seeds, and the fraction of the optimum
at 25, 50, 100 and 200 evaluations, as geometric means over seeds; with several recordings also the geometric means of
both.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from statistics import fmean, median

from tuner.catalog import catalog
from tuner.exchange import replay
from tuner.search.budget import Budget
from tuner.search.experience import WARM, Experience
from tuner.search.pool import Pool
from tuner.search.search import Search
from tuner.search.strategies import Hints
from tuner.space import parsing
from tuner.space.config import Config
from tuner.space.scope import Limits, Scope
from tuner.tuning.finals.runners_up import runners_up
from tuner.tuning.recordings import recording
from tuner.tuning.recordings.logs import occupancy_of
from tuner.tuning.recordings.recording import Recording
from tuner.tuning.recordings.waves import Conversion

H200, UNITS = Limits(1024, 232_448, 32, multiprocessor_threads=2048), 132  # of the shipped recordings
AT, WITHIN = (25, 50, 100, 200), (0.10, 0.05, 0.01)
Experiences = Callable[[int], Sequence[Experience]]  # by seed
Run = tuple[list[int | None], list[float]]  # the evaluations to within each of WITHIN, and the fractions at AT
Summary = tuple[list[float], list[float]]  # the same of several runs: medians, and geometric means


def ranking(data: Recording) -> list[tuple[Config, float]]:
    """The configurations of a recording that run with their times in ms, the fastest first."""
    timed = [(config, entry.time_ms) for config, entry in data.configs() if entry.time_ms is not None]
    return sorted(timed, key=itemgetter(1))


def scope_of(data: Recording) -> Scope:
    """The problem of a recording of a shipped kernel."""
    op = catalog.load(data.kernel).operation
    return Scope(parsing.parse_size(data.size, op), op.options, "cuda", H200)


def of_record(data: Recording, asked: Recording) -> Experience:
    """The best configuration and its runners-up, as a record keeps them, for a search of the problem `asked`."""
    timed = ranking(data)
    kept = [timed[0][0], *runners_up(catalog.load(data.kernel), scope_of(data), [config for config, _ in timed])]
    return converted(Experience([(config, time_ms) for config, time_ms in timed if config in kept]), data, asked)


def converted(known: Experience, data: Recording, asked: Recording) -> Experience:
    """What is known of `data`, as a search of the problem `asked` takes it."""
    if data.device != asked.device or data.size == asked.size or not catalog.known(data.kernel):
        return replace(known, of_device=data.device == asked.device != "")
    here = Conversion(catalog.load(data.kernel), scope_of(data), scope_of(asked), UNITS)
    entries = {tuple(config.values()): entry for config, entry in data.configs()}
    trials = [
        (config, time_ms and here.time_ms(dict(config), time_ms, occupancy_of(entries[tuple(config.values())])))
        for config, time_ms in known.trials
    ]
    return Experience(trials, of_device=True)


def of_search(data: Recording, evaluations: int, seed: int) -> Experience:
    """What a cold search of a recording measures."""
    times = {tuple(config.values()): entry.time_ms for config, entry in data.configs()}
    trials: list[tuple[Config, float | None]] = []
    with Search("optuna", Pool(data.parameters, data.entries), Budget(evaluations), seed, Hints((), replay.BLOCK)) as s:
        while (config := s.ask()) is not None:
            trials.append((config, times[tuple(config.values())]))
            s.tell(*trials[-1])
    return Experience(trials)


def turned(experience: Experience) -> Experience:
    """The same configurations, with the reciprocals of their times."""
    trials = [(config, None if time_ms is None else 1 / time_ms) for config, time_ms in experience.trials]
    return replace(experience, trials=trials)


def geometric(values: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(fmean(math.log(max(value, 1e-3)) for value in values))


def one_run(data: Recording, experiences: Sequence[Experience], budget: int, seed: int) -> Run:
    """One search."""
    run = replay.replay(data, "optuna", Budget(budget), seed, experiences=experiences)
    return [run.within(share) for share in WITHIN], [run.fraction(n) for n in AT if n <= budget]


def summary(runs: Sequence[Run], budget: int) -> Summary:
    """The medians and geometric means of several runs."""
    within = [float(median(n or budget + 1 for n in column)) for column in zip(*(run[0] for run in runs), strict=True)]
    return within, [geometric(column) for column in zip(*(run[1] for run in runs), strict=True)]


def line(name: str, within: Iterable[float], fractions: Iterable[float]) -> str:
    """A line of the output."""
    reached = [f"{fraction:.3f}" for fraction in fractions]
    return (
        f"{name}: to within 10, 5, 1 %: {', '.join(f'{n:.3g}' for n in within)}; fraction of the optimum at "
        f"{', '.join(str(n) for n, _ in zip(AT, reached, strict=False))}: {', '.join(reached)}"
    )


# What `leave_one_out` and its processes, which are forks, know: the recordings by name, and what searches of them find.
_read: dict[str, Recording] = {}
_logs: dict[tuple[str, int], Experience] = {}


def leave_one_out(folder: Path, options: argparse.Namespace) -> None:
    """Search each recording, knowing searches of those of the same kernel and parameters."""
    _read.update({path.name.partition(".")[0]: recording.read(path) for path in recording.files(folder)})
    kinds = [_kind(name) for name in _read]
    chosen = [name for name in _read if kinds.count(_kind(name)) > 1]
    forks = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.processes, forks) as pool:
        searched = [(name, seed) for name in chosen for seed in (0, 1)]
        _logs.update(zip(searched, pool.map(_log, searched, [options.trials] * len(searched)), strict=True))
    starts = ["cold", "warm", *(["misled"] if options.misled else [])]
    summaries: dict[str, list[Summary]] = {start: [] for start in starts}
    with ProcessPoolExecutor(options.processes, forks) as pool:
        run = functools.partial(_known_run, options.budget)
        runs = {
            (n, start): [pool.submit(run, n, start, s) for s in range(options.seeds)]
            for n in chosen
            for start in starts
        }
        for (name, start), futures in runs.items():
            summaries[start].append(summary([future.result() for future in futures], options.budget))
            print(line(f"{name}, {start}", *summaries[start][-1]), flush=True)
    for start, measured in summaries.items():
        means = [[geometric(column) for column in zip(*part, strict=True)] for part in zip(*measured, strict=True)]
        print(line(f"all {len(chosen)}, {start}", *means))


def _kind(name: str) -> tuple[str, frozenset[str]]:
    return _read[name].kernel, frozenset(_read[name].parameters)


def _log(searched: tuple[str, int], trials: int) -> Experience:
    name, seed = searched
    return of_search(_read[name], trials, seed)


def _known_run(budget: int, name: str, start: str, seed: int) -> Run:
    """A search that knows what searches of other recordings of the same kind have found."""
    others = [] if start == "cold" else [n for n, s in _logs if s == 0 and n != name and _kind(n) == _kind(name)]
    known = [converted(_logs[other, seed % 2], _read[other], _read[name]) for other in others]
    return one_run(_read[name], [turned(each) for each in known] if start == "misled" else known, budget, seed)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path, nargs="?")
    parser.add_argument("--near", nargs="*", type=Path, default=[])
    parser.add_argument("--logs", type=int, default=0, metavar="N", help="evaluations of searches near; 0: records")
    parser.add_argument("--leave-one-out", type=Path, metavar="FOLDER")
    parser.add_argument("--trials", type=int, default=200, help="evaluations of the searches that are known")
    parser.add_argument("--misled", action="store_true")
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1, help="that search at the same time, with --leave-one-out")
    options = parser.parse_args()
    if options.leave_one_out:
        leave_one_out(options.leave_one_out, options)
        return
    if options.recording is None:
        parser.error("name a recording, or a folder with --leave-one-out")
    data = recording.read(options.recording)
    starts: dict[str, list[Experience]] = {
        "cold": [],
        "warm": [of_record(recording.read(path), data) for path in options.near],
    }
    if options.logs:
        near = [recording.read(path) for path in options.near]
        starts["warm"] = [converted(of_search(each, options.logs, 0), each, data) for each in near]
    if options.misled:
        slowest = ranking(data)[-WARM:]
        starts["misled"] = [turned(Experience(slowest))]
    for name, known in starts.items():
        runs = [one_run(data, known, options.budget, seed) for seed in range(options.seeds)]
        print(line(name, *summary(runs, options.budget)))


if __name__ == "__main__":
    main()
