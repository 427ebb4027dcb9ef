"""How often racing changes the winner, simulated on recordings that hold every time of every configuration.

    python benchmarks/racing.py RECORDINGS... --orders 200

A recording is in Kernel Tuner's cache format. For each random order of its configurations,
`tuner.measure.timing.race.Race` decides by the first recorded time whether a configuration is repeated. The five best
go to the finals, where the full median decides. Prints how often the winner is the overall best, how much slower it is
at worst, and the share of the repeats that were run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import numpy as np

from tuner.measure.method import STANDARD
from tuner.measure.timing.race import RACE
from tuner.tuning.finals.entrants import FINALISTS
from tuner.tuning.recordings import recording


def race(configurations: list[list[float]], order: list[int]) -> tuple[float, int]:
    """The winner's full median in ms, and the number of repeats that were run."""
    best, repeats, ranking = float("inf"), 0, []
    for i in order:
        times = configurations[i]
        times = times[:1] if times[0] > RACE * best else times[: STANDARD.repeats]
        repeats += len(times)
        best = min(best, median(times))
        ranking.append((median(times), i))
    return min(median(configurations[i]) for _, i in sorted(ranking)[:FINALISTS]), repeats


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--orders", type=int, default=200)
    options = parser.parse_args()
    for path in options.recordings:
        configurations = [list(e.times) for e in recording.read(path).entries.values() if len(e.times) > 1]
        optimum = min(median(times) for times in configurations)
        races = []
        for seed in range(options.orders):
            order = np.random.default_rng(seed).permutation(len(configurations))
            races.append(race(configurations, order.tolist()))
        losses = [winner / optimum - 1 for winner, _ in races]
        share = sum(repeats for _, repeats in races) / (len(races) * len(configurations) * STANDARD.repeats)
        print(
            f"{path.name}: {len(configurations)} configurations; winner the best in {losses.count(0)} of {len(losses)} "
            f"orders, at worst {max(losses):.2%} slower; {share:.0%} of the repeats run"
        )


if __name__ == "__main__":
    main()
