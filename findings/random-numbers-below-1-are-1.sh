#!/bin/sh
# Random float32 numbers "in [0, 1)" are 1.0 once in 33 million: of Numba's CUDA generators (xoroshiro128p_uniform_float32) and of pyopencl's
# (PhiloxGenerator and ThreefryGenerator, uniform). Both round a finer number in [0, 1) to float32, and all above 1 - 2^-25 become 1.
# One would expect numbers below 1, as NumPy's `random(dtype=float32)` and Warp's `randf` are.
# Packages: numba-cuda 0.30.4, numba 0.68.1, whose generator is run on the processor here, and pyopencl 2026.1.4 with pocl-binary-distribution 3.0.
# A Monte Carlo kernel that takes `int(u * bins)` for a place writes behind its array, about once for 33 million numbers: rarely
# enough to pass every check of a small problem. Its logarithm, log(1 - u), is then infinite.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numba-cuda==0.30.4' 'numba==0.68.1' 'pyopencl==2026.1.4' \
    'pocl-binary-distribution==3.0' 'mako==1.4.3' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
import pyopencl
import pyopencl.clrandom
from numba import njit
from numba.cuda import random as cuda_random

print(*(f"{name} {version(name)}" for name in ("numba-cuda", "numba", "pyopencl", "numpy")))
COUNT = 2**28


@njit
def ones(states, count):
    """How many of `count` numbers of Numba's generator are 1 or more."""
    found = 0
    for _ in range(count):
        if cuda_random.uint64_to_unit_float32(cuda_random.xoroshiro128p_next(states, 0)) >= np.float32(1):
            found += 1
    return found


states = np.zeros(1, cuda_random.xoroshiro128p_dtype)
cuda_random.init_xoroshiro128p_state(states, 0, 1)
numba = ones(states, COUNT)
print(f"Numba: {numba} of {COUNT:,} are 1.0; expected from rounding: {COUNT / 2**25:.0f}")

queue = pyopencl.CommandQueue(pyopencl.create_some_context(interactive=False))
found = {}
for generator in (pyopencl.clrandom.PhiloxGenerator, pyopencl.clrandom.ThreefryGenerator):
    drawn = generator(queue.context, seed=3).uniform(queue, 2**27, np.float32).get()
    found[generator.__name__] = int(np.sum(drawn >= 1))
    print(f"pyopencl, {generator.__name__}: {found[generator.__name__]} of {len(drawn):,} are 1.0; the places int(100 * u) reach "
          f"{int((100 * drawn).max())}")
assert numba > 0 and all(found.values()), "the behaviour has changed"
EOF
PYOPENCL_CTX=0 env/bin/python check.py
