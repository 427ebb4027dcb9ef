"""Kernel Tuner's strategies over a pool, turned inside out.

Its strategies call a runner and wait for the results; ours are asked and told. So each strategy runs in its own thread,
and only while `ask` waits for it: the two never run at the same time.
"""

import contextlib
import functools
import importlib
import io
import queue
import random
import threading
import types
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.stats.qmc
from kernel_tuner.interface import Options, strategy_map
from kernel_tuner.runners.runner import Runner
from kernel_tuner.searchspace import Searchspace
from kernel_tuner.util import InvalidConfig, RuntimeFailedConfig, StopCriterionReached, TuningBudget
from threadpoolctl import ThreadpoolController

from tuner.errors import RequestError
from tuner.search.pool import Pool
from tuner.search.proposer import Proposer, any_free

# bayes_opt drops an acquisition function by the time that it took, which no seed repeats.
_STOPPED_CLOCK = types.SimpleNamespace(perf_counter=lambda: 0.0, perf_counter_ns=lambda: 0)
_EXCLUDED = ("pyatf_strategies", "skopt")  # does not run with 1.5.0; takes a second per evaluation
NAMES = tuple(sorted(set(strategy_map) - set(_EXCLUDED)))
MOST_STALE = 500  # calls in a row without a new configuration, before a strategy is started again


class _Stop(BaseException):
    """Ends the strategy's thread."""


def check(name: str) -> None:
    """Raises RequestError if a package that strategy `name` needs is not installed."""
    try:
        repr(strategy_map[name].tune)
    except ImportError as error:
        raise RequestError(f"--strategy kt:{name}: {error}; install it, or take another strategy") from None


class KernelTunerStrategy(Proposer):
    """Strategy `name` of Kernel Tuner 1.5.

    A configuration that it asks for again is answered from memory. A strategy that stops early is started again. If it
    then finds nothing new, random configurations use up the budget. All that it evaluates in one call, such as a
    generation, may be outstanding at the same time.
    """

    _one_at_a_time: ClassVar[threading.Lock] = threading.Lock()  # strategies draw from the process's generators

    def __init__(self, name: str, pool: Pool, seed: int, evaluations: int, seconds: float | None) -> None:
        """Some strategies set their pace by the budget, `evaluations` and `seconds`."""
        super().__init__(pool)
        self._tune = strategy_map[name].tune
        self._module = importlib.import_module(self._tune.__module__)
        self._rng = np.random.default_rng(seed)
        # Kernel Tuner's `seed` option reaches pymoo's strategies only, and Latin hypercubes have their own generator.
        self._state = random.Random(seed).getstate(), np.random.RandomState(seed % 2**32).get_state()  # noqa: S311
        self._hypercube = functools.partial(scipy.stats.qmc.LatinHypercube, rng=np.random.default_rng(seed))
        self._results: dict[int, Sequence[float] | None] = {}
        self._batch: deque[int] = deque()
        self._outstanding: set[int] = set()
        self._filling = False
        self._libraries = ThreadpoolController()
        self._runner = _Runner(self)
        self._budget = TuningBudget(seconds, evaluations)
        self._options = Options(
            strategy=name,
            strategy_options=Options({} if name == "brute_force" else {"max_fevals": evaluations}),
            objective=["time"],
            objective_higher_is_better=[False],
            tune_params={n: list(values) for n, values in zip(pool.names, pool.values, strict=True)},
            max_fevals=evaluations,
            budget=self._budget,
            simulation_mode=False,
            seed=seed,
            verbose=False,
        )
        self._go: queue.SimpleQueue[bool] = queue.SimpleQueue()  # False: stop
        self._requests: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()  # rows without a result; None: ended
        self._thread: threading.Thread | None = None

    def _next(self) -> int | None:
        while self._batch and not self.free[self._batch[0]]:
            self._batch.popleft()
        if not self._batch and not self._outstanding and not self._filling:
            self._resume()
        if self._batch:
            row = self._batch.popleft()
        elif self._filling:
            row = any_free(self.free, self._rng)
        else:
            return None
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

    def close(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._go.put(False)
            self._thread.join(timeout=5)

    def _resume(self) -> None:
        """Let the strategy run until it asks for configurations without a result, or gives up."""
        with self._isolation():
            if self._thread is None:
                self._thread = threading.Thread(target=self._body, name="strategy", daemon=True)
                self._thread.start()
            else:
                self._go.put(True)
            rows = self._requests.get()
        self._filling = rows is None
        self._batch.extend(rows or ())

    @contextlib.contextmanager
    def _isolation(self) -> Iterator[None]:
        """Give the process's random generators the strategy's own state, and keep its output from standard output."""
        with self._one_at_a_time, contextlib.ExitStack() as stack:
            state = random.getstate(), np.random.get_state()  # noqa: NPY002
            random.setstate(self._state[0])
            np.random.set_state(self._state[1])  # noqa: NPY002
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(self._libraries.limit(limits=1, user_api="blas"))  # one order of sums
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(_replacement(scipy.stats.qmc, "LatinHypercube", self._hypercube))
            stack.enter_context(_replacement(self._module, "LatinHypercube", self._hypercube))
            stack.enter_context(_replacement(self._module, "time", _STOPPED_CLOCK))
            try:
                yield
            finally:
                self._state = random.getstate(), np.random.get_state()  # noqa: NPY002
                random.setstate(state[0])
                np.random.set_state(state[1])  # noqa: NPY002

    def _body(self) -> None:
        """In the strategy's thread: run it again as long as it finds something new."""
        try:
            configurations = {str(row): self.pool.config(row) for row in range(len(self.pool))}
            parameters = dict(self._options["tune_params"])
            space = Searchspace(None, None, None, from_cache={"tune_params": parameters, "cache": configurations})
            before = -1
            while len(self._results) > before:
                before, self._runner.stale = len(self._results), 0
                with contextlib.suppress(Exception):  # some fail in small spaces, which ends this run only
                    self._tune(space, self._runner, self._options)
        except _Stop:
            pass
        finally:
            self._requests.put(None)

    def results(self, keys: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
        """In the strategy's thread: wait for the results of the configurations `keys`, and return them."""
        configs = [dict(zip(self.pool.names, key, strict=True)) for key in keys]
        rows = [self.pool.find(config) for config in configs]
        new = list(dict.fromkeys(row for row in rows if row is not None and row not in self._results))
        self._runner.stale = 0 if new else self._runner.stale + 1
        if self._runner.stale > MOST_STALE:
            raise StopCriterionReached("nothing new")
        if new:
            self._requests.put(new)
            if not self._go.get():
                raise _Stop
        return [{**config, **self._result(row)} for row, config in zip(rows, configs, strict=True)]

    def _result(self, row: int | None) -> dict[str, Any]:
        """The result of `row`, None for a configuration outside the pool, as Kernel Tuner's runners give it."""
        if row is None:
            return {"__error__": InvalidConfig()}
        values = self._results[row]
        return {"__error__": RuntimeFailedConfig()} if values is None else {"time": values[0]}


@contextlib.contextmanager
def _replacement(module: types.ModuleType, name: str, value: Any) -> Iterator[None]:
    """Put `value` in the place of `module.name`, if that exists, while the context is open."""
    original = getattr(module, name, None)
    if original is not None:
        setattr(module, name, value)
    try:
        yield
    finally:
        if original is not None:
            setattr(module, name, original)


class _Runner(Runner):  # type: ignore[misc]  # kernel_tuner has no types
    """Stands in for Kernel Tuner's own runner, without a device."""

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
