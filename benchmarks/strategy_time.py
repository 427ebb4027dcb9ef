"""Time that the default strategy takes for one configuration, on pools of two sizes, with nothing measured.

    python benchmarks/strategy_time.py --trials 400

Asks and tells on one core; a made-up smooth function gives the values. Prints the mean and the longest time of an ask
with its tell, and what building the pool and starting took.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time

from tuner.search.pool import Pool
from tuner.search.strategies import Budget, Search

SPACES = {18_000: ((2, 4, 8, 16),) * 5 + ((16, 32, 64), (1, 2), (0, 1), (0, 1)), 1_000_000: ((1, 2, 3, 4),) * 10}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    options = parser.parse_args()
    for size, values in SPACES.items():
        parameters = {f"p{i}": choices for i, choices in enumerate(values)}
        every = list(itertools.product(*values))
        valid = [every[i * len(every) // size] for i in range(size)]  # evenly over all combinations
        began = time.perf_counter()
        pool = Pool(parameters, valid)
        built = time.perf_counter() - began
        took = []
        with Search("optuna", pool, Budget(options.trials), seed=1) as search:
            while True:
                began = time.perf_counter()
                config = search.ask()
                if config is None:
                    break
                logs = [math.log2(float(v) + 1.0) for v in config.values()]
                value = 1.0 + sum((x - 1.5 - 0.1 * i) ** 2 for i, x in enumerate(logs)) + 0.3 * logs[0] * logs[1]
                search.tell(config, value)
                took.append((time.perf_counter() - began) * 1e3)
        print(
            f"{len(pool):,} configurations, {len(took)} trials: {sum(took) / len(took):.1f} ms each, "
            f"{max(took):.0f} ms at most; {built:.1f} s to build the pool"
        )


if __name__ == "__main__":
    main()
