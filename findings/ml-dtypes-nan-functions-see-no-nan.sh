#!/bin/sh
# NumPy's functions about NaN do nothing for bfloat16 and float8: `np.nansum`, `np.nanmean` and `np.nanstd` of 1, NaN, 3 are NaN,
# `np.nanargmax` is 1, the place of the NaN, `np.nan_to_num` returns the NaN, and `assert_array_equal` says that the array differs from
# itself. `np.nanmax` and `np.nanmedian` are right. No warning is given. NumPy takes a type of another package for one without NaN.
# One would expect what float16 gets, or an error.
# Packages: numpy 2.4.6, ml_dtypes 0.6.0.
# References that replace or skip NaN (masked softmax, missing values) do so for float16 and do not for bfloat16, and accuse the kernel.
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
print(*(f"{name} {version(name)}" for name in ("numpy", "ml_dtypes")))


def is_equal_to_itself(values):
    try:
        np.testing.assert_array_equal(values, values)
    except AssertionError:
        return False
    return True


FUNCTIONS = (np.nansum, np.nanmean, np.nanstd, np.nanargmax, np.nan_to_num, is_equal_to_itself, np.nanmax, np.nanmedian)
found = {}
for kind in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
    values = np.array([1, np.nan, 3]).astype(kind)
    found[kind] = [np.asarray(function(values)).astype(float).tolist() for function in FUNCTIONS]
    print(f"{np.dtype(kind).name}:", *(f"{f.__name__} {result}" for f, result in zip(FUNCTIONS, found[kind])))
right, *others = found.values()
assert right == [4, 2, 1, 2, [1, 0, 3], 1, 3, 2]
assert all(str(other) == "[nan, nan, nan, 1.0, [1.0, nan, 3.0], 0.0, 3.0, 2.0]" for other in others), "the behaviour has changed"
EOF
env/bin/python check.py
