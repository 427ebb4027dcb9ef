#!/bin/sh
# In Numba, `h % 10` of a uint64 from 2**63 on is wrong: 9223372036854775813 % 10 is 7, and h // 10 is negative. The literal is an int64, and
# uint64 with int64 is int64 in this version, so `h + 1`, `h * 3` and `(h + 1) > h` are those of a negative number, and `max(h, 1)` is a
# float64. With np.uint64(10) all is right; uint32 is, too. NumPy computes the same lines in uint64. No warning is given.
# One would expect NumPy's result, or an error. Packages: numba 0.68.1, numpy 2.4.6.
# Hash tables, hashes (FNV, Murmur) and counters of random numbers are such integers, and half of all hashes are that large: a reference in
# Numba puts them into other buckets than a kernel in CUDA or C does, whose literal becomes unsigned.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numba==0.68.1' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
from numba import njit

print("numba", version("numba"), "numpy", version("numpy"))


@njit
def literal(h):
    return h % 10, h // 10, h + 1, (h + 1) > h, max(h, 1)


@njit
def cast(h):
    return h % np.uint64(10), h // np.uint64(10), h + np.uint64(1), (h + np.uint64(1)) > h, max(h, np.uint64(1))


h = np.uint64(2**63 + 5)
right = [int(each) for each in literal.py_func(h)]
assert right == [int(each) for each in cast(h)] == [3, 922337203685477581, 2**63 + 6, True, 2**63 + 5]
wrong = literal(h)
for text, ours, theirs in zip(("h % 10", "h // 10", "h + 1", "(h + 1) > h", "max(h, 1)"), right, wrong, strict=True):
    print(f"h = {h}: {text} is {theirs!r} in Numba and {ours} in NumPy")
hashes = np.random.default_rng(0).integers(0, 2**64, 10_000, np.uint64)
buckets = np.array([literal(each)[0] for each in hashes])
print(f"of {len(hashes)} random hashes, {np.sum(buckets != hashes % np.uint64(10))} are in the wrong one of 10 buckets")
assert wrong[0] == 7 and wrong[1] < 0 and wrong[2] < 0 and not wrong[3] and isinstance(wrong[4], float), "the behaviour has changed"
EOF
env/bin/python check.py
