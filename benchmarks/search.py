"""Strategies compared over a folder of recorded spaces.

    python benchmarks/search.py FOLDER --seeds 24 --strategies optuna kt:genetic_algorithm --plot search.png

For each strategy it prints the optimum divided by the best time found after 25, 50, 100 and 200 evaluations, as the
geometric mean over seeds and spaces; and the evaluations until within 10, 5 and 1 % of the optimum, as the median over
seeds and the geometric mean over spaces. Failed configurations of the recording count as evaluations. `ms` is the
strategy's CPU time per evaluation. Without --strategies it compares the default, all of Kernel Tuner's, and random.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"  # before NumPy is imported: the processes share the cores

from tuner.exchange import replay
from tuner.search.budget import Budget
from tuner.search.strategies import STRATEGIES
from tuner.tuning.recordings import recording

AT = (25, 50, 100, 200)
WITHIN = (0.10, 0.05, 0.01)
EVALUATIONS = max(AT)
DEFAULT = ("optuna", *(name for name in STRATEGIES if name.startswith("kt:") and "brute" not in name), "random")


@dataclass(frozen=True)
class Run:
    """One strategy over one space with one seed: the fraction of the optimum after each evaluation, the evaluations to
    within each of WITHIN (EVALUATIONS + 1 if it was not reached), and the strategy's seconds per evaluation."""

    strategy: str
    space: str
    seed: int
    fractions: tuple[float, ...]
    within: tuple[int, ...]
    seconds: float


@lru_cache(maxsize=2)
def read(path: Path) -> recording.Recording:
    """The recording, read once in each process."""
    return recording.read(path)


def run(strategy: str, path: Path, seed: int, workers: int) -> Run:
    """One replay."""
    result = replay.replay(read(path), strategy, Budget(EVALUATIONS), seed, workers)
    return Run(
        strategy,
        path.name.partition(".")[0],
        seed,
        tuple(result.fraction(n) for n in range(1, EVALUATIONS + 1)),
        tuple(result.within(share) or EVALUATIONS + 1 for share in WITHIN),
        result.seconds_in_strategy / max(1, len(result.evaluations)),
    )


def geometric(values: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(math.log(max(value, 1e-3)) for value in values))


def summary(runs: list[Run]) -> list[str]:
    """The cells of a strategy in the table."""
    spaces = sorted({r.space for r in runs})
    fractions = [geometric(r.fractions[n - 1] for r in runs) for n in AT]
    evaluations = []
    for i in range(len(WITHIN)):
        medians = [statistics.median(r.within[i] for r in runs if r.space == space) for space in spaces]
        mean = geometric(medians)
        evaluations.append(f"{mean:.0f}{'+' if max(medians) > EVALUATIONS else ''}")
    ms = statistics.fmean(r.seconds for r in runs) * 1e3
    return [*(f"{f:.3f}" for f in fractions), *evaluations, f"{ms:.1f}"]


def table(runs: list[Run], strategies: list[str]) -> str:
    """A Markdown table, the best at 100 evaluations first; then the same for each space."""
    header = ["strategy", *(f"frac at {n}" for n in AT), *(f"to {share:.0%}" for share in WITHIN), "ms"]
    parts = []
    for space in ("all", *sorted({r.space for r in runs})):
        groups = {s: [r for r in runs if r.strategy == s and space in ("all", r.space)] for s in strategies}
        order = sorted(strategies, key=lambda s: -geometric(r.fractions[99] for r in groups[s]))
        rows = [header, ["---"] * len(header), *([s, *summary(groups[s])] for s in order)]
        parts.append(f"{space}\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows))
    return "\n\n".join(parts)


def plot(runs: list[Run], strategies: list[str], path: Path) -> None:
    """The fraction of the optimum over evaluations: a line per strategy, a panel per space and one for all."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    spaces = ["all", *sorted({r.space for r in runs})]
    figure, panels = pyplot.subplots(1, len(spaces), figsize=(5 * len(spaces), 4.5), squeeze=False, sharey=True)
    colours = pyplot.get_cmap("tab20")
    for panel, space in zip(panels[0], spaces, strict=True):
        for i, strategy in enumerate(strategies):
            group = [r for r in runs if r.strategy == strategy and space in ("all", r.space)]
            line = [geometric(r.fractions[n] for r in group) for n in range(EVALUATIONS)]
            width = 2.5 if strategy == "optuna" else 1.0
            panel.plot(range(1, EVALUATIONS + 1), line, label=strategy, linewidth=width, color=colours(i % 20))
        panel.set(title=space, xlabel="evaluations", ylim=(0.5, 1.01))
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("optimum / best found, geometric mean")
    panels[0][-1].legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of .json and .json.gz recordings")
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--strategies", nargs="+", default=list(DEFAULT), choices=STRATEGIES, metavar="NAME")
    parser.add_argument("--workers", type=int, default=1, help="number of outstanding configurations")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="write every run to this file")
    parser.add_argument("--plot", type=Path, help="write a plot to this file; needs matplotlib")
    options = parser.parse_args()
    paths = recording.files(options.folder)
    if not paths:
        parser.error(f"{options.folder}: no recordings, .json or .json.gz, in it")
    jobs = [(s, path, seed) for path in paths for s in options.strategies for seed in range(options.seeds)]
    with ProcessPoolExecutor(options.processes) as pool:
        futures = [pool.submit(run, *job, options.workers) for job in jobs]
        runs = [future.result() for future in futures]
    print(table(runs, options.strategies))
    if options.json:
        options.json.write_text(json.dumps([vars(r) for r in runs]))
    if options.plot:
        plot(runs, options.strategies, options.plot)


if __name__ == "__main__":
    main()
