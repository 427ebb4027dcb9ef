#!/bin/sh
# The error "RMSRE", root mean square relative error, of Kernel Tuner takes each negative number of the answer for 1e-8: an output that is
# 0.1 % off everywhere has the error 0.001 if the answer is positive and about 140,000 if it is negative. "MRE" and "max rel" give 0.001 for both.
# One would expect the error of the absolute value: 1e-8 is there to prevent a division by zero.
# Package: kernel_tuner 1.5.0, accuracy.py, error_metric_from_name: maximum(a, EPS) where the other two have maximum(abs(a), EPS).
# Where the answer has both signs, as most have, the number is the absolute error of the negative half, times 1e8: a search for the least
# RMSRE then ranks precisions by that, and a limit such as 1e-3 refuses every kernel.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
from kernel_tuner.accuracy import error_metric_from_name

print("kernel_tuner", version("kernel_tuner"))
answer = np.linspace(0.5, 2, 7)
seen = {}
for name in ("RMSRE", "MRE", "max rel"):
    error = error_metric_from_name(name)
    seen[name] = [float(error(each, each * 1.001)) for each in (answer, -answer)]
    print(f"{name}: {seen[name][0]:.4g} of positive numbers, {seen[name][1]:.4g} of the same with a minus; all are 0.1 % off")
assert all(abs(seen[name][0] - 1e-3) < 1e-9 for name in seen)
assert all(abs(seen[name][1] - 1e-3) < 1e-9 for name in ("MRE", "max rel"))
assert seen["RMSRE"][1] > 1e5, "the behaviour has changed"
EOF
env/bin/python check.py
