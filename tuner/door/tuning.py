"""`tune_kernel` with the signature and the results of Kernel Tuner 1.5."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import kernel_tuner

from tuner.door.calls import checks
from tuner.door.calls.call import ELSEWHERE, Call
from tuner.door.calls.device_names import advised, device_name
from tuner.door.calls.goal import Goal
from tuner.door.results import Row
from tuner.door.session import Session
from tuner.errors import OptionError, RequestError
from tuner.measure.method import TIMEOUT, Method
from tuner.quoting import quoted
from tuner.search.pool_gp_strategy import PoolGPStrategy
from tuner.search.strategies import KERNEL_TUNER_STRATEGIES
from tuner.tuning.request import TuningRequest

SIMULATED = kernel_tuner.tune_kernel  # Kernel Tuner's own, which may be replaced later
# Strategies that do the same here. Ours need no second process, and tell what to compile ahead.
OURS = {"brute_force": "brute_force", "random_sample": "random"}
# The part of a space that `random_sample` measures if it has no budget.
RANDOM_FRACTION = 0.1
LIMITS = frozenset({"max_fevals", "time_limit"})  # options of all strategies
OUR_OPTIONS = LIMITS | {"fraction"}


def tune_kernel(
    kernel_name: str,
    kernel_source: Any,
    problem_size: Any,
    arguments: Sequence[Any],
    tune_params: Mapping[str, Sequence[Any]],
    grid_div_x: Any = None,
    grid_div_y: Any = None,
    grid_div_z: Any = None,
    restrictions: Any = None,
    answer: Sequence[Any] | None = None,
    atol: float = 1e-6,
    verify: Callable[..., Any] | None = None,
    verbose: bool = False,
    lang: str | None = None,
    device: int = 0,
    platform: int = 0,
    smem_args: Mapping[str, Any] | None = None,
    cmem_args: Mapping[str, Any] | None = None,
    texmem_args: Mapping[str, Any] | None = None,
    compiler: str | None = None,
    compiler_options: Sequence[str] | None = None,
    defines: Mapping[str, Any] | None = None,
    log: Any = None,
    iterations: int = 7,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    strategy: Any = None,
    strategy_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    metrics: Mapping[str, Any] | None = None,
    simulation_mode: bool | None = None,
    parallel: Any = None,
    observers: Sequence[Any] | None = None,
    objective: str | Sequence[str] | None = None,
    objective_higher_is_better: bool | Sequence[bool] | None = None,
    objectives: Mapping[str, bool] | None = None,
    seed: int | None = None,
    *,
    budget: str | int | None = None,
    storage: str | None = None,
    devices: str | None = None,
    store: str | os.PathLike[str] | None = None,
    timeout: float = TIMEOUT,
    fresh: bool = False,
) -> tuple[list[Row], dict[str, Any]]:
    """Tune a kernel as `kernel_tuner.tune_kernel` does, measured and verified by `tuner`.

    The arguments up to `seed` are those of Kernel Tuner 1.5, with the same meaning. Configurations are compiled and run
    in other processes; one that crashes, hangs or is wrong is one row with an error, and the run goes on. Trials are
    kept, so the same call continues a run that was interrupted.

    Args:
        budget: As `tune --budget`: a number of configurations, a time such as "90s", or both: "100,90s". Default: that
            of `strategy_options`, or all configurations.
        storage: The URL of a database in which several machines share the search. Default: this machine alone.
        devices: As `tune --device`: the names of several devices, or "all". Default: `device` and `platform`.
        store: A folder in which the space and its record are kept, so that `tuner.load` finds the kernel. Default:
            nothing is kept but the trials.
        timeout: Seconds that a configuration may take.
        fresh: Whether to measure everything again, also what earlier runs or the cache file have.

    Returns the rows, a dictionary for each configuration, and a dictionary about the run. A row has the parameters,
    `time` and `times` in ms, the milliseconds of each stage, and the metrics; the row of a failed configuration has
    `__error__`, which is a `WrongResultConfig` if its result was wrong.

    Raises RequestError for arguments that are wrong or not supported, NoConfiguration if no configuration is valid, and
    DeviceError if the device cannot be used.
    """
    beyond = ("budget", "storage", "devices", "store", "timeout", "fresh")
    passed = dict(locals())
    given = {name: value for name, value in passed.items() if name not in ("beyond", *beyond)}
    ours = {name: passed[name] for name in beyond}
    if simulation_mode:
        return _simulated(given, ours)
    checks.check({**given, "storage": storage, "devices": devices, "store": store, "timeout": timeout})
    if log:
        logging.basicConfig(filename=f"{kernel_name}{datetime.now():%Y%m%d-%H:%M:%S}.log", level=log)
    call = Call.of(given)
    goal = Goal.of(objective, objective_higher_is_better, objectives)
    has_limits = any(value is not None for value in (strategy_options or {}).values())
    is_kept = store is not None or storage is not None  # for others: nothing kept there is set aside
    session = Session(
        call, restrictions, answer, 1e-6 if atol is None else atol, verify, observers, metrics, goal, quiet, verbose,
        is_partial=not is_kept and (has_limits or strategy not in (None, "brute_force")),
    )  # fmt: skip
    request = _request(call, goal, given, ours)
    try:
        with advised(call):
            return session.run(request, cache, None if store is None else Path(store))
    except OptionError as error:
        raise RequestError(error.in_python) from None


def _simulated(given: Mapping[str, Any], ours: Mapping[str, Any]) -> tuple[list[Row], dict[str, Any]]:
    """What Kernel Tuner's simulation returns for its arguments. Raises RequestError if any of `ours` is set with it."""
    for name in ("budget", "storage", "devices", "store"):
        if ours[name] is not None:
            raise RequestError(f"{name}: not with simulation_mode, which is Kernel Tuner's; leave one of them out")
    measured: tuple[list[Row], dict[str, Any]] = SIMULATED(**given)
    return measured


