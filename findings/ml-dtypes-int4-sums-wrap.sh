#!/bin/sh
# The sum of 16 ones of int4 is 0, and so is their mean: ml_dtypes adds in int4, modulo 16. So does `np.dot`, while `a @ b` of the same
# arrays gives int8, modulo 256. No warning is given, also none of `7 * 7`, which is 1.
# One would expect what NumPy does with its own small integers: the sum of int8 is int64, and its mean float64.
# Packages: ml_dtypes 0.6.0 with numpy 2.4.6; uint4 and int2 do the same.
# Kernels multiply weights of 4 bits and add them in int32. A reference of NumPy on int4 arrays calls each of them wrong, and what it
# gives in their place depends on the spelling of the product. Convert to int32 first.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'ml_dtypes==0.6.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import ml_dtypes
import numpy as np

warnings.simplefilter("error")
print(*(f"{name} {version(name)}" for name in ("ml_dtypes", "numpy")))


def results(kind, count=300):
    ones = np.ones(count - count % 16, kind)
    sevens = np.full(1, 7, kind)
    return {
        "sum": ones.sum(),
        "mean": ones.mean(),
        "dot": np.dot(ones, ones),
        "@": (ones[None] @ ones[:, None])[0, 0],
        "7 * 7": (sevens * sevens)[0],
    }


print("right: sum, dot and @ 288, mean 1, 7 * 7 = 49")
found = {kind: results(kind) for kind in (ml_dtypes.int4, np.int8)}
for kind, values in found.items():
    print(f"{np.dtype(kind).name}:", ", ".join(f"{name} {value} ({value.dtype})" for name, value in values.items()))
assert [int(value) for value in found[ml_dtypes.int4].values()] == [0, 0, 0, 32, 1], "the behaviour has changed"
assert [int(value) for value in found[np.int8].values()] == [288, 1, 32, 32, 49], "the behaviour has changed"
EOF
env/bin/python check.py
