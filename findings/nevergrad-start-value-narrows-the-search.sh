#!/bin/sh
# A start value in Nevergrad narrows what is searched: of 1,000 random samples of `Log(init=1, lower=1, upper=1024)` none is above 64, and
# half are 1 or 2; without `init`, a fifth is above 200. `Scalar(init=1, ...)` has half of its samples below 130. NGOpt finds less for it,
# too. One would expect that `RandomSearch` samples the range, and that a start value is where the search begins.
# Package: nevergrad 1.0.12. A tuner starts from the kernel's constants, and these are often at the lower end (tile 1, unroll 1).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nevergrad==1.0.12' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import nevergrad as ng
import numpy as np

warnings.simplefilter("ignore")
print("nevergrad", version("nevergrad"))


def samples(parameter):
    parameter.random_state = np.random.RandomState(0)
    search = ng.optimizers.RandomSearch(parameter.set_integer_casting(), budget=1000)
    return np.array([search.ask().value for _ in range(1000)])


def shown(text, values):
    print(f"{text:18} median {np.median(values):5.0f}, largest {values.max():4}, above 200: {np.mean(values > 200):.1%}")
    return values


bounds = {"lower": 1, "upper": 1024}
started = shown("Log(init=1)", samples(ng.p.Log(init=1, **bounds)))
free = shown("Log()", samples(ng.p.Log(**bounds)))
linear_started = shown("Scalar(init=1)", samples(ng.p.Scalar(init=1, **bounds)))
linear = shown("Scalar()", samples(ng.p.Scalar(**bounds)))
assert started.max() < 64 and np.mean(free > 200) > 0.15, "the behaviour has changed"
assert np.median(linear_started) < 130 and np.median(linear) > 400, "the behaviour has changed"
EOF
env/bin/python check.py
