"""Time of the default strategy per configuration, on pools of two sizes, without measurements.

    python benchmarks/strategy_time.py --trials 200 400

Asks and tells on one core; a smooth synthetic function provides the values. Prints the processor time of an ask with
its tell, mean and longest, of building the pool, and of importing SciPy, which `tune` does while it opens the device.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from importlib import import_module
from statistics import mean

from tuner.search.budget import Budget
from tuner.search.pool import Pool
from tuner.search.search import Search

SPACES = {18_000: ((2, 4, 8, 16),) * 5 + ((16, 32, 64), (1, 2), (0, 1), (0, 1)), 1_000_000: ((1, 2, 3, 4),) * 10}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, nargs="+", default=[200, 400])
    options = parser.parse_args()
    start = time.process_time()
    import_module("tuner.search.posterior")
    print(f"{time.process_time() - start:.2f} s to import SciPy")
    for size, values in SPACES.items():
        parameters = {f"p{i}": choices for i, choices in enumerate(values)}
        combinations = list(itertools.product(*values))
        valid = [combinations[i * len(combinations) // size] for i in range(size)]  # evenly over all
        start = time.process_time()
        pool = Pool(parameters, valid)
        print(f"{len(pool):,} configurations: {time.process_time() - start:.2f} s to build the pool")
        for trials in options.trials:
            times = times_ms(pool, trials)
            print(f"  {len(times)} trials: {mean(times):.1f} ms each, {max(times):.0f} ms at most")


def times_ms(pool: Pool, trials: int) -> list[float]:
    """The processor time in ms of each ask with its tell."""
    times = []
    with Search("optuna", pool, Budget(trials), seed=1) as search:
        start = time.process_time()
        while (config := search.ask()) is not None:
            logs = [math.log2(float(v) + 1.0) for v in config.values()]
            value = 1.0 + sum((x - 1.5 - 0.1 * i) ** 2 for i, x in enumerate(logs)) + 0.3 * logs[0] * logs[1]
            search.tell(config, value)
            times.append((time.process_time() - start) * 1e3)
            start = time.process_time()
    return times


if __name__ == "__main__":
    main()
