#!/bin/sh
# The product of two elements of int32 arrays is computed in 64 bit by the code that Numba compiles for GPUs, and wraps in 32 bit in its
# simulator (NUMBA_ENABLE_CUDASIM=1): 100,000 * 100,000, stored as int64, is 1410065408 there, with NumPy's warning of an overflow.
# One would expect the simulator to compute what the GPU computes: a kernel that is right looks wrong, and an answer made with it is wrong.
# Packages: numba-cuda 0.30.4, numba 0.68.1, compiling for compute capability 9.0 without a GPU; the multiplication is read in the PTX.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numba==0.68.1' 'numba-cuda[cu13]==0.30.4' 'numpy==2.4.6'
cat >check.py <<'EOF'
import os
import re
import warnings
from importlib.metadata import version

import numpy as np
from numba import cuda, types

warnings.simplefilter("ignore")


def multiply(product, left, right):
    i = cuda.grid(1)
    product[i] = left[i] * right[i]


if os.environ.get("NUMBA_ENABLE_CUDASIM"):
    product, factors = np.zeros(4, np.int64), np.full(4, 100_000, np.int32)
    cuda.jit(multiply)[1, 4](product, factors, factors)
    print("simulator:", product[0])
    assert product[0] == 1410065408, "the behaviour has changed"
else:
    print("numba", version("numba"), "numba-cuda", version("numba-cuda"))
    ptx, _ = cuda.compile_ptx(multiply, (types.int64[::1], types.int32[::1], types.int32[::1]), cc=(9, 0))
    loads = re.findall(r"ld\.global\.u?32\s+(%r\d+)", ptx)
    found = [line.strip() for line in ptx.splitlines() if re.search(r"mul\S*\s", line) and all(r in line for r in loads)]
    print("compiled:", found)
    assert len(loads) == 2 and len(found) == 1 and found[0].startswith("mul.wide.s32"), "the behaviour has changed"
EOF
env/bin/python check.py
NUMBA_ENABLE_CUDASIM=1 env/bin/python check.py
