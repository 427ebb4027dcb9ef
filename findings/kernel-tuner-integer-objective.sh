#!/bin/sh
# An objective whose values are Python integers is ignored: the "best" configuration is the first one, with 9 steps, though
# another has 7. One would expect the least value. Integer metrics (registers, instructions, bytes) are usual objectives.
# Package: kernel_tuner 1.5.0, util.py, get_best_config: only values of type float are compared.
# Needs a C++ compiler, no GPU.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import numpy as np
import kernel_tuner

SOURCE = """
#include <chrono>
extern "C" float scale(float *y, float *x, int n) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < n; i++) y[i] = (unroll == 2 ? 3 : 2) * x[i];
    return std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start).count();
}"""

warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"))
x = np.arange(1000, dtype=np.float32)
arguments = [np.zeros_like(x), x, np.int32(x.size)]


def best(kind):
    _, about = kernel_tuner.tune_kernel(
        "scale", SOURCE, 1000, arguments, {"unroll": [1, 3]}, lang="C", quiet=True,
        metrics={"steps": lambda p: kind(10 - p["unroll"])}, objective="steps", objective_higher_is_better=False,
    )
    return about["best_config"]["steps"]


print("best of 9 and 7 steps as float:", best(float), "as int:", best(int))
assert best(float) == 7.0 and best(int) == 9, "the behaviour has changed"
EOF
env/bin/python check.py
