"""Strategies behind one door: each proposes valid configurations, one after the other, through Kernel Tuner's runner
interface, until the budget is spent or the space is exhausted."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from kernel_tuner.interface import Options
from kernel_tuner.runners.runner import Runner
from kernel_tuner.searchspace import Searchspace
from kernel_tuner.util import RuntimeFailedConfig, StopCriterionReached, TuningBudget

from tuner.errors import RequestError
from tuner.space import Config

STRATEGIES = {"brute_force": "brute_force", "random": "random_sample"}


class Evaluate(Protocol):
    """What answers a strategy."""

    def prepare(self, configs: Iterable[Config]) -> None:
        """Told, before each call, what will be asked for after it, as far as the strategy has said."""

    def __call__(self, config: Config) -> float | None:
        """The time of `config` in ms; None where it failed."""


@dataclass(frozen=True)
class Budget:
    """How much may be spent: configurations, seconds, or neither."""

    evaluations: int | None = None
    seconds: float | None = None

    @staticmethod
    def parse(text: str | None) -> Budget:
        """`100` configurations, `90s`, `2m` or `1h`. Raises RequestError for anything else."""
        if text is None:
            return Budget()
        units = {"s": 1, "m": 60, "h": 3600}
        number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "")
        try:
            value = float(number) if unit else int(number)
        except ValueError:
            value = 0
        if not 0 < value < 10**9:
            raise RequestError(
                f"--budget {text!r}: write a number of configurations such as 100, or a time: 90s, 2m, 1h"
            )
        return Budget(seconds=value * units[unit]) if unit else Budget(evaluations=int(value))


def choose(name: str | None, budget: Budget) -> str:
    """The strategy to use: all configurations unless a budget limits them. Raises RequestError for an unknown one."""
    if name is None:
        return "brute_force" if budget == Budget() else "random"
    if name not in STRATEGIES:
        raise RequestError(f"--strategy {name!r}: there is no such strategy; there are: {', '.join(STRATEGIES)}")
    return name


def search(
    name: str, searchspace: Searchspace, parameters: Sequence[str], evaluate: Evaluate, budget: Budget, seed: int = 0
) -> None:
    """Let strategy `name` propose configurations to `evaluate`, which returns the time in ms, None for a failure.

    `parameters` are the names of the values in `searchspace`. No configuration is proposed twice. The same seed gives
    the same proposals, if the times are the same.
    """
    # Kernel Tuner's own `seed` option reaches none of its strategies but pymoo's.
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the generator that Searchspace draws from
    limited = TuningBudget(budget.seconds, min(budget.evaluations or searchspace.size, searchspace.size))
    options = Options(
        strategy_options=Options(),
        objective=["time"],
        objective_higher_is_better=[False],
        tune_params=searchspace.tune_params,
        max_fevals=limited.max_fevals,
        budget=limited,
        verbose=False,
    )
    strategy = importlib.import_module(f"kernel_tuner.strategies.{STRATEGIES[name]}")
    with contextlib.suppress(StopCriterionReached):
        strategy.tune(searchspace, KernelTunerRunner(parameters, evaluate), options)


class KernelTunerRunner(Runner):  # type: ignore[misc]  # kernel_tuner has no types
    """Sits where Kernel Tuner's own runner would, and asks us instead of a device. Holds no device."""

    def __init__(self, parameters: Sequence[str], evaluate: Evaluate) -> None:
        super().__init__()
        self._names = parameters
        self._evaluate = evaluate
        self._seen: dict[tuple[Any, ...], dict[str, Any]] = {}

    def run(self, parameter_space: Iterable[tuple[Any, ...]], tuning_options: Any) -> list[dict[str, Any] | None]:
        """A result for each configuration; None for those that the budget did not reach.

        A repeated one is answered from memory and costs no budget.
        """
        results: list[dict[str, Any] | None] = []
        asked = [tuple(configuration) for configuration in parameter_space]
        for position, key in enumerate(asked):
            if key not in self._seen:
                if tuning_options.budget.is_done():
                    results.append(None)
                    continue
                tuning_options.budget.add_evaluations(1)
                config = self._config(key)
                self._evaluate.prepare(self._config(later) for later in itertools.islice(asked, position, None))
                time_ms = self._evaluate(config)
                failed = {"__error__": RuntimeFailedConfig()}
                self._seen[key] = {**config, **(failed if time_ms is None else {"time": time_ms})}
            results.append(self._seen[key])
        return results

    def _config(self, key: tuple[Any, ...]) -> Config:
        return dict(zip(self._names, key, strict=True))

    def get_device_info(self) -> Any:
        return None

    def get_environment(self, tuning_options: Any) -> dict[str, Any]:
        return {}
