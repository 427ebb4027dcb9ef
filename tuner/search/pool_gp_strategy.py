"""`PoolGPStrategy`: the default strategy as a strategy for an unchanged Kernel Tuner."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from kernel_tuner.strategies import common
from kernel_tuner.util import get_result_cost

from tuner.errors import RequestError
from tuner.search.pool import Pool
from tuner.search.pool_gp import PoolGP
from tuner.space.config import Value

# Options that `tune_kernel` itself evaluates; `x0` is a configuration to begin with.
OPTIONS = {"x0": ("Configuration to measure first", None)}


def strategy(seed: int | None = None, warm: Iterable[Mapping[str, Value]] = ()) -> PoolGPStrategy:
    """The default strategy of `tune`, as the `strategy` of an unchanged `kernel_tuner.tune_kernel`.

    It measures only valid configurations, each once, and stops when all are measured or when the budget in
    `strategy_options` (`max_fevals`, `time_limit`) is used up. The option `x0`, a value for each parameter, is measured
    first. `PoolGP` describes the algorithm. Several objectives, each minimised or maximised, are supported, as are
    caches and simulation mode.

    Args:
        seed: A random seed. Default: the seed that `tune_kernel` is given, or none, which is a different search each
            time.
        warm: Configurations to measure first, as dictionaries; those that are not valid are skipped.

    Example::

        import kernel_tuner
        import tuner

        results, env = kernel_tuner.tune_kernel(
            "scale", "scale.cu", n, [y, x, a, n], {"block_size_x": [32, 64, 128, 256]},
            strategy=tuner.strategy(), strategy_options={"max_fevals": 100},
        )
    """
    return PoolGPStrategy(seed, warm)


class PoolGPStrategy:
    """What `strategy` returns."""

    def __init__(self, seed: int | None, warm: Iterable[Mapping[str, Value]]) -> None:
        self.seed, self.warm = seed, list(warm)

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        """The method that Kernel Tuner calls: returns a dictionary for each measured configuration.

        searchspace: a `kernel_tuner.searchspace.Searchspace`.
        runner: measures lists of configurations.
        tuning_options: the options of `tune_kernel`.
        """
        options = tuning_options.strategy_options or {}
        common.get_options(options, OPTIONS)
        if not searchspace.size:
            return []
        parameters = {name: list(dict.fromkeys(values)) for name, values in searchspace.tune_params.items()}
        pool = Pool(parameters, searchspace.list)
        seed = tuning_options.get("seed") if self.seed is None else self.seed
        first = [_first(options["x0"], pool)] if options.get("x0") else []
        block = [name for name in searchspace.block_size_names if name in pool.names]
        model = PoolGP(pool, seed, [*first, *self.warm], block)
        results: list[dict[str, Any]] = []
        while not tuning_options.budget.is_done():
            began = time.perf_counter()
            row = model.ask()
            runner.add_strategy_time(time.perf_counter() - began)
            if row is None:  # every valid configuration has been measured
                break
            for result in runner.run([tuple(pool.config(row).values())], tuning_options):
                if result is not None:  # None: the budget was used up meanwhile
                    results.append(result)
                    model.tell(row, _costs(result, tuning_options))
        return results


def _first(values: Any, pool: Pool) -> dict[str, Value]:
    if len(values) != len(pool.names):
        raise RequestError(
            f"strategy_options: x0: {values!r}: write {len(pool.names)} values, one for each of {', '.join(pool.names)}"
        )
    return dict(zip(pool.names, values, strict=True))


def _costs(result: dict[str, Any], tuning_options: Any) -> list[float] | None:
    """The value of each objective, lower is better; None for a configuration that failed."""
    if "__error__" in result:
        return None
    costs = get_result_cost(result, tuning_options.objective, tuning_options.objective_higher_is_better)
    return [float(cost) for cost in costs]
