"""Kernel Tuner's strategies over a pool, turned inside out.

Its strategies call a runner and wait for the answer; ours are asked and told. So a strategy runs in a thread of its own
that stands still except while `ask` waits for it: never do both run.
"""

from __future__ import annotations

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

# bayes_opt drops one of its acquisition functions by what they took, which no seed repeats.
_STOPPED = types.SimpleNamespace(perf_counter=lambda: 0.0, perf_counter_ns=lambda: 0)
_LEFT_OUT = ("pyatf_strategies", "skopt")  # the first does not run with 1.5.0, the second takes a second an evaluation
NAMES = tuple(sorted(set(strategy_map) - set(_LEFT_OUT)))
STALE = 500  # calls in a row without a new configuration, after which a strategy is started again


class _Closed(BaseException):
    """Ends the strategy's thread."""


def check(name: str) -> None:
    """Raises RequestError where a package that strategy `name` needs is not installed."""
    try:
        repr(strategy_map[name].tune)
    except ImportError as error:
        raise RequestError(f"--strategy kt:{name}: {error}; install it, or take another strategy") from None


class ThroughKernelTuner(Proposer):
    """Strategy `name` of Kernel Tuner 1.5.

    What it asks for again is answered from memory. One that stops early is started again; one that then finds nothing
    new is filled up at random, so that a budget is always reached. All that it evaluates in one call, such as a
    generation, may be outstanding at a time.
    """

    _one_at_a_time: ClassVar[threading.Lock] = threading.Lock()  # the generators it draws from are the process's

    def __init__(self, name: str, pool: Pool, seed: int, evaluations: int, seconds: float | None) -> None:
        """`evaluations` and `seconds` are the budget, by which some strategies set their pace."""
        super().__init__(pool)
        self._tune = strategy_map[name].tune
        self._module = importlib.import_module(self._tune.__module__)
        self._rng = np.random.default_rng(seed)
        # Its own `seed` option reaches none but pymoo's, and Latin hypercubes are drawn from a generator of their own.
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
        self._go: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._wanted: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def _next(self) -> int | None:
        while self._batch and not self.free[self._batch[0]]:
            self._batch.popleft()
        if not self._batch and not self._outstanding and not self._filling:
            self._run_on()
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

    def _run_on(self) -> None:
        """Let the strategy run until it wants configurations that are not known, or gives up."""
        with self._surroundings():
            if self._thread is None:
                self._thread = threading.Thread(target=self._body, name="strategy", daemon=True)
                self._thread.start()
            else:
                self._go.put(True)
            wanted = self._wanted.get()
        self._filling = wanted is None
        self._batch.extend(wanted or ())

    @contextlib.contextmanager
    def _surroundings(self) -> Iterator[None]:
        """The process's generators in the strategy's own state, and its chatter kept away from standard output."""
        with self._one_at_a_time, contextlib.ExitStack() as stack:
            outside = random.getstate(), np.random.get_state()  # noqa: NPY002
            random.setstate(self._state[0])
            np.random.set_state(self._state[1])  # noqa: NPY002
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(self._libraries.limit(limits=1, user_api="blas"))  # sums in one order
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(_replaced(scipy.stats.qmc, "LatinHypercube", self._hypercube))
            stack.enter_context(_replaced(self._module, "LatinHypercube", self._hypercube))
            stack.enter_context(_replaced(self._module, "time", _STOPPED))
            try:
                yield
            finally:
                self._state = random.getstate(), np.random.get_state()  # noqa: NPY002
                random.setstate(outside[0])
                np.random.set_state(outside[1])  # noqa: NPY002

    def _body(self) -> None:
        """The thread: the strategy, again and again as long as it finds something new."""
        try:
            configurations = {str(row): self.pool.config(row) for row in range(len(self.pool))}
            parameters = dict(self._options["tune_params"])
            space = Searchspace(None, None, None, from_cache={"tune_params": parameters, "cache": configurations})
            known = -1
            while len(self._results) > known:
                known, self._runner.stale = len(self._results), 0
                with contextlib.suppress(Exception):  # some fail in small spaces; that costs them their turn
                    self._tune(space, self._runner, self._options)
        except _Closed:
            pass
        finally:
            self._wanted.put(None)

    def results(self, keys: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
        """In the strategy's thread: a result for each configuration, once all are known."""
        configs = [dict(zip(self.pool.names, key, strict=True)) for key in keys]
        rows = [self.pool.find(config) for config in configs]
        new = list(dict.fromkeys(row for row in rows if row is not None and row not in self._results))
        self._runner.stale = 0 if new else self._runner.stale + 1
        if self._runner.stale > STALE:
            raise StopCriterionReached("nothing new")
        if new:
            self._wanted.put(new)
            if not self._go.get():
                raise _Closed
        made: list[dict[str, Any]] = []
        for row, config in zip(rows, configs, strict=True):
            values = self._results[row] if row is not None else None
            failure = InvalidConfig() if row is None else RuntimeFailedConfig()
            made.append({**config, **({"__error__": failure} if values is None else {"time": values[0]})})
        return made


@contextlib.contextmanager
def _replaced(module: types.ModuleType, name: str, value: Any) -> Iterator[None]:
    """`value` under a name of `module`, if it has that name, for as long as the context is open."""
    before = getattr(module, name, None)
    if before is not None:
        setattr(module, name, value)
    try:
        yield
    finally:
        if before is not None:
            setattr(module, name, before)


class _Runner(Runner):  # type: ignore[misc]  # kernel_tuner has no types
    """Sits where Kernel Tuner's own runner would, and holds no device."""

    def __init__(self, asker: ThroughKernelTuner) -> None:
        super().__init__()
        self._asker = asker
        self.stale = 0
        self.dev = types.SimpleNamespace(max_threads=1024)  # bayes_opt looks

    def run(self, parameter_space: Iterable[Sequence[Any]], tuning_options: Any) -> list[dict[str, Any]]:
        return self._asker.results(parameter_space)

    def get_device_info(self) -> Any:
        return self.dev

    def get_environment(self, tuning_options: Any) -> dict[str, Any]:
        return {}
