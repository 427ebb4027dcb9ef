#!/bin/sh
# `sum(x)` of int32 is int32 in numexpr: 100,000 times 100,000 is 1410065408. `prod(x)` is, too. A uint64 from 2**63 on becomes a negative int64 as
# soon as an expression reads it: `h` is -9223372036854775808 of 2**63, and `h > 1` is false. And `max(x)` and `min(x)` of floats pass over NaN.
# NumPy's functions of these names give 10000000000, 2**63 and NaN. No warning is given.
# One would expect NumPy's results: the expressions are NumPy's text, evaluated faster.
# Packages: numexpr 2.14.2, numpy 2.4.6.
# A reference that counts, hashes or adds bytes in numexpr is wrong, and a check such as `max(abs(a - b))` finds no difference where a kernel
# wrote NaN.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numexpr==2.14.2' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import numexpr
import numpy as np

warnings.simplefilter("error")
print("numexpr", version("numexpr"), "numpy", version("numpy"))
x = np.full(100_000, 100_000, np.int32)
h = np.array([2**63], np.uint64)
factors = np.full(5, 100, np.int32)
wrong = np.array([1.0, np.nan, 3.0])
right = np.array([1.0, 2.0, 3.0])
found = {
    "sum(x)": (numexpr.evaluate("sum(x)"), np.sum(x)),
    "prod(factors)": (numexpr.evaluate("prod(factors)"), np.prod(factors)),
    "h": (numexpr.evaluate("h")[0], h[0]),
    "h > 1": (numexpr.evaluate("h > 1")[0], (h > 1)[0]),
    "max(wrong)": (numexpr.evaluate("max(wrong)"), np.max(wrong)),
    "min(wrong)": (numexpr.evaluate("min(wrong)"), np.min(wrong)),
    "max(abs(wrong - right))": (numexpr.evaluate("max(abs(wrong - right))"), np.max(np.abs(wrong - right))),
}
for text, (ours, numpys) in found.items():
    print(f"{text}: numexpr {ours}, NumPy {numpys}")
given = [value[0].item() for value in found.values()]
assert given == [1410065408, 1410065408, -(2**63), False, 3.0, 1.0, 0.0], "the behaviour has changed"
EOF
env/bin/python check.py
