#!/bin/sh
# In Numba, `np.sign` of a uint8 of 200 is 255, and of a uint32 of 4000000000 it is 4294967295: it takes the upper half of an unsigned type for
# negative. Also, 1 - 2 of two uint8 is 18446744073709551615: the operands become uint64, so that `float(a[i] - b[i])` is 1.8e19 wherever b is
# larger. CUDA C gives -1.0 for it, and NumPy 255, as Numba's simulator does (NUMBA_ENABLE_CUDASIM=1). The kernel that Numba compiles for a GPU
# has `sub.s64` and `cvt.rn.f32.u64`. One would expect 1 of `np.sign`, and what C or NumPy makes of the difference.
# Packages: numba 0.68.1, numba-cuda 0.30.4 with NVRTC and libNVVM 13.0.88, without a GPU.
# Differences of pixels are what filters and block matching compute: kernel, simulator and reference in NumPy give three results.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numba==0.68.1' 'numba-cuda==0.30.4' 'nvidia-cuda-nvrtc==13.0.88' \
    'nvidia-cuda-nvcc==13.0.88' 'nvidia-nvvm==13.0.88' 'numpy==2.4.6'
cat >kernel.py <<'EOF'
def differ(y, a, b):
    y[0] = a[0] - b[0]
EOF
cat >check.py <<'EOF'
import re
from importlib.metadata import version

import numba
import numpy as np
from kernel import differ
from numba import cuda, types

print("numba", numba.__version__, "numba-cuda", version("numba-cuda"))
sign = numba.njit(lambda x: np.sign(x))
for values in (np.array([3, 200], np.uint8), np.array([3, 4_000_000_000], np.uint32)):
    print(f"np.sign of {values} in {values.dtype}: Numba {sign(values)}, NumPy {np.sign(values)}")
    assert sign(values).tolist() == [1, np.iinfo(values.dtype).max], "the behaviour has changed"
one, two = np.array([1], np.uint8), np.array([2], np.uint8)
y = np.zeros(1, np.float32)
numba.njit(differ)(y, one, two)
print("1 - 2 of uint8, to float32: Numba", y[0], end="")
differ(y, one, two)
print(", NumPy", y[0])
ptx = cuda.compile_ptx(differ, (types.float32[::1], types.uint8[::1], types.uint8[::1]), cc=(9, 0))[0]
instructions = re.findall(r"^\s*(sub\.\S+|cvt\.rn\.\S+)", ptx, re.MULTILINE)
print("in PTX:", instructions)
numba.njit(differ)(y, one, two)
assert y[0] == np.float32(2**64) and instructions == ["sub.s64", "cvt.rn.f32.u64"], "the behaviour has changed"
EOF
cat >simulated.py <<'EOF'
import numpy as np
from kernel import differ
from numba import cuda

y = np.zeros(1, np.float32)
cuda.jit(differ)[1, 1](y, np.array([1], np.uint8), np.array([2], np.uint8))
print("the simulator:", y[0])
assert y[0] == 255, "the behaviour has changed"
EOF
env/bin/python check.py
NUMBA_ENABLE_CUDASIM=1 env/bin/python -W ignore simulated.py
