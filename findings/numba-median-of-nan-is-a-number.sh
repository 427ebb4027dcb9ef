#!/bin/sh
# `np.median` of an array with a NaN may be a number in Numba: of 3, NaN, -100, 7, 5 it is 5, of the same in other orders 3, 7 or NaN. NumPy gives
# NaN, and so do `np.mean`, `np.max` and `np.percentile` in Numba. One would expect NaN, or the median of the others, 4, whatever the order.
# Package: numba 0.68.1, np/arraymath.py: a NaN is below and above nothing, so the partition puts it anywhere.
# A configuration that gives NaN in one of its runs, or a filter whose reference is compiled by Numba, gets a median that looks right.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numba==0.68.1' 'numpy==2.4.6'
cat >check.py <<'EOF'
import itertools

import numba
import numpy as np

print("numba", numba.__version__, "numpy", np.__version__)
values = [3.0, np.nan, -100.0, 7.0, 5.0]
median = numba.njit(lambda x: np.median(x))
found = {str(median(np.array(order))) for order in itertools.permutations(values)}
print("np.median of", values, ":", median(np.array(values)), "; in all orders:", sorted(found))
others = {name: float(numba.njit(f)(np.array(values))) for name, f in {
    "np.mean": lambda x: np.mean(x), "np.max": lambda x: np.max(x), "np.percentile": lambda x: np.percentile(x, 50)}.items()}
print("others:", others, "; NumPy:", np.median(values))
assert found == {"3.0", "5.0", "7.0", "nan"}, "the behaviour has changed"
assert np.isnan(list(others.values())).all() and np.isnan(np.median(values)), "the behaviour has changed"
EOF
env/bin/python check.py
