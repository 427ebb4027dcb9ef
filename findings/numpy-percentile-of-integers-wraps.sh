#!/bin/sh
# `np.percentile` of integers subtracts in their own type: the 50th percentile of -100 and 100 as int8 is 128, outside of the numbers themselves,
# and the quartile of -2^31 and 2^31 - 1 as int32 is -2147483648.25. `np.median` of the same arrays is right, and so are both of float64. In
# float16, the quartile of -60000 and 60000 is infinite. One would expect what is expected of float64, since the result is one.
# Package: numpy 2.4.6, lib/_function_base_impl.py: `_lerp(a, b, t)` has the difference b - a. No warning is given.
# Thresholds and scales of quantised networks are percentiles of int8: a reference, or a filter by rank, refuses the kernel that is right.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings

import numpy as np

print("numpy", np.__version__)
ENDS = {np.int8: (-100, 100), np.int16: (-(2**15), 2**15 - 1), np.int32: (-(2**31), 2**31 - 1), np.float16: (-60000, 60000)}
found = {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for kind, ends in ENDS.items():
        values = np.array(ends, kind)
        lower, middle = np.percentile(values, [25, 50])
        exact = np.percentile(values.astype(float), [25, 50])
        found[kind] = float(lower), float(middle)
        print(f"{kind.__name__} {ends}: 25 % {lower}, 50 % {middle}; as float64 {exact}; np.median {np.median(values)}")
        assert np.median(values) in (0, -0.5), "the behaviour has changed"
print("warnings:", [str(warning.message) for warning in caught if "int" in str(warning.message)])
assert found[np.int8] == (-114.0, 128.0), "the behaviour has changed"
assert found[np.int16] == (-32768.25, 32767.5), "the behaviour has changed"
assert found[np.int32][0] == -2147483648.25, "the behaviour has changed"
assert found[np.float16][0] == np.inf, "the behaviour has changed"
EOF
env/bin/python check.py
