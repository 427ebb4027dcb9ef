#!/bin/sh
# `np.linalg.norm` of float16 squares and adds in float16: the norm of 70,000 ones is infinite, as is that of 300 numbers of 300. A
# relative error `norm(result - reference) / norm(reference)` is then 0, although elements are wrong. `np.var` and `np.average` with
# weights overflow in the same way; `np.mean`, `np.matmul` and `np.vecdot` are right up to the largest float16.
# Package: numpy 2.3.5.
# Checks of kernels in half precision are written so: convert to float32 first, or compare elements.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.3.5'
cat >check.py <<'EOF'
import warnings

import numpy as np

print("numpy", np.__version__)
warnings.simplefilter("ignore")
reference = np.random.default_rng(0).uniform(0, 300, 4096).astype(np.float16)
result = reference.copy()
result[:2] = 0  # two elements are wrong


def relative_error(result, reference):
    return float(np.linalg.norm(result - reference) / np.linalg.norm(reference))


in_half = relative_error(result, reference)
in_float32 = relative_error(result.astype(np.float32), reference.astype(np.float32))
print("norm of 70,000 ones:", np.linalg.norm(np.ones(70_000, np.float16)))
print("norm of 4,096 numbers below 300:", np.linalg.norm(reference), "of float32:", np.linalg.norm(reference.astype(np.float32)))
print("relative error of two wrong elements:", in_half, "of float32:", in_float32)
assert np.isinf(np.linalg.norm(np.ones(70_000, np.float16))), "the behaviour has changed"
assert in_half == 0 and in_float32 > 0.01, "the behaviour has changed"
assert np.isfinite(np.mean(reference)) and np.isinf(np.var(reference)), "the behaviour has changed"
EOF
env/bin/python check.py
