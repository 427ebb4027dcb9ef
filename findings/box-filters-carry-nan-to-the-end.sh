#!/bin/sh
# One infinity makes all that follows it in its row NaN in `scipy.ndimage.uniform_filter1d` and `bottleneck.move_mean`, not only the three windows
# of 3 that have it: 7 of 12 means are lost. A NaN does the same in SciPy's, and 1e17 among numbers of 0.1 makes all means behind it 0.
# `uniform_filter`, for images, does so along both axes. Both keep a sum, from which they take what leaves the window.
# `scipy.ndimage.correlate1d` with weights of 1/3 is right, and pandas' `rolling(3).mean()` finds the means behind again.
# One would expect that an element changes the windows that it is in. Packages: scipy 1.17.1, bottleneck 1.6.0, pandas 3.1.1, numpy 2.4.6.
# A box filter is the usual reference of a stencil: images with a masked pixel, or of a high dynamic range, accuse a right kernel.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'scipy==1.17.1' 'bottleneck==1.6.0' 'pandas==3.1.1' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import bottleneck
import numpy as np
import pandas as pd
from scipy import ndimage

warnings.simplefilter("ignore")
print(*(f"{name} {version(name)}" for name in ("scipy", "bottleneck", "pandas", "numpy")))
# Each gives the mean of an element and its two neighbours; behind the row's ends is what does not matter here.
FILTERS = {
    "correlate1d": lambda x: ndimage.correlate1d(x, np.full(3, 1 / 3)),
    "uniform_filter1d": lambda x: ndimage.uniform_filter1d(x, 3),
    "move_mean": lambda x: np.append(bottleneck.move_mean(x, 3)[1:], x[-1]),
    "pandas": lambda x: pd.Series(x).rolling(3, center=True).mean().to_numpy(),
}


def lost(name, element):
    """How many of the six means that lie behind the element's windows are not 0.1."""
    x = np.full(12, 0.1)
    x[3] = element
    means = FILTERS[name](x)[5:11]
    return int(np.sum(~np.isclose(means, 0.1)))


found = {name: [lost(name, element) for element in (np.inf, np.nan, 1e17)] for name in FILTERS}
for name, counts in found.items():
    print(f"{name}: of 6 means behind an infinity, a NaN and 1e17, lost: {counts}")
image = np.full((12, 12), 0.1)
image[3, 3] = np.nan
print("uniform_filter: NaN in an image of 144 pixels with one NaN:", np.isnan(ndimage.uniform_filter(image, 3)).sum(), "where 9 have it")
assert found == {
    "correlate1d": [0, 0, 0],
    "uniform_filter1d": [6, 6, 6],
    "move_mean": [6, 0, 6],
    "pandas": [0, 0, 0],
}, "the behaviour has changed"
assert np.isnan(ndimage.uniform_filter(image, 3)).sum() > 9, "the behaviour has changed"
EOF
env/bin/python check.py
