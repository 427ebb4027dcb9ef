"""`tuner.strategy()` searches inside an unchanged Kernel Tuner."""

import json
from pathlib import Path

import kernel_tuner
import numpy as np
import pytest

import tuner

pytestmark = pytest.mark.filterwarnings("ignore:None of the tunable parameters")

# The time that the kernel returns is a formula of its parameters, so nothing depends on the machine. Kernel Tuner
# defines the parameters, and calls a C function that returns a float for its time in ms.
SOURCE = """
extern "C" float cost(int n) {
    float x = a / 16.0f - 3, y = b / 8.0f - 2;
    return 1.0f + x * x + y * y + (c ? 0.5f : 0.0f);
}
"""
PARAMETERS = {"a": list(range(16, 145, 16)), "b": [8, 16, 24, 32, 40, 48], "c": [0, 1]}
RESTRICTIONS = ["a * b <= 2048"]


def parameters_of(results):
    return [tuple(result[name] for name in PARAMETERS) for result in results]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Kernel Tuner's cache of every valid configuration, by its own brute force."""
    path = tmp_path_factory.mktemp("cache") / "cost.json"
    configurations = [
        {"a": a, "b": b, "c": c}
        for a in PARAMETERS["a"]
        for b in PARAMETERS["b"]
        for c in PARAMETERS["c"]
        if a * b <= 2048
    ]
    cache = {}
    for config in configurations:
        x, y = config["a"] / 16 - 3, config["b"] / 8 - 2
        time = 1 + x * x + y * y + config["c"] / 2
        common = {"compile_time": 0, "verification_time": 0, "benchmark_time": 0, "framework_time": 0,
                  "strategy_time": 0, "timestamp": "2026-01-01 00:00:00+00:00"}  # fmt: skip
        failed = config["a"] == 16 and config["b"] == 8
        times = {"__error__": "CompilationFailedConfig"} if failed else {"time": time, "times": [time]}
        cache[",".join(map(str, config.values()))] = {**config, **common, **times}
    document = {"device_name": "none", "kernel_name": "cost", "problem_size": 1, "tune_params_keys": [*PARAMETERS],
                "tune_params": PARAMETERS, "objective": "time", "cache": cache}  # fmt: skip
    path.write_text(json.dumps(document))
    return path


def simulated(cache: Path, fevals: int, strategy, strategy_options=None, **options):
    return kernel_tuner.tune_kernel(
        "cost", SOURCE, 1, [np.int32(1)], PARAMETERS, restrictions=RESTRICTIONS, lang="C", cache=str(cache), quiet=True,
        simulation_mode=True, strategy=strategy, strategy_options={"max_fevals": fevals, **(strategy_options or {})},
        **options,
    )  # fmt: skip


def test_it_measures_valid_configurations_once_each_and_finds_the_best(recorded):
    results, env = simulated(recorded, 40, tuner.strategy(seed=1))
    tried = parameters_of(results)
    assert len(tried) == len(set(tried)) == 40
    assert all(a * b <= 2048 for a, b, _ in tried)
    assert [env["best_config"][name] for name in PARAMETERS] == [48, 16, 0]


def test_the_seed_of_tune_kernel_repeats_the_search(recorded):
    first, again, other = (parameters_of(simulated(recorded, 12, tuner.strategy(), seed=seed)[0]) for seed in (3, 3, 4))
    assert first == again != other


def test_it_ends_when_every_valid_configuration_has_been_measured(recorded):
    results, _ = simulated(recorded, 10_000, tuner.strategy())
    assert len(results) == len(set(parameters_of(results))) == len(json.loads(recorded.read_text())["cache"])


def test_it_maximises_a_metric(recorded):
    _, env = simulated(
        recorded, 40, tuner.strategy(seed=2), metrics={"rate": "1000 / time"}, objective="rate",
        objective_higher_is_better=True,
    )  # fmt: skip
    assert [env["best_config"][name] for name in PARAMETERS] == [48, 16, 0]


def test_x0_and_warm_configurations_come_first(recorded):
    warm = [{"a": 144, "b": 48, "c": 0}, {"a": 32, "b": 32, "c": 1}]  # the first is not valid
    results, _ = simulated(recorded, 3, tuner.strategy(seed=0, warm=warm), strategy_options={"x0": (64, 8, 1)})
    assert parameters_of(results)[:2] == [(64, 8, 1), (32, 32, 1)]


def test_x0_needs_a_value_for_each_parameter(recorded):
    with pytest.raises(tuner.TunerError, match=r"x0: \(64, 8\): write 3 values, one for each of a, b, c"):
        simulated(recorded, 3, tuner.strategy(), strategy_options={"x0": (64, 8)})


def test_an_unknown_option_is_refused(recorded):
    with pytest.raises(ValueError, match="popsize"):
        simulated(recorded, 3, tuner.strategy(), strategy_options={"popsize": 20})


def test_it_searches_what_kernel_tuner_measures_on_a_device(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Kernel Tuner writes its temporary files here
    _, env = kernel_tuner.tune_kernel(
        "cost", SOURCE, 1, [np.int32(1)], {"a": [16, 48], "b": [8], "c": [0]}, lang="C", iterations=1, quiet=True,
        strategy=tuner.strategy(),
    )  # fmt: skip
    assert env["best_config"]["a"] == 48
