"""Does racing change which configuration wins? Played on recordings that hold every time of every configuration.

    python benchmarks/racing.py RECORDINGS... --orders 200

For each recording (Kernel Tuner's cache format) and each random order of its configurations, the rule of
`tuner.measure.timing.Race` decides from the first recorded time whether a configuration is repeated; the five best go
to the finals, where the full median decides. Prints how often the winner is the best of all, by how much it is slower
where it is not, and how many of the repeats were run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import numpy as np

from tuner.exchange import recording
from tuner.measure.method import STANDARD
from tuner.measure.timing import RACE
from tuner.tuning.selection import FINALISTS


def raced(configurations: list[list[float]], order: list[int]) -> tuple[float, int]:
    """The winner's full median in ms, and how many times were taken."""
    best, taken, found = float("inf"), 0, []
    for i in order:
        times = configurations[i]
        seen = times[:1] if times[0] > RACE * best else times[: STANDARD.repeats]
        taken += len(seen)
        value = median(seen)
        best = min(best, value)
        found.append((value, i))
    return min(median(configurations[i]) for _, i in sorted(found)[:FINALISTS]), taken


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--orders", type=int, default=200)
    options = parser.parse_args()
    for path in options.recordings:
        configurations = [list(e.times) for e in recording.read(path).entries.values() if len(e.times) > 1]
        optimum = min(median(times) for times in configurations)
        played = []
        for seed in range(options.orders):
            order = np.random.default_rng(seed).permutation(len(configurations))
            played.append(raced(configurations, order.tolist()))
        off = [winner / optimum - 1 for winner, _ in played]
        share = sum(taken for _, taken in played) / (len(played) * len(configurations) * STANDARD.repeats)
        print(
            f"{path.name}: {len(configurations)} configurations; winner the best in {sum(o == 0 for o in off)} of "
            f"{len(off)} orders, at worst {max(off):.2%} slower; {share:.0%} of the repeats run"
        )


if __name__ == "__main__":
    main()
