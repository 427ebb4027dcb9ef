#!/bin/sh
# `DataFrame.to_json` writes ten decimals, not ten digits: 3.14159265e-06, a time in seconds, is read back as 3.1416e-06, and 2.5e-11 as 0.
# Of 1,000 different times from 3.0 to 3.3 microseconds, 843 different ones are left, and none is what was written. No warning is given.
# `to_csv` and `json.dumps` keep every digit; `double_precision=15`, the most that to_json accepts, keeps ten of such times.
# One would expect that a table that is written and read is the same table, or that digits are counted from the first one.
# Package: pandas 3.1.1; the parameter is documented as "the number of decimal places".
# Times of kernels are microseconds in seconds: after a round trip, configurations are tied that were not, and the first of them is the best.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pandas==3.1.1' 'numpy==2.4.6'
cat >check.py <<'EOF'
import io
import json
from importlib.metadata import version

import numpy as np
import pandas as pd

print(*(f"{name} {version(name)}" for name in ("pandas", "numpy")))


def json_back(times, **options):
    return pd.read_json(io.StringIO(pd.DataFrame({"time": times}).to_json(**options))).time.to_numpy()


def csv_back(times):
    text = pd.DataFrame({"time": times}).to_csv(index=False)
    return pd.read_csv(io.StringIO(text)).time.to_numpy()


few = np.array([3.14159265e-06, 3.14161111e-06, 2.5e-11])
print("written:", *few, "read from JSON:", *json_back(few))
assert list(json_back(few)) == [3.1416e-06, 3.1416e-06, 0.0], "the behaviour has changed"
many = np.random.default_rng(0).uniform(3e-6, 3.3e-6, 1000)
kept = {
    "to_json": json_back(many),
    "to_json(double_precision=15)": json_back(many, double_precision=15),
    "to_csv": csv_back(many),
    "json.dumps": np.array(json.loads(json.dumps(list(many)))),
}
for name, values in kept.items():
    print(f"{name}: {len(np.unique(values))} different times of {len(many)}, {np.sum(values == many)} unchanged")
assert len(np.unique(many)) == len(np.unique(kept["to_csv"])) == 1000
assert (kept["to_csv"] == many).all() and (kept["json.dumps"] == many).all()
assert len(np.unique(kept["to_json"])) < 1000, "the behaviour has changed"
EOF
env/bin/python check.py
