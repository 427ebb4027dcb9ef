#!/bin/sh
# A constraint that no value of a variable satisfies raises "max() arg is an empty sequence" instead of giving no solutions, so
# Kernel Tuner reports a space without valid configurations by that text. One would expect an empty list.
# Package: python-constraint2 2.9.0, constraints such as "x > 64" become MinSumConstraint and fail while preprocessing.
# Restrictions that exclude everything at one problem size are usual; the message names neither restriction nor parameter.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'python-constraint2==2.9.0'
cat >check.py <<'EOF'
from importlib.metadata import version

from constraint import Problem

print("python-constraint2", version("python-constraint2"))
problem = Problem()
problem.addVariable("x", [16, 32, 64])
problem.addConstraint("x > 64")
try:
    print("solutions:", problem.getSolutions())
except ValueError as error:
    print("ValueError:", error)
    assert "empty sequence" in str(error)
else:
    raise SystemExit("the behaviour has changed")
EOF
env/bin/python check.py
