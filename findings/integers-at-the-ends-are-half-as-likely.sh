#!/bin/sh
# scikit-optimize's default Optimizer, which gp_minimize uses, and Hyperopt's `uniformint` draw the ends of an integer range half as often as
# the values between: of Integer(1, 4), 1 and 4 each in a sixth of the draws, 2 and 3 in a third; with Sobol and Latin hypercube points,
# too. They round a real number between the ends. With a base estimator of trees, scikit-optimize draws all alike, as `hp.randint` does.
# One would expect equal shares of a uniform range, as Optuna's and ConfigSpace's integers have them.
# Packages: scikit-optimize 0.10.2, hyperopt 0.3.0.
# The exponents of tiles and unroll factors are short ranges whose best value is often at an end, and the first points of a search are these.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'scikit-optimize==0.10.2' 'hyperopt==0.3.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import numpy as np
from hyperopt import Trials, fmin, hp, rand
from skopt import Optimizer
from skopt.space import Integer

warnings.simplefilter("ignore")
print(*(f"{name} {version(name)}" for name in ("scikit-optimize", "hyperopt")))
COUNT = 600


def asked(estimator, points):
    start = {"n_initial_points": COUNT, "initial_point_generator": points}
    search = Optimizer([Integer(1, 4)], estimator, **start, random_state=1)
    values = []
    for _ in range(COUNT):
        values += search.ask()
        search.tell(values[-1:], 0.0)
    return values


def sampled(domain):
    trials = Trials()
    quiet = {"show_progressbar": False, "verbose": 0}
    fmin(lambda value: 0.0, domain, rand.suggest, COUNT, trials=trials, rstate=np.random.default_rng(1), **quiet)
    return trials.vals["x"]


def ends(name, values):
    counts = np.bincount(np.asarray(values, int), minlength=5)[1:]
    print(f"{name}: 1 to 4 were drawn {', '.join(map(str, counts))} times")
    return (counts[0] + counts[3]) / COUNT


rare = [ends(f"Optimizer, {points}", asked("GP", points)) for points in ("random", "sobol", "lhs")]
rare.append(ends("hp.uniformint", sampled(hp.uniformint("x", 1, 4))))
even = [ends("Optimizer of trees, random", asked("ET", "random")), ends("hp.randint", sampled(hp.randint("x", 1, 5)))]
assert all(0.27 < share < 0.4 for share in rare), "the behaviour has changed"
assert all(0.43 < share < 0.57 for share in even), "the behaviour has changed"
EOF
env/bin/python check.py
