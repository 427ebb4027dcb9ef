"""The score of the package autotuning_methodology for the runs of `search.py`.

It compares strategies over time. The time of an evaluation is what the recording says of building, verifying and timing
the configuration; where it says nothing, that of the timed runs. A score of 0 is that of random search as the package
computes it, 1 that of a strategy that has the optimum at once. The score is a mean over time and over spaces; the time
begins when random search has gone 1 % of the way from the median to the optimum, and ends when it has gone 95 %. The
package refuses a space if the searches do not cover that time. On a space where random search is next to the optimum in
that time, the score can be any number below 0, and decides the mean; so the median over spaces stands beside it.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.exchange.exports.trials import of_recording
from tuner.exchange.interop import t4
from tuner.tuning.recordings import recording

if TYPE_CHECKING:
    from search_tables import Run  # beside this file

COSTS, RUNS = ("compilation", "validation", "benchmark"), ("runtimes",)
PERFORMANCE = ["time"]
FROM, UNTIL = 0.01, 0.95  # of the way from the median to the optimum
STEPS = 1000
CONFIDENCE = 0.95


def scores(runs: Sequence[Run], paths: Mapping[str, Path]) -> str:
    """A line for each strategy, the best first. `paths` are the recordings by space. Raises ImportError without the
    package."""
    from autotuning_methodology.report_experiments import get_strategies_aggregated_performance

    names = list(dict.fromkeys(each.strategy for each in runs))
    found: dict[str, list[float]] = {name: [] for name in names}
    refused = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for space, path in paths.items():
            data = _of_space(Path(folder), space, path, names, [each for each in runs if each.space == space])
            try:
                curves, *_ = get_strategies_aggregated_performance([data], CONFIDENCE)
            except ValueError:
                refused.append(space)
                continue
            for name, curve in zip(names, curves, strict=True):
                found[name].append(float(curve.mean()))
    counted = len(paths) - len(refused)
    what = "score of autotuning_methodology, mean and median over"
    lines = [f"{what} {counted} spaces, 0 as random search, 1 as the optimum at once:"]
    if counted:
        means = {name: statistics.fmean(values) for name, values in found.items()}
        medians = {name: statistics.median(values) for name, values in found.items()}
        by_mean = sorted(names, key=lambda name: -means[name])
        lines += [f"  {name}: {means[name]:.3f}, {medians[name]:.3f}" for name in by_mean]
    return "\n".join([*lines, *([f"  refused: {', '.join(refused)}"] if refused else [])])


def _of_space(folder: Path, space: str, path: Path, names: Sequence[str], runs: Sequence[Run]) -> Any:
    """The baseline, the curves of the strategies, the statistics, and the ranges of time and evaluations."""
    import numpy as np
    from autotuning_methodology.baseline import RandomSearchCalculatedBaseline
    from autotuning_methodology.curves import StochasticOptimizationAlgorithm
    from autotuning_methodology.searchspace_statistics import SearchspaceStatistics

    data = recording.read(path)
    has_costs = any(entry.has_costs for entry in data.entries.values())
    document = t4.results(of_recording(data))
    by_row = dict(zip(data.entries, document["results"], strict=True))
    file = folder / f"{space}.json"
    file.write_text(json.dumps(document))
    times = list(COSTS if has_costs else RUNS)
    about = SearchspaceStatistics(space, data.device, True, times, PERFORMANCE, file, False)
    curves = []
    for name in names:
        repeats = [[_in_seconds(by_row[row]) for row in each.rows] for each in runs if each.strategy == name]
        described = _described(folder / name.replace(":", "_"), space, data.device, times, name, repeats)
        curves.append(StochasticOptimizationAlgorithm(described))
    first, last, start, end = about.cutoff_point_fevals_time_start_end(FROM, UNTIL)
    over = np.linspace(start, end, STEPS)
    return RandomSearchCalculatedBaseline(about), curves, about, over, np.arange(first, last + 1)


def _described(folder: Path, space: str, device: str, times: Sequence[str], name: str, repeats: Sequence[Any]) -> Any:
    """The results of a strategy on a space, as the package keeps them."""
    from autotuning_methodology.caching import ResultsDescription
    from autotuning_methodology.runner import write_results

    described = ResultsDescription(folder, space, device, name, name, True, list(times), PERFORMANCE, True)
    write_results(list(repeats), described)
    return described


def _in_seconds(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result of T4 with times in seconds, and no time for a configuration that failed."""
    times = result["times"].items()
    in_ms = {name: sum(value) if isinstance(value, list) else value for name, value in times}
    return {**result, "times": {name: value / 1e3 for name, value in in_ms.items()}}
