#!/bin/sh
# The standard deviation that pandas computes of float32 depends on whether bottleneck is installed: of a million numbers near 1000 it is 8.96 with
# it and 1.0007 without, which is right; of 33 million ones, 0.35 in place of 0. pandas calls bottleneck without being asked, for `std`, `var`,
# `describe` and data frames, not for `mean`; bottleneck adds one by one in float32. `groupby(...).std()` is right with both.
# One would expect the same results, faster: that is what the documentation of pandas says that bottleneck is for.
# Packages: pandas 3.1.1, bottleneck 1.6.0. Where energies or samples of times are stored as float32, a package that some other program
# installed makes the spread of a measurement several times as large.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pandas==3.1.1' 'numpy==2.4.6'
cat >check.py <<'EOF'
import sys
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pandas as pd

try:
    print("bottleneck", version("bottleneck"))
except PackageNotFoundError:
    print("pandas", pd.__version__, "without bottleneck")
samples = np.random.default_rng(0).normal(1000, 1, 1_000_000).astype(np.float32)
series = pd.Series(samples)
found = float(series.std()), float(series.mean()), float(series.groupby(np.zeros(len(series))).std()[0])
ones = float(pd.Series(np.ones(2**25, np.float32)).std())
print(f"std {found[0]:.4f}, by describe() {series.describe()['std']:.4f}, mean {found[1]:.3f}, std by groupby {found[2]:.4f}; of ones {ones:.3f}")
assert abs(found[1] - 1000) < 0.01 and abs(found[2] - 1) < 0.01, "the behaviour has changed"
if sys.argv[1] == "with":
    assert found[0] > 5 and ones > 0.3, "the behaviour has changed"
else:
    assert abs(found[0] - 1) < 0.01 and ones == 0, "the behaviour has changed"
EOF
env/bin/python check.py without
env/bin/python -m pip install -q --disable-pip-version-check 'bottleneck==1.6.0'
env/bin/python check.py with
