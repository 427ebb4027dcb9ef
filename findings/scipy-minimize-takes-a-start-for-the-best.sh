#!/bin/sh
# `scipy.optimize.minimize` of a time in seconds returns its start as the minimum, with success=True: from (0, 0), BFGS, the default, L-BFGS-B, SLSQP
# and CG do not move, where the time falls from 28 to 3 microseconds at (5, 5). In microseconds, all four find it. A gradient below 1e-5 (gtol) or
# a change below 1e-6 (ftol) ends them, whatever the unit is. One would expect a limit relative to the values, or a message that it stopped at once.
# Packages: scipy 1.17.1.
# Whoever tunes with times in seconds, or fits a model of times by their squares, keeps the first guess and believes that it was the best.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'scipy==1.17.1' 'numpy==2.4.6'
cat >check.py <<'END'
import scipy
from scipy.optimize import minimize


def time(x, unit):
    return (3e-6 + 0.5e-6 * ((x - 5) ** 2).sum()) / unit


print("scipy", scipy.__version__)
for method, in_seconds in (("BFGS", 0), ("L-BFGS-B", 0), ("SLSQP", 0), ("CG", 0), ("Nelder-Mead", 5), ("Powell", 5)):
    found = {}
    for unit, name in ((1, "seconds"), (1e-6, "microseconds")):
        result = minimize(time, [0.0, 0.0], args=(unit,), method=method)
        found[name] = result.x[0]
        print(f"{method}, in {name}: {result.x.round(2)}, {result.nfev} evaluations, {result.message.strip()}")
        assert result.success, "the behaviour has changed"
    assert abs(found["microseconds"] - 5) < 0.01, "the behaviour has changed"
    assert abs(found["seconds"] - in_seconds) < 0.01, "the behaviour has changed"
END
env/bin/python check.py
