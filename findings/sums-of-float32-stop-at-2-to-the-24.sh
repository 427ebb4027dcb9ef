#!/bin/sh
# 33,554,432 ones of float32 add up to 16,777,216 in Numba (`np.sum`, `a.sum()`), numexpr (`sum(a)`), Warp (`utils.array_sum`, `array_inner`),
# SciPy's CSR matrices times a vector and `jax.ops.segment_sum` on a processor, and their mean is 0.5 in Numba. These add one by one in
# float32, which has no 16,777,217. Long before, digits are lost: the mean of ten million times 0.1 is 0.1088 in Numba.
# One would expect NumPy's result, which adds pairwise and is exact here, at least where Numba compiles the same line of code.
# Packages: numba 0.68.1, numexpr 2.14.2, warp-lang 1.19.0, scipy 1.17.1, jax 0.10.2, numpy 2.4.6; no GPU is needed.
# Numba is how slow references become fast. A kernel's sum in blocks is nearer to the truth than such a reference, and is refused by it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numba==0.68.1' 'numexpr==2.14.2' 'warp-lang==1.19.0' 'scipy==1.17.1' \
    'jax==0.10.2' 'jaxlib==0.10.2' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import jax
import numexpr
import numpy as np
import scipy.sparse
import warp
from numba import njit

print(*(f"{name} {version(name)}" for name in ("numba", "numexpr", "warp-lang", "scipy", "jax", "numpy")))
warp.config.quiet = True
COUNT = 2**25
ones = np.ones(COUNT, np.float32)


@njit
def numba_sum(a):
    return np.sum(a)


@njit
def numba_mean(a):
    return np.mean(a)


row = scipy.sparse.csr_array((ones, np.zeros(COUNT, np.int32), [0, COUNT]), shape=(1, 1))
on_host = warp.array(ones, dtype=float, device="cpu")
sums = {
    "NumPy": ones.sum(),
    "Numba": numba_sum(ones),
    "numexpr": numexpr.evaluate("sum(ones)"),
    "Warp, array_sum": warp.utils.array_sum(on_host),
    "Warp, array_inner": warp.utils.array_inner(on_host, on_host),
    "SciPy, CSR": (row @ np.ones(1, np.float32))[0],
    "JAX, segment_sum": jax.ops.segment_sum(ones, np.zeros(COUNT, np.int32), 1)[0],
}
for name, value in sums.items():
    print(f"{name}: the sum of {COUNT:,} ones is {int(value):,}")
tenths = np.full(10**7, 0.1, np.float32)
print("the mean of the ones in Numba:", numba_mean(ones), "; of ten million times 0.1:", numba_mean(tenths), "and in NumPy:", tenths.mean())
assert int(sums.pop("NumPy")) == COUNT
assert all(int(value) == 2**24 for value in sums.values()), "the behaviour has changed"
assert numba_mean(ones) == 0.5 and abs(numba_mean(tenths) - 0.1) > 0.005 > abs(tenths.mean() - 0.1), "the behaviour has changed"
EOF
env/bin/python check.py
