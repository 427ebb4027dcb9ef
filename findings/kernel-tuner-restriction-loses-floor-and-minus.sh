#!/bin/sh
# Between two parameters, Kernel Tuner takes `//` for `/`, and drops a minus: "threads // tile == rows" lists 4 of the 8 configurations that
# satisfy it, because 48 // 32 is 1 and 48 / 32 is not; "left >= -right" lists 6 of 16, those of "left >= right". Where every
# quotient is whole, the lists are right. One would expect what Python makes of the same text.
# Package: kernel_tuner 1.5.0 with python-constraint2 2.9.0, which rewrites comparisons of two terms into its own constraints.
# Whole warps per row, halos that may be negative: valid configurations are never measured, without a word.
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

TILES = {"threads": [32, 48, 64, 96, 112], "tile": [32, 64], "rows": [1, 2, 3]}
WHOLE = {"threads": [32, 64, 96], "tile": [32], "rows": [1, 2, 3]}
HALOS = {"left": [0, 1, 2, 3], "right": [1, 2, 3, 4]}
expected = [  # valid, listed
    (TILES, "threads // tile == rows", 8, 4),
    (WHOLE, "threads // tile == rows", 3, 3),
    (HALOS, "left >= -right", 16, 6),
    (HALOS, "left >= right", 6, 6),
]
print("kernel_tuner", version("kernel_tuner"), "python-constraint2", version("python-constraint2"))
for parameters, text, *counts in expected:
    every = itertools.product(*parameters.values())
    valid = {v for v in every if eval(text, {}, dict(zip(parameters, v)))}
    listed = set(map(tuple, Searchspace(dict(parameters), [text], 1024).list))
    print(f"{text!r} of {parameters}: {len(valid)} are valid, {len(listed)} are listed")
    assert listed <= valid and [len(valid), len(listed)] == counts, "the behaviour has changed"
EOF
env/bin/python check.py
