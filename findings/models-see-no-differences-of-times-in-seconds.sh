#!/bin/sh
# Trees of times in seconds see no differences. XGBoost splits only where the squared error falls by over 1e-6, so for kernels of 3 to 6 us
# it predicts one number for all configurations, and from milliseconds it is up to a third wrong; scikit-learn's trees and forests
# stop at a variance of 2.2e-16, so times that are spread by less than 15 ns are one. From microseconds or nanoseconds, all are learnt.
# No warning is given. One would expect that a regression does not depend on the unit, as LightGBM's does not.
# Packages: xgboost-cpu 3.2.0, scikit-learn 1.9.1, numpy 2.4.6. Sources: src/tree/param.h (kRtEps) of XGBoost, sklearn/tree/_tree.pyx (EPSILON).
# Such models predict run times in tuners and choose what is measured next. Seconds are what timers of Python and many tables give, and
# milliseconds what Kernel Tuner's: the model is constant, and the search random.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'xgboost-cpu==3.2.0' 'scikit-learn==1.9.1' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
from sklearn.tree import DecisionTreeRegressor
from xgboost import XGBRegressor

print(*(f"{name} {version(name)}" for name in ("xgboost-cpu", "scikit-learn", "numpy")))
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def errors(model, parameters, seconds):
    """The largest relative error of the model on what it was fitted to, in each unit, and how many times it predicts."""
    result = {}
    for unit, scale in UNITS.items():
        predicted = model.fit(parameters, seconds * scale).predict(parameters)
        result[unit] = float(np.abs(predicted / (seconds * scale) - 1).max()), len(set(predicted.tolist()))
    return result


tile, unroll = (each.ravel() for each in np.meshgrid([8, 16, 32, 64], [1, 2, 4, 8, 16]))
seconds = 1e-6 * (3 + abs(np.log2(tile) - 4) + 0.4 * abs(np.log2(unroll) - 2))
found = errors(XGBRegressor(n_jobs=1), np.column_stack([tile, unroll]), seconds)
print(f"XGBoost, {len(seconds)} configurations of {seconds.min() * 1e6:.1f} to {seconds.max() * 1e6:.1f} us:")
for unit, (error, count) in found.items():
    print(f"  times in {unit}: {count} different predictions, up to {error:.1%} wrong")
assert found["s"][1] == 1 and found["ms"][0] > 0.05 and found["us"][0] < 0.01 and found["ns"][0] < 0.01, "the behaviour has changed"

order = np.arange(100)
close = errors(DecisionTreeRegressor(random_state=0), order[:, None], 1e-6 + 0.4e-9 * order)
print("scikit-learn's tree, 100 configurations of 1,000 to 1,040 ns:")
for unit, (error, count) in close.items():
    print(f"  times in {unit}: {count} different predictions, up to {error:.1%} wrong")
assert close["s"][1] < 5 and all(close[unit][1] == 100 for unit in ("ms", "us", "ns")), "the behaviour has changed"
EOF
env/bin/python check.py
