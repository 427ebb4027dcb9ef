#!/bin/sh
# A restriction that is a lambda loses the variables that it uses: `lambda p: p["x"] <= most` is refused, because `most`
# is no parameter; the same condition in a function of `def` is accepted. Two lambdas on one line are refused, too.
# One would expect that a lambda is called, as a function is.
# Package: kernel_tuner 1.5.0, which parses the source lines of a lambda anew and keeps the text of the condition.
# A tuner's user writes limits of the device as variables, and gets a message that names parameters.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0' 'python-constraint2==2.9.0'
cat >check.py <<'EOF'
from importlib.metadata import version

from kernel_tuner.searchspace import Searchspace

parameters = {"x": [1, 2, 4, 8], "y": [1, 2, 4, 8]}
most = 8


def function(p):
    return p["x"] * p["y"] <= most


constant = lambda p: p["x"] * p["y"] <= 8
variable = lambda p: p["x"] * p["y"] <= most
beside, metric = lambda p: p["x"] * p["y"] <= 8, lambda p: 1 / p["time"]


def listed(restriction):
    try:
        return Searchspace(dict(parameters), [restriction], 1024).size
    except ValueError as error:
        return f"ValueError: {error}"


print("kernel_tuner", version("kernel_tuner"))
found = {name: listed(globals()[name]) for name in ("function", "constant", "variable", "beside")}
for name, result in found.items():
    print(f"{name}: {result}")
assert found["function"] == found["constant"] == 10, "the behaviour has changed"
assert "not in tune_params" in str(found["variable"]), "the behaviour has changed"
assert "parsing restrictions" in str(found["beside"]), "the behaviour has changed"
EOF
env/bin/python check.py
