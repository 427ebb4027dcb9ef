#!/bin/sh
# `x % y` of float32 in Triton is x - trunc(x / y) * y with the rounded quotient, so it is negative where x is just below a multiple of y:
# 8.2 % 0.1 is -3.1e-7, and where x / y is over 2^24, it is as far outside of 0 to y as you like: 1e10 % 3.0 is 256. Of random x below 1e6,
# a fifth of the remainders by 0.1 is negative. Triton's interpreter gives the exact remainder.
# One would expect fmodf, which CUDA and C compute exactly, and a remainder of positive numbers that is not negative.
# Package: triton 3.6.0, compiling for compute capability 9.0 without a GPU; numpy 2.4.6 computes what the instructions do, as an H200 does.
# Phases, positions in a periodic box and hash tables are wrapped so: the cell of a negative remainder is outside the table.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0' 'numpy==2.4.6'
cat >kernels.py <<'EOF'
import triton
import triton.language as tl


@triton.jit
def remainder(x, y, result):
    i = tl.arange(0, 4)
    tl.store(result + i, tl.load(x + i) % tl.load(y + i))
EOF
cat >compiled.py <<'EOF'
import re
from importlib.metadata import version

import numpy as np
import triton
from kernels import remainder
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

print("triton", version("triton"))
signature = {"x": "*fp32", "y": "*fp32", "result": "*fp32"}
ptx = triton.compile(ASTSource(remainder, signature, {}), target=GPUTarget("cuda", 90, 32)).asm["ptx"]
arithmetic = re.findall(r"\t(div\S*|cvt\.rz\S*|neg\S*f32|fma\S*|sub\S*f32|mul\S*f32)", ptx)
print("compiled:", *arithmetic)
assert arithmetic == ["div.rn.f32", "cvt.rzi.f32.f32", "neg.f32", "fma.rn.f32"], "the behaviour has changed"


def compiled(x, y):
    """What these four instructions compute: products of two float32 numbers are exact in float64."""
    return (x.astype(np.float64) - np.trunc(x / y).astype(np.float64) * y.astype(np.float64)).astype(np.float32)


def shown(x, y):
    x, y = np.broadcast_arrays(np.asarray(x, np.float32), np.float32(y))
    return compiled(x, y), np.fmod(x, y)


for x, y in ((8.2, 0.1), (92.5, 0.1), (628.31854, 6.2831853), (1e10, 3.0)):
    print(f"{x} % {y}: these instructions give {shown(x, y)[0]:.9g}, fmod gives {shown(x, y)[1]:.9g}")
random = np.random.default_rng(0).uniform(0, 1e6, 100_000)
wrong, right = shown(random, 0.1)
print(f"random numbers below 1e6 % 0.1: {np.mean(wrong < 0):.0%} are negative, {np.mean(right < 0):.0%} of fmod's")
assert shown(8.2, 0.1)[0] < 0 and shown(1e10, 3.0)[0] > 3 and np.mean(wrong < 0) > 0.2
EOF
cat >interpreted.py <<'EOF'
import numpy as np
from kernels import remainder


class Array:
    dtype = "float32"

    def __init__(self, data):
        self.data = data

    def data_ptr(self):
        return self.data.ctypes.data

    def untyped_storage(self):
        return self

    def cpu(self):
        return self

    def new_empty(self, *_, **__):
        return Array(self.data)

    def set_(self, *_):
        return self

    def storage_offset(self):
        return 0

    def size(self):
        return self.data.shape

    def stride(self):
        return self.data.strides

    def copy_(self, other):
        pass


x = np.array([8.2, 92.5, 628.31854, 1e10], np.float32)
y = np.array([0.1, 0.1, 6.2831853, 3], np.float32)
result = np.zeros(4, np.float32)
remainder[(1,)](Array(x), Array(y), Array(result))
print("interpreted:", *(f"{value:.9g}" for value in result))
assert (result == np.fmod(x, y)).all(), "the behaviour has changed"
EOF
env/bin/python compiled.py
TRITON_INTERPRET=1 env/bin/python interpreted.py
