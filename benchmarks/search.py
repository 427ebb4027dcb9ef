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
--spaces        the table of each space
--leave-out     what the first strategy has without each kernel, and without each device: whether one decides all
--methodology   the score of the package autotuning_methodology, which compares with random search over time
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"  # before NumPy is imported: the processes share the cores

import helion_search  # beside this file
import numpy as np
import warm_start  # beside this file, too

from tuner.exchange import replay
from tuner.search.budget import Budget
from tuner.search.experience import Experience
from tuner.search.strategies import STRATEGIES
from tuner.tuning.recordings import recording
from tuner.tuning.recordings.recording import Entry, Recording, Row

AT = (25, 50, 100, 200)
WITHIN = (0.10, 0.05, 0.01)
LEARNING = "optuna"  # the strategy that learns from other searches
DEFAULT = (LEARNING, *(name for name in STRATEGIES if name.startswith("kt:") and "brute" not in name), "random")
RESAMPLES = 1000
LEAST = 1e-3  # in place of 0, the fraction while all configurations have failed


@dataclass(frozen=True)
class Mode:
    """How the searches run: see the options of the script."""

    evaluations: int = max(AT)
    workers: int = 1
    noise: float = 0.0
    shuffled: bool = False
    transfer: int = 0


@dataclass(frozen=True)
class Run:
    """One strategy over one space with one seed: the fraction of the optimum after each evaluation, the evaluations to
    within each of WITHIN (one more than the budget if it was not reached), the strategy's seconds per evaluation, and
    the configurations in their order."""

    strategy: str
    space: str
    kernel: str
    device: str
    seed: int
    fractions: tuple[float, ...]
    within: tuple[int, ...]
    seconds: float
    rows: Sequence[Row] = field(default=(), repr=False)


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


def run(strategy: str, path: Path, seed: int, mode: Mode, near: Sequence[Path] = ()) -> Run:
    """One replay. What it has found after each evaluation is the configuration that was measured as the fastest."""
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
    space, seconds = path.name.partition(".")[0], result.seconds_in_strategy / max(1, len(result.evaluations))
    return Run(strategy, space, data.kernel, data.device, seed, tuple(fractions), within, seconds, result.rows)


def geometric(values: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(math.log(max(value, LEAST)) for value in values))


