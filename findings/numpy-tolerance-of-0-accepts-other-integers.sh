#!/bin/sh
# `np.testing.assert_allclose(a, b, rtol=0, atol=0)` passes for integers that differ: 2**60 and 2**60 + 60 of int64 or uint64 are equal to it, to
# `np.allclose`, `assert_array_almost_equal` and `assert_array_max_ulp`, because all convert them to float64. No warning is given.
# Only `np.array_equal` and `assert_array_equal` compare integers. One would expect that a tolerance of 0 asks for equality, at
# least of integers, of which every one is known exactly.
# Package: numpy 2.4.6, numeric.py, isclose. Of random 64-bit hashes, two that differ in the last byte alone are equal in nine cases of ten.
# Hashes, random numbers, addresses and counters are 64-bit outputs of kernels, and tests use one function for all types: a
# kernel whose low bits are wrong passes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings

import numpy as np

warnings.simplefilter("error")
print("numpy", np.__version__)
CHECKS = {
    "testing.assert_allclose(rtol=0, atol=0)": lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=0),
    "allclose(rtol=0, atol=0)": lambda a, b: np.testing.assert_(np.allclose(a, b, rtol=0, atol=0)),
    "testing.assert_array_almost_equal(decimal=12)": lambda a, b: np.testing.assert_array_almost_equal(a, b, 12),
    "testing.assert_array_max_ulp(maxulp=0)": lambda a, b: np.testing.assert_array_max_ulp(a, b, 0),
    "testing.assert_array_equal": np.testing.assert_array_equal,
}


def passes(check, a, b):
    try:
        check(a, b)
    except AssertionError:
        return False
    return True


found = {}
for name, check in CHECKS.items():
    found[name] = [passes(check, np.array([2**60], kind), np.array([2**60 + 60], kind)) for kind in (np.int64, np.uint64)]
    print(f"2**60 and 2**60 + 60: {name} {'passes' if all(found[name]) else 'fails'}")
hashes = np.random.default_rng(0).integers(0, 2**64, 10_000, np.uint64)
others = hashes ^ np.uint64(0xFF)
equal = int(np.isclose(hashes, others, rtol=0, atol=0).sum())
print(f"of {len(hashes):,} random hashes with all bits of the last byte flipped, {equal:,} are close with a tolerance of 0")
assert found.pop("testing.assert_array_equal") == [False, False]
assert all(each == [True, True] for each in found.values()) and equal > 5000, "the behaviour has changed"
EOF
env/bin/python check.py
