#!/bin/sh
# Equal numbers become different ones in one astype: of 67 times 5e9 as float32, cast to uint32, the first 64 are 0 and the last three
# 705032704; NaN becomes 2147483648 or 0. The last elements, and those of a strided view, are cast one by one, the others by vectors.
# NumPy says that casts out of range are undefined, and warns; one would still expect that the result does not depend on the place.
# Package: numpy 2.4.6, x86-64; uint8, uint16 and the signed types give one value.
# The reference of a quantising kernel is not even equal to itself in another shape: clip before casting, and map NaN.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import numpy as np


def cast(value, kind):
    """How often each result occurs in 67 casts of `value`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = np.full(67, value, np.float32).astype(kind)
    return dict(zip(*(part.tolist() for part in np.unique(results, return_counts=True)), strict=True)), len(caught)


print("numpy", version("numpy"))
found = {}
for value in (5e9, np.nan):
    for kind in (np.uint8, np.uint16, np.int32, np.uint32, np.int64):
        found[str(value), kind.__name__], warned = cast(value, kind)
        print(f"{value} as {kind.__name__}: {found[str(value), kind.__name__]}, {warned} warnings")
several = {key for key, results in found.items() if len(results) > 1}
assert several == {("5000000000.0", "uint32"), ("nan", "uint32")}, "the behaviour has changed"
EOF
env/bin/python check.py