def grouped(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs by space."""
    spaces: dict[str, list[Run]] = {}
    for each in runs:
        spaces.setdefault(each.space, []).append(each)
    return [spaces[name] for name in sorted(spaces)]


def interval(runs: Iterable[Run], n: int) -> tuple[float, float]:
    """The 95 % interval of the geometric mean of the fractions after `n` evaluations: RESAMPLES times, spaces are
    drawn, and in each its seeds."""
    drawn = np.random.default_rng(0)
    logs = [np.log([max(each.fractions[n - 1], LEAST) for each in space]) for space in grouped(runs)]
    of_seeds = np.array([drawn.choice(each, (RESAMPLES, len(each))).mean(axis=1) for each in logs])
    spaces = drawn.integers(len(logs), size=(len(logs), RESAMPLES))
    means = np.take_along_axis(of_seeds, spaces, axis=0).mean(axis=0)
    low, high = np.exp(np.percentile(means, [2.5, 97.5]))
    return float(low), float(high)


def summary(runs: Sequence[Run], at: Sequence[int]) -> list[str]:
    """The cells of a strategy in the table."""
    cells = []
    for n in at:
        low, high = interval(runs, n)
        mean = geometric(geometric(each.fractions[n - 1] for each in space) for space in grouped(runs))
        cells.append(f"{mean:.3f} [{low:.3f}, {high:.3f}]")
    for i in range(len(WITHIN)):
        medians = [statistics.median(each.within[i] for each in space) for space in grouped(runs)]
        cells.append(f"{geometric(medians):.0f}{'+' if max(medians) > max(at) else ''}")
    return [*cells, f"{statistics.fmean(each.seconds for each in runs) * 1e3:.1f}"]


def table(runs: Sequence[Run], at: Sequence[int]) -> str:
    """A Markdown table, the best at the last but one number of evaluations first."""
    header = ["strategy", *(f"at {n}" for n in at), *(f"to {share:.0%}" for share in WITHIN), "ms"]
    groups: dict[str, list[Run]] = {}
    for each in runs:
        groups.setdefault(each.strategy, []).append(each)
    by = sorted(at)[-2:][0]
    order = sorted(groups, key=lambda name: -geometric(each.fractions[by - 1] for each in groups[name]))
    rows = [header, ["---"] * len(header), *([name, *summary(groups[name], at)] for name in order)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def left_out(runs: Sequence[Run], at: Sequence[int]) -> str:
    """The fractions of the first strategy without each kernel, and without each device."""
    of_first = [each for each in runs if each.strategy == runs[0].strategy]
    parts: Mapping[str, Callable[[Run], str]] = {"kernel": lambda each: each.kernel, "device": lambda each: each.device}
    lines = [f"{runs[0].strategy} at {', '.join(map(str, at))}, without"]
    for what, name_of in parts.items():
        for name in sorted({name_of(each) for each in of_first}):
            rest = grouped(each for each in of_first if name_of(each) != name)
            if rest:
                means = [geometric(geometric(each.fractions[n - 1] for each in space) for space in rest) for n in at]
                lines.append(f"  {what} {name or '(unknown)'}: {', '.join(f'{mean:.3f}' for mean in means)}")
    return "\n".join(lines)


def plot(runs: Sequence[Run], evaluations: int, path: Path) -> None:
    """The fraction of the optimum over evaluations, a line for each strategy, with the interval as a band."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(8, 5))
    colours = pyplot.get_cmap("tab20")
    points = sorted({1, *range(5, evaluations, 5), evaluations})
    for i, strategy in enumerate(dict.fromkeys(each.strategy for each in runs)):
        group = [each for each in runs if each.strategy == strategy]
        lines = [geometric(each.fractions[n - 1] for each in group) for n in points]
        bands = [interval(group, n) for n in points]
        panel.plot(points, lines, label=strategy, linewidth=2.5 if strategy == LEARNING else 1.0, color=colours(i % 20))
        low, high = zip(*bands, strict=True)
        panel.fill_between(points, low, high, alpha=0.15, color=colours(i % 20), linewidth=0)
    spaces = len(grouped(runs))
    panel.set(
        xlabel="evaluations", ylabel="optimum / best found, geometric mean", ylim=(0.5, 1.01), title=f"{spaces} spaces"
    )
    panel.grid(alpha=0.3)
    panel.legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of .json and .json.gz recordings")
    parser.add_argument("--seeds", type=int, default=24)
    names = [*STRATEGIES, *helion_search.ALGORITHMS]
    parser.add_argument("--strategies", nargs="+", default=list(DEFAULT), choices=names, metavar="NAME")
    parser.add_argument("--at", nargs="+", type=int, default=list(AT))
    parser.add_argument("--workers", type=int, default=1, help="number of outstanding configurations")
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--transfer", type=int, default=0, metavar="EVALUATIONS")
    parser.add_argument("--spaces", action="store_true")
    parser.add_argument("--leave-out", action="store_true")
    parser.add_argument("--methodology", action="store_true", help="needs autotuning_methodology")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="write every run to this file")
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
    jobs = [
        (s, path, seed, mode, near[path]) for path in paths for s in options.strategies for seed in range(options.seeds)
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        futures = [pool.submit(run, *job) for job in jobs]
        runs = [future.result() for future in futures]
    print(table(runs, options.at))
    if options.spaces:
        for space in grouped(runs):
            print(f"\n{space[0].space}\n\n{table(space, options.at)}")
    if options.leave_out:
        print(f"\n{left_out(runs, options.at)}")
    if options.methodology:
        import methodology  # beside this file

        print(f"\n{methodology.scores(runs, {path.name.partition('.')[0]: path for path in paths})}")
    if options.json:
        options.json.write_text(json.dumps([vars(each) for each in runs]))
    if options.plot:
        plot(runs, mode.evaluations, options.plot)


if __name__ == "__main__":
    main()
