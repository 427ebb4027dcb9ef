#!/bin/sh
# A restriction such as "x % y == z" selects configurations that violate it and drops ones that satisfy it: of the 6 that
# Python accepts here, Kernel Tuner lists none, and 3 that are wrong; "z <= x % y" lists 45 of 48 where 10 are valid.
# One would expect that a restriction means what the same text means in Python.
# Package: kernel_tuner 1.5.0 with python-constraint2 2.9.0, which rewrites comparisons of two terms into its own constraints.
# A tuner then measures invalid configurations, and never sees valid ones, without a word.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0' 'python-constraint2==2.9.0'
cat >check.py <<'EOF'
import itertools
from importlib.metadata import version

from kernel_tuner.searchspace import Searchspace

parameters = {"x": [1, 2, 4, 8], "y": [1, 2, 4, 8], "z": [1, 2, 4]}
expected = {"x % y == z": (6, 0, 3), "z <= x % y": (10, 10, 35), "x // y == z": (9, 9, 0)}
print("kernel_tuner", version("kernel_tuner"), "python-constraint2", version("python-constraint2"))
for text, counts in expected.items():
    valid = {v for v in itertools.product(*parameters.values()) if eval(text, {}, dict(zip(parameters, v)))}
    listed = set(map(tuple, Searchspace(dict(parameters), [text], 1024).list))
    found = len(valid), len(valid & listed), len(listed - valid)
    print(f"{text!r}: {found[0]} are valid; of these {found[1]} are listed, and {found[2]} that are not valid")
    assert found == counts, "the behaviour has changed"
EOF
env/bin/python check.py
