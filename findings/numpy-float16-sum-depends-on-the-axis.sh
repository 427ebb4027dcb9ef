#!/bin/sh
# The sum of 4,096 ones in float16 is 4096 along the contiguous axis and 2048 along the other one: pairwise summation, which hides
# the rounding, is used for the former alone; the latter adds row after row in float16 and stops at 2048.
# One would expect the same sum of the same numbers. Package: numpy 2.4.6.
# A row sum and a column sum of one matrix need different tolerances, unless dtype=np.float32 is passed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6'
cat >check.py <<'EOF'
import numpy as np

print("numpy", np.__version__)
rows, columns = np.ones((1, 4096), np.float16).sum(axis=1), np.ones((4096, 1), np.float16).sum(axis=0)
wide = np.ones((4096, 2), np.float16).sum(axis=0)
print("along the contiguous axis:", rows, "along the other:", wide, "of one column:", columns)
assert rows[0] == 4096 and wide[0] == wide[1] == 2048, "the behaviour has changed"
EOF
env/bin/python check.py