def _request(call: Call, goal: Goal, given: Mapping[str, Any], ours: Mapping[str, Any]) -> TuningRequest:
    """The request that a call makes: `given` has the arguments that Kernel Tuner has, too, and `ours` the others.

    Raises RequestError for arguments that are wrong or not supported.
    """
    strategy, options, iterations = given["strategy"], dict(given["strategy_options"] or {}), given["iterations"]
    if iterations < 1:
        raise RequestError(f"iterations: {iterations}: write a whole number of at least 1")
    return TuningRequest(
        "", None, ours["devices"] or device_name(call), strategy=_strategy(strategy), storage=ours["storage"],
        quick=True, strategy_options=_own_options(strategy, options),
        budget=_budget(ours["budget"], strategy, options, call), seed=_seed(given["seed"], strategy),
        method=Method(repeats=int(iterations), objectives=(goal.searched,), most_batches=1),
        timeout=float(ours["timeout"]), fresh=ours["fresh"],
    )  # fmt: skip


def _strategy(given: Any) -> str | None:
    """The name of a strategy of `tune`. Raises RequestError for a strategy object of another kind."""
    if isinstance(given, PoolGPStrategy) and given.warm:
        raise RequestError("strategy: tuner.strategy(warm=...) is not followed here; leave `warm` out")
    if given is None or isinstance(given, PoolGPStrategy):
        return None
    if not isinstance(given, str):
        raise RequestError(f"strategy: {given!r}: give the name of a strategy; {ELSEWHERE}")
    return OURS.get(given) or (f"kt:{given}" if given in KERNEL_TUNER_STRATEGIES else given)


def _seed(given: int | None, strategy: Any) -> int:
    own = strategy.seed if given is None and isinstance(strategy, PoolGPStrategy) else given
    return 0 if own is None else int(own)


def _own_options(strategy: Any, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options with which a strategy of Kernel Tuner runs; None for one of ours.

    Raises RequestError for an option that the strategy has not.
    """
    is_theirs = isinstance(strategy, str) and strategy in KERNEL_TUNER_STRATEGIES and strategy not in OURS
    allowed = LIMITS if is_theirs else OUR_OPTIONS
    if is_theirs and not options.keys() <= allowed:
        from tuner.search import kernel_tuner_strategies  # which imports the strategy

        allowed |= kernel_tuner_strategies.options(strategy)
    for name in options:
        if name not in allowed:
            whose = "" if strategy is None else f" of {strategy}"
            names = ", ".join(sorted(allowed))
            raise RequestError(f"strategy_options: {quoted(name)} is no option{whose}; allowed: {names}")
    return {**options} if is_theirs else None


def _budget(given: str | int | None, strategy: Any, options: Mapping[str, Any], call: Call) -> str | None:
    """The budget as `tune --budget` takes it. Raises RequestError for a limit that is no number."""
    if given is not None:
        return str(given)
    numbers = {
        name: checks.positive(f"strategy_options: {name}", value, name == "max_fevals")
        for name, value in options.items()
        if value is not None and name in OUR_OPTIONS
    }
    counts = [int(numbers["max_fevals"])] if "max_fevals" in numbers else []
    if strategy == "random_sample" and ("fraction" in numbers or not numbers):
        combinations = math.prod(len(values) for values in call.parameters.values())
        counts.append(math.ceil(numbers.get("fraction", RANDOM_FRACTION) * combinations))
    limits = [str(min(counts))] if counts else []
    limits += [f"{numbers['time_limit']:g}s"] if "time_limit" in numbers else []
    return ",".join(limits) or None
