#!/bin/sh
# `scipy.signal.convolve` and `correlate` give other results where arrays are large: one NaN in an image of 64 x 64 makes all of a filter of 15 x 15
# NaN, and that of 2 x 2 four elements; zeros become 1e-16, and a pixel of 1e15 makes sums elsewhere wrong in the third digit. From some size
# on, method="auto", the default, takes an FFT, which rounds all elements by the largest one. Of NaN alone, a RuntimeWarning tells.
# One would expect that an element changes the sums that it is in, as with method="direct" and numpy.convolve, whatever the size.
# Package: scipy 1.17.1, signal/_signaltools.py, choose_conv_method; numpy 2.4.6.
# A reference that is right in a test at a small size accuses a right kernel at the real one, and `convolve(x, k) > 0` becomes noise where x is 0.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'scipy==1.17.1' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import numpy as np
from scipy import signal

warnings.simplefilter("ignore")
print("scipy", version("scipy"), "numpy", version("numpy"))
random = np.random.default_rng(0)
nan = {}
for size in (2, 15):
    image, weights = random.random((64, 64)), random.random((size, size))
    image[3, 3] = np.nan
    results = {method: signal.convolve(image, weights, mode="same", method=method) for method in ("auto", "direct")}
    nan[size] = [int(np.isnan(result).sum()) for result in results.values()]
    chosen = signal.choose_conv_method(image, weights, "same")
    print(f"{size} x {size}: {chosen} is chosen; of 4096 elements NaN: auto {nan[size][0]}, direct {nan[size][1]}")
image, weights = random.random((64, 64)), random.random((15, 15))
image[:32] = 0
zeros = [np.count_nonzero(signal.convolve(image, weights, mode="valid", method=m)[:18]) for m in ("auto", "direct")]
print("elements of 18 rows that have only zeros below them, that are not 0: auto", zeros[0], "direct", zeros[1])
image = random.random((64, 64))
image[3, 3] = 1e15
auto, direct = (signal.convolve(image, weights, mode="valid", method=m)[10:] for m in ("auto", "direct"))
error = float(np.max(np.abs(auto - direct) / direct))
print(f"largest relative difference of elements that the pixel of 1e15 does not reach: {error:.2g}")
assert nan[2] == [4, 4] and nan[15][0] == 4096 > nan[15][1], "the behaviour has changed"
assert zeros[0] > 0 == zeros[1] and error > 1e-4, "the behaviour has changed"
EOF
env/bin/python check.py
