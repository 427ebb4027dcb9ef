"""Time of the default strategy per configuration, on pools of two sizes, without measurements.

    python benchmarks/strategy_time.py --trials 400

Asks and tells on one core; a smooth synthetic function provides the values. Prints the mean and the longest time of an
ask with its tell, and the time to build the pool.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from statistics import mean

from tuner.search.budget import Budget
from tuner.search.pool import Pool
from tuner.search.strategies import Search

SPACES = {18_000: ((2, 4, 8, 16),) * 5 + ((16, 32, 64), (1, 2), (0, 1), (0, 1)), 1_000_000: ((1, 2, 3, 4),) * 10}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    options = parser.parse_args()
    for size, values in SPACES.items():
        parameters = {f"p{i}": choices for i, choices in enumerate(values)}
        combinations = list(itertools.product(*values))
        valid = [combinations[i * len(combinations) // size] for i in range(size)]  # evenly over all
        start = time.perf_counter()
        pool = Pool(parameters, valid)
        build_s = time.perf_counter() - start
        times = []
        with Search("optuna", pool, Budget(options.trials), seed=1) as search:
            start = time.perf_counter()
            while (config := search.ask()) is not None:
                logs = [math.log2(float(v) + 1.0) for v in config.values()]
                value = 1.0 + sum((x - 1.5 - 0.1 * i) ** 2 for i, x in enumerate(logs)) + 0.3 * logs[0] * logs[1]
                search.tell(config, value)
                times.append((time.perf_counter() - start) * 1e3)
                start = time.perf_counter()
        print(
            f"{len(pool):,} configurations, {len(times)} trials: {mean(times):.1f} ms each, "
            f"{max(times):.0f} ms at most; {build_s:.1f} s to build the pool"
        )


if __name__ == "__main__":
    main()
