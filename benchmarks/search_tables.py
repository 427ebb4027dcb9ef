"""The tables and the plot of `search.py`: how far strategies come, with intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tuner.tuning.recordings.recording import Row

WITHIN = (0.10, 0.05, 0.01)
LEARNING = "optuna"  # the strategy that learns from other searches
RESAMPLES = 1000
SAME = 5e-4  # ratios of fractions that are nearer to 1 count as equal: the last digit that is printed
LEAST = 1e-3  # in place of 0, the fraction while all configurations have failed


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


def beside(runs: Sequence[Run], at: Sequence[int]) -> str:
    """A Markdown table: on how many spaces the first strategy is above, equal to and below each other one; then the
    spaces where it is below, with the 95 % interval of its fraction divided by the other's."""
    of: dict[str, dict[str, list[Run]]] = {}
    for each in runs:
        of.setdefault(each.strategy, {}).setdefault(each.space, []).append(each)
    first, *rest = of
    rows = [[f"{first} and", *(f"at {n}" for n in at)], ["---"] * (len(at) + 1)]
    below = []
    for name in rest:
        cells = []
        for n in at:
            signs = []
            for space in sorted(of[first]):
                middle, low, high = _ratio(of[first][space], of[name][space], n)
                signs.append((middle > 1 + SAME) - (middle < 1 - SAME))
                if signs[-1] < 0:
                    below.append(f"  {name} at {n}, {space}: {middle:.3f} [{low:.3f}, {high:.3f}]")
            cells.append(f"{signs.count(1)} above, {signs.count(0)} equal, {signs.count(-1)} below")
        rows.append([name, *cells])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, *(["", f"{first} divided by the other where it is below:", *below] if below else [])])


def _ratio(one: Sequence[Run], other: Sequence[Run], n: int) -> tuple[float, float, float]:
    """The fraction of one strategy on a space after `n` evaluations divided by another's, and its 95 % interval."""
    drawn = np.random.default_rng(0)
    logs = [np.log([max(each.fractions[n - 1], LEAST) for each in runs]) for runs in (one, other)]
    means = [drawn.choice(each, (RESAMPLES, len(each))).mean(axis=1) for each in logs]
    low, high = np.percentile(means[0] - means[1], [2.5, 97.5])
    return math.exp(logs[0].mean() - logs[1].mean()), math.exp(low), math.exp(high)


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
    """How far from the optimum each strategy is, over evaluations, with the interval of the first one as a band."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, panel = pyplot.subplots(figsize=(8, 5))
    strategies = list(dict.fromkeys(each.strategy for each in runs))
    colours = pyplot.get_cmap("tab10" if len(strategies) <= 10 else "tab20")
    points = sorted({*range(min(5, evaluations), evaluations, 5), evaluations})
    for i, strategy in enumerate(strategies):
        group = [each for each in runs if each.strategy == strategy]
        away = [max(1 - geometric(each.fractions[n - 1] for each in group), LEAST) for n in points]
        panel.plot(points, away, label=strategy, linewidth=1.0 if i else 2.5, color=colours(i % 20))
        if not i:
            low, high = zip(*(interval(group, n) for n in points), strict=True)
            least, most = ([max(1 - bound, LEAST) for bound in bounds] for bounds in (high, low))
            panel.fill_between(points, least, most, alpha=0.15, color=colours(i), linewidth=0)
    panel.set(xlabel="evaluations", ylabel="below the optimum's speed by", yscale="log")
    panel.set_title(f"{len(grouped(runs))} spaces, geometric means")
    panel.yaxis.set_major_formatter(ticker.PercentFormatter(1, decimals=1))
    panel.grid(alpha=0.3, which="both")
    panel.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
