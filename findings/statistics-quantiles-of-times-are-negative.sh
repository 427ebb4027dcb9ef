#!/bin/sh
# `statistics.quantiles([1.0, 10.0], n=4)` of Python is -1.25, 5.5, 12.25: the quartiles of two times are a negative time and one that is longer
# than both. Of 1, 2 and 9 ms, the 5th percentile is below the least, and of five times with n=20 the last cut is above the largest. The default,
# method="exclusive", extends the line through the first two values, or the last two; "inclusive" stays within, as `numpy.percentile` does.
# The page says that "exclusive" is for samples from a population with more extreme values, not that results leave the sample.
# One would expect quantiles between minimum and maximum, or at least no negative number of positive ones. Seen with CPython 3.11; numpy 2.4.6.
# Spreads of benchmarks are quartiles of few runs: the exclusive range of two runs is 13.5 ms, one and a half times their distance.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6'
cat >check.py <<'EOF'
import platform
import statistics

import numpy as np

print("Python", platform.python_version(), "numpy", np.__version__)
two, three, five = [1.0, 10.0], [1.0, 2.0, 9.0], [1.0, 1.1, 1.2, 1.3, 9.0]
found = statistics.quantiles(two, n=4)
print("quartiles of", two, "exclusive", found, "inclusive", statistics.quantiles(two, n=4, method="inclusive"))
print("numpy:", np.percentile(two, [25, 50, 75]).tolist())
low, high = statistics.quantiles(three, n=20)[0], statistics.quantiles(five, n=20)[-1]
print("5th percentile of", three, "is", low, "and the 95th of", five, "is", high)
assert found == [-1.25, 5.5, 12.25], "the behaviour has changed"
assert low < min(three) and high > max(five), "the behaviour has changed"
inside = [statistics.quantiles(values, n=20, method="inclusive") for values in (two, three, five)]
assert all(min(v) <= q[0] <= q[-1] <= max(v) for v, q in zip((two, three, five), inside, strict=True))
EOF
env/bin/python check.py
