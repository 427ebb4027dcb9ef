#!/bin/sh
# Triton's interpreter (TRITON_INTERPRET=1) rounds to 8- and 16-bit types otherwise than the code that Triton compiles. To bfloat16 it cuts
# digits off, so every result is low, by up to a whole unit in the last place, where the compiled code rounds to the nearest; a number
# below 2^-126 becomes up to ten times larger. To float8 a carry out of the mantissa is lost: 1.95 becomes 1.0, where the nearest is 2.0;
# NaN becomes 384 in e4m3, and 1e5 becomes NaN in e5m2, where the compiled code saturates.
# Package: triton 3.6.0, without a GPU and without torch: the class Array has what the interpreter asks of a tensor.
# Who checks a kernel with the interpreter, on a laptop say, compares with outputs that the GPU never gives, and widens the tolerance.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0' 'numpy==2.3.5' 'ml_dtypes==0.5.4'
cat >kernels.py <<'EOF'
import triton
import triton.language as tl


@triton.jit
def to_bfloat16(x, y):
    i = tl.arange(0, 8)
    tl.store(y + i, tl.load(x + i).to(tl.bfloat16))


@triton.jit
def to_e4m3(x, y):
    i = tl.arange(0, 8)
    tl.store(y + i, tl.load(x + i).to(tl.float8e4nv))


@triton.jit
def to_e5m2(x, y):
    i = tl.arange(0, 8)
    tl.store(y + i, tl.load(x + i).to(tl.float8e5))


CASES = (
    (to_bfloat16, "bfloat16", "bf16", "bfloat16"),
    (to_e4m3, "float8_e4m3fn", "fp8e4nv", "float8_e4m3fn"),
    (to_e5m2, "float8_e5m2", "fp8e5", "float8_e5m2"),
)
EOF
cat >compiled.py <<'EOF'
import re
from importlib.metadata import version

import triton
from kernels import CASES
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

print("triton", version("triton"))
for kernel, _, kind, _ in CASES:
    source = ASTSource(kernel, {"x": "*fp32", "y": f"*{kind}"}, {})
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm["ptx"]
    conversions = set(re.findall(r"cvt\.rn\.\S+", ptx))
    print(f"compiled {kernel.fn.__name__}: {sorted(conversions)}")
    assert conversions, "the behaviour has changed"
EOF
cat >interpreted.py <<'EOF'
import ml_dtypes
import numpy as np
from kernels import CASES


class Array:
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


found = {}
x = np.array([1.0, 1.0078, 1.95, -3.999, 1e-40, 448.0, 1e5, np.nan], np.float32)
print("float32    ", *x)
for kernel, name, _, element in CASES:
    dtype = np.dtype(getattr(ml_dtypes, element))
    y = np.zeros(x.size, dtype)
    kernel[(1,)](Array(x, "float32"), Array(y, name))
    found[name] = y.astype(float)
    print(f"interpreted {kernel.fn.__name__}:", *y, " nearest:", *x.astype(dtype))
bfloat16, e4m3, e5m2 = found.values()
assert bfloat16[1] == 1.0 and bfloat16[2] == 1.9453125 and bfloat16[4] > 1e-39, "the behaviour has changed"
assert e4m3[2] == 1.0 and e4m3[7] == 384, "the behaviour has changed"
assert e5m2[2] == 1.0 and np.isnan(e5m2[6]), "the behaviour has changed"
EOF
TRITON_CACHE_DIR=$folder/cache env/bin/python compiled.py
TRITON_INTERPRET=1 env/bin/python interpreted.py
