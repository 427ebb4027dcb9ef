#!/bin/sh
# `scipy.optimize.brute`, the search of all configurations, returns the one whose time is NaN as the best: `argmin` of NumPy takes a NaN for the
# least number. `differential_evolution`, also with `integrality=True`, keeps a NaN once it is in the population, since no time is below it, and
# ends there after its last iteration. `dual_annealing` finds the least time. One would expect NaN to lose, or an error.
# Package: scipy 1.17.1, optimize/_optimize.py and _differentialevolution.py. Only success=False of differential_evolution tells it.
# NaN is the usual time of a configuration that did not build: a script that tunes by these functions keeps that one.
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
from scipy import optimize

print("scipy", scipy.__version__, "numpy", np.__version__)
warnings.simplefilter("error", optimize.OptimizeWarning)


def time(x):
    tile = round(float(np.ravel(x)[0]))
    return np.nan if tile == 4 else 1 + (tile - 7) ** 2  # 4 does not build, 7 is the fastest


best, least, _, times = optimize.brute(time, [slice(0, 10, 1)], finish=None, full_output=True)
print("brute: tile", best, "time", least, "of", times)
assert best == 4 and np.isnan(least) and np.nanmin(times) == 1, "the behaviour has changed"
for seed in range(3):
    found = optimize.differential_evolution(time, [(0, 9)], integrality=[True], rng=seed)
    print("differential_evolution: tile", found.x[0], "time", found.fun, "success", found.success)
    assert np.isnan(found.fun) and not found.success, "the behaviour has changed"
found = optimize.dual_annealing(time, [(0, 9)], rng=0)
print(f"dual_annealing: tile {found.x[0]:.2f} time {found.fun}")
assert found.fun == 1, "the behaviour has changed"
EOF
env/bin/python check.py
