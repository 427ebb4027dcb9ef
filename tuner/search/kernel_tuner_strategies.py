"""Kernel Tuner's strategies over a pool, behind the ask-and-tell interface.

Kernel Tuner's strategies call a runner and wait for results; a Proposer is asked and told. So a strategy runs in its
own thread, and only while `ask` waits for it: the two never run concurrently. It needs its own process, because
strategies use the global random generators, print, and may never terminate.
"""

import functools
import importlib
import queue
import random
import threading
import types
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from kernel_tuner.interface import Options, strategy_map
from kernel_tuner.runners.runner import Runner
from kernel_tuner.searchspace import Searchspace
from kernel_tuner.util import InvalidConfig, RuntimeFailedConfig, StopCriterionReached, TuningBudget

from tuner.errors import OptionError
from tuner.search.pool import Pool
from tuner.search.proposer import Exhausted, Proposer

# bayes_opt drops acquisition functions by their run time, which would make a search irreproducible.
_STOPPED_CLOCK = types.SimpleNamespace(perf_counter=lambda: 0.0, perf_counter_ns=lambda: 0)
OF_HYPERCUBES = ("bayes_opt", "diff_evo")  # strategies that begin with a Latin hypercube
MOST_STALE = 500  # consecutive calls without a new configuration before a strategy is restarted


def check(name: str) -> None:
    """Raise OptionError if a package that strategy `name` needs is not installed."""
    try:
        repr(strategy_map[name].tune)
    except ImportError as error:
        raise OptionError(f"kt:{name}: {error}; install it, or take another strategy", "strategy") from None


def options(name: str) -> frozenset[str]:
    """The names of the options that only strategy `name` has. Raises OptionError as `check` does."""
    check(name)
    return frozenset(importlib.import_module(strategy_map[name].tune.__module__)._options)


