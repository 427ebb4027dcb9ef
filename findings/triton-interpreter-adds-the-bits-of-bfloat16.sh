#!/bin/sh
# Triton's interpreter (TRITON_INTERPRET=1) computes with the bits of bfloat16 as if they were a whole number: 1.5 + 4.25 is -6.6e-39, 1 * 2 is 0,
# the lesser of -1 and -2 is -1, and `tl.sum` of eight numbers around 1 is 4e36. Two arrays are added, multiplied, compared and summed without
# a word. A float64 of 1.5 becomes 9e-41. By way of tl.float32, the sum is right.
# One would expect the right numbers, or an error: the page on debugging says that operations on bfloat16 are not supported.
# Package: triton 3.6.0, without a GPU and without torch: the class Array has what the interpreter asks of a tensor. numpy 2.3.5, ml_dtypes 0.5.4.
# Compiled code gave the right sums on an H200, in November 2026.
# Who tries a 16-bit kernel on a laptop sees wrong numbers and looks for the fault in the kernel, or makes an answer of them.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0' 'numpy==2.3.5' 'ml_dtypes==0.5.4'
cat >check.py <<'EOF'
from importlib.metadata import version

import ml_dtypes
import numpy as np
import triton
import triton.language as tl


class Array:
    """What the interpreter asks of a tensor."""

    def __init__(self, data, dtype):
        self.data, self.dtype = data, dtype

    def data_ptr(self):
        return self.data.ctypes.data

    def untyped_storage(self):
        return self

    def cpu(self):
        return self

    def new_empty(self, *_, **__):
        return Array(self.data, self.dtype)

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


@triton.jit
def compute(x, y, z):
    i = tl.arange(0, 8)
    a = tl.load(x + i)
    b = tl.load(y + i)
    tl.store(z + i, a + b)
    tl.store(z + 8 + i, a * b)
    tl.store(z + 16 + i, tl.where(a < b, a, b))
    tl.store(z + 24 + i, tl.sum(a, 0) + tl.zeros((8,), tl.bfloat16))
    tl.store(z + 32 + i, a.to(tl.float32) + b.to(tl.float32))


@triton.jit
def narrow(x, z):
    i = tl.arange(0, 8)
    tl.store(z + i, tl.load(x + i).to(tl.bfloat16))


print(*(f"{name} {version(name)}" for name in ("triton", "numpy", "ml_dtypes")))
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
x, y = np.array([1.5, -1, 1, 1, 1, 1, 1, 1]).astype(BFLOAT16), np.array([4.25, -2, 2, 2, 2, 2, 2, 2]).astype(BFLOAT16)
z = np.zeros(40, BFLOAT16)
compute[(1,)](Array(x, "bfloat16"), Array(y, "bfloat16"), Array(z, "bfloat16"))
sums, products, least, total, wide = z.astype(float).reshape(5, 8)
print(f"{x[0]} + {y[0]} is {sums[0]:.3g}, and {wide[0]} by way of float32; {x[2]} * {y[2]} is {products[2]:.3g}")
print(f"the lesser of {x[1]} and {y[1]} is {least[1]}; the sum of {x.astype(float).tolist()} is {total[0]:.3g}")
narrowed = np.zeros(8, BFLOAT16)
narrow[(1,)](Array(np.full(8, 1.5), "float64"), Array(narrowed, "bfloat16"))
print(f"float64 1.5 as bfloat16 is {narrowed[0]}")
assert narrowed[0] < 1e-30, "the behaviour has changed"
assert wide[0] == 5.75
assert abs(sums[0]) < 1e-30 and products[2] != 2 and least[1] == -1 and total[0] > 1e30, "the behaviour has changed"
EOF
TRITON_INTERPRET=1 env/bin/python check.py
