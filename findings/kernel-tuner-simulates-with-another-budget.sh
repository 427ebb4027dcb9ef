#!/bin/sh
# `max_fevals` counts every request of a strategy when kernels run, also of a configuration that it has had, and only new configurations in
# simulation mode. With 60 of 64, simulated annealing tries under 30 configurations for real, and 45 in a simulation, after 400 requests and
# more; particle swarms and differential evolution try about 46 and 60. One would expect one budget of one name.
# Package: kernel_tuner 1.5.0, runners/sequential.py and runners/simulation.py: add_evaluations is called for each, or for new ones.
# Strategies are compared, and their settings tuned, in simulation mode, which is there to say how a real run would go: there, the same budget
# buys fewer configurations, and fewest for the strategies that come back to old ones. Needs a C++ compiler, no GPU.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
import json
import random
import warnings
from importlib.metadata import version

import kernel_tuner
import numpy as np

warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"))
SIDE, BUDGET = 8, 60
PARAMETERS = {"A": list(range(SIDE)), "B": list(range(SIDE))}
SOURCE = 'extern "C" float k(float *y) { return 1.0f + 0.01f * ((A - 5) * (A - 5) + (B - 3) * (B - 3)); }'

rows, _ = kernel_tuner.tune_kernel("k", SOURCE, 1, [np.zeros(1, np.float32)], PARAMETERS, lang="C", quiet=True, cache="all.json")
assert len(rows) == SIDE**2


def run(strategy, seed, **how):
    """The number of rows, which are requests, and of different configurations. Both runners take the times from the file."""
    random.seed(seed)
    np.random.seed(seed)
    rows, _ = kernel_tuner.tune_kernel(
        "k", SOURCE, 1, [np.zeros(1, np.float32)], PARAMETERS, lang="C", quiet=True, strategy=strategy,
        strategy_options={"max_fevals": BUDGET}, cache="all.json", **how,
    )
    return len(rows), len({(row["A"], row["B"]) for row in rows})


for strategy in ("simulated_annealing", "pso", "diff_evo"):
    real = [run(strategy, seed) for seed in range(2)]
    simulated = [run(strategy, seed, simulation_mode=True) for seed in range(2)]
    print(f"{strategy}, max_fevals={BUDGET}: (requests, configurations) real {real}, simulated {simulated}")
    assert all(requests == BUDGET and configurations < BUDGET for requests, configurations in real), "the behaviour has changed"
    assert all(requests > BUDGET for requests, _ in simulated), "the behaviour has changed"
    assert max(real)[1] < max(each for _, each in simulated), "the behaviour has changed"
EOF
env/bin/python check.py