class KernelTunerStrategy(Proposer):
    """Strategy `name` of Kernel Tuner 1.5.

    Repeated evaluations of a configuration are answered from memory. A strategy that stops early is restarted as long
    as it finds new configurations, unless it is given options. All configurations that it evaluates in one call, such
    as a generation, may be outstanding at the same time. A process may have only one instance.
    """

    def __init__(
        self,
        name: str,
        pool: Pool,
        seed: int,
        evaluations: int,
        seconds: float | None,
        strategy_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Some strategies schedule themselves by the budget: `evaluations` configurations and `seconds`.

        strategy_options: those of Kernel Tuner. The strategy then runs once, as there. Default: as many runs as find
            something.
        """
        super().__init__(pool)
        self._tune = strategy_map[name].tune
        self._module = importlib.import_module(self._tune.__module__)
        # Kernel Tuner's `seed` option only affects pymoo's strategies, and Latin hypercubes have their own generator.
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        replaced: dict[str, Any] = {"time": _STOPPED_CLOCK}
        if name in OF_HYPERCUBES:
            import scipy.stats.qmc  # which takes half a second

            drawn = functools.partial(scipy.stats.qmc.LatinHypercube, rng=np.random.default_rng(seed))
            scipy.stats.qmc.LatinHypercube = replaced["LatinHypercube"] = drawn
        for attribute, value in replaced.items():
            if hasattr(self._module, attribute):
                setattr(self._module, attribute, value)
        self._results: dict[int, Sequence[float] | None] = {}
        self._batch: deque[int] = deque()
        self._outstanding: set[int] = set()
        self._is_over, self._trouble = False, ""
        self._runner = _Runner(self)
        self._budget = TuningBudget(seconds, evaluations)
        limits = {} if name == "brute_force" else {"max_fevals": evaluations}
        self._options = Options(
            strategy=name,
            strategy_options=Options(limits if strategy_options is None else strategy_options),
            objective=["time"],
            objective_higher_is_better=[False],
            tune_params={n: list(values) for n, values in zip(pool.names, pool.values, strict=True)},
            max_fevals=evaluations,
            budget=self._budget,
            simulation_mode=False,
            seed=seed,
            verbose=False,
        )
        self._runs_once = strategy_options is not None
        self._go: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._requests: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()  # rows to measure; None: the end
        self._thread: threading.Thread | None = None

    def _next(self) -> int | None:
        while self._batch and not self.free[self._batch[0]]:
            self._batch.popleft()
        if not self._batch and not self._outstanding and not self._is_over:
            self._resume()
        if self._is_over and self._runs_once and not self._trouble:
            return None
        if self._is_over:
            known = f"{len(self._results)} of {len(self.pool)}"
            raise Exhausted(f"has nothing more to ask for after {known} configurations{self._trouble}")
        if not self._batch:
            return None
        row = self._batch.popleft()
        self._outstanding.add(row)
        return row

    def _expect(self, row: int) -> None:
        self._outstanding.add(row)

    def _learn(self, row: int, values: Sequence[float] | None) -> None:
        if row in self._outstanding:
            self._outstanding.remove(row)
            self._budget.add_evaluations(1)
        self._results[row] = values

    def likely(self, count: int) -> list[int]:
        return [row for row in self._batch if self.free[row]][:count]

    def _resume(self) -> None:
        """Let the strategy run until it asks for configurations without a result, or ends."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._body, name="strategy", daemon=True)
            self._thread.start()
        else:
            self._go.put(None)
        rows = self._requests.get()
        self._is_over = rows is None
        self._batch.extend(rows or ())

    def _body(self) -> None:
        """The strategy's thread: run the strategy again as long as it finds new configurations."""
        try:
            configurations = {str(row): config for row, config in enumerate(self.pool.configs())}
            parameters = dict(self._options["tune_params"])
            space = Searchspace(None, None, None, from_cache={"tune_params": parameters, "cache": configurations})
            before = -1
            while len(self._results) > before:
                before, self._runner.stale = len(self._results), 0
                try:
                    self._tune(space, self._runner, self._options)
                    self._trouble = ""
                except StopCriterionReached:
                    self._trouble = ""
                except Exception as error:  # some fail in small spaces; that ends only this run
                    self._trouble = f": {type(error).__name__}: {error}"
                if self._runs_once:
                    break
        finally:
            self._requests.put(None)

    def results(self, keys: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
        """The results of the configurations `keys`. Called in the strategy's thread, which waits for them."""
        configs = [dict(zip(self.pool.names, key, strict=True)) for key in keys]
        rows = [self.pool.find(config) for config in configs]
        new = list(dict.fromkeys(row for row in rows if row is not None and row not in self._results))
        self._runner.stale = 0 if new else self._runner.stale + 1
        if self._runner.stale > MOST_STALE:
            raise StopCriterionReached("nothing new")
        if new:
            self._requests.put(new)
            self._go.get()
        return [{**config, **self._result(row)} for row, config in zip(rows, configs, strict=True)]

    def _result(self, row: int | None) -> dict[str, Any]:
        """The result of `row` in the form of Kernel Tuner's runners. `row` is None for a configuration outside the
        pool."""
        if row is None:
            return {"__error__": InvalidConfig()}
        values = self._results[row]
        return {"__error__": RuntimeFailedConfig()} if values is None else {"time": values[0]}


class _Runner(Runner):  # type: ignore[misc]  # kernel_tuner has no types
    """A Kernel Tuner runner that asks the proposer for results instead of a device."""

    def __init__(self, proposer: KernelTunerStrategy) -> None:
        super().__init__()
        self._proposer = proposer
        self.stale = 0
        self.dev = types.SimpleNamespace(max_threads=1024)  # bayes_opt reads it

    def run(self, parameter_space: Iterable[Sequence[Any]], tuning_options: Any) -> list[dict[str, Any]]:
        return self._proposer.results(parameter_space)

    def get_device_info(self) -> Any:
        return self.dev

    def get_environment(self, tuning_options: Any) -> dict[str, Any]:
        return {}
