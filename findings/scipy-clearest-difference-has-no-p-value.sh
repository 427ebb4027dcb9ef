#!/bin/sh
# The clearest difference has the p-value NaN in `scipy.stats.brunnermunzel`: of two kernels, one of which is faster in each of 30 runs, `p < 0.05`
# is false. Where one pair of runs overlaps, p is 1e-40 or less. With distribution="normal" it is 0. A RuntimeWarning mentions the degrees of
# freedom, which are 0 / 0. One would expect 0, or the least value that the number of runs allows, as `mannwhitneyu` gives it.
# Package: scipy 1.17.1, stats/_stats_py.py: the variances of the ranks are 0, and no case is made of it.
# The test is recommended for times of unequal variance: a gate in CI that compares two versions passes the largest slowdowns.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'scipy==1.17.1' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings

import numpy as np
import scipy
from scipy import stats

print("scipy", scipy.__version__, "numpy", np.__version__)
rng = np.random.default_rng(0)
before, after = rng.normal(1.0, 0.01, 30), rng.normal(2.0, 0.05, 30)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    apart = stats.brunnermunzel(before, after)
print("no run overlaps:", apart, "significant:", bool(apart.pvalue < 0.05))
print("warnings:", sorted({str(warning.message)[:70] for warning in caught}))
assert np.isnan(apart.pvalue), "the behaviour has changed"
overlapping = after.copy()
overlapping[0] = np.sort(before)[-2]
near = stats.brunnermunzel(before, overlapping)
other = stats.mannwhitneyu(before, after)
print("one run overlaps: p", near.pvalue, "; mannwhitneyu, none: p", other.pvalue)
assert near.pvalue < 1e-10 and other.pvalue < 1e-10, "the behaviour has changed"
EOF
env/bin/python check.py
