#!/bin/sh
# One NaN leaves an array of bfloat16 or float8 unsorted: `np.sort` returns two runs with the NaN between them, where NumPy's own types,
# float16 among them, come sorted with NaN last. So `np.unique` keeps elements twice, and no message says so.
# Packages: numpy 2.3.5, ml_dtypes 0.5.4.
# A reference that sorts (top-k, a sort kernel, a median) accuses a right kernel as soon as one input is NaN: sort in float32.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.3.5' 'ml_dtypes==0.5.4'
cat >check.py <<'EOF'
import ml_dtypes
import numpy as np

print("numpy", np.__version__, "ml_dtypes", ml_dtypes.__version__)
values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
values[500] = np.nan
found = {}
for dtype in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
    array = values.astype(dtype)
    ordered = np.sort(array).astype(float)
    by_index = array[np.argsort(array)].astype(float)
    numbers = ordered[~np.isnan(ordered)]
    descents = int((np.diff(numbers) < 0).sum())
    place = int(np.flatnonzero(np.isnan(ordered))[0])
    twice = len(np.unique(array)) - len(np.unique(array.astype(np.float32)))
    place_by_index = int(np.flatnonzero(np.isnan(by_index))[0])
    found[np.dtype(dtype).name] = place, place_by_index, twice
    print(f"{np.dtype(dtype).name}: np.sort puts NaN at {place} of 999 ({descents} descents), np.argsort at {place_by_index}; {twice} elements twice in np.unique")
assert found["float16"] == (999, 999, 0), "the behaviour has changed"
assert found["bfloat16"][0] < 999 and found["bfloat16"][2] > 0, "the behaviour has changed"
assert found["float8_e4m3fn"][0] < 999, "the behaviour has changed"
EOF
env/bin/python check.py
