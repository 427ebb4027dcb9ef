#!/bin/sh
# `(a > 0) + (b > 0)` of Triton adds in one bit: where both are true, the sum is 0. C counts 2 there; NumPy and Triton's own
# interpreter say True. `tl.sum` and `tl.cumsum` of a mask do count, in int32. The interpreter, with which the kernel is tried on a laptop,
# so gives 1 for two neighbours, and the code for the GPU 0.
# Package: triton 3.6.0, without a GPU and without torch: the class Array has what the interpreter asks of a tensor.
# Counting conditions is common: neighbours in a stencil, bits of a rank. Cast one mask to tl.int32 first.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0' 'numpy==2.3.5'
cat >kernels.py <<'EOF'
import triton
import triton.language as tl


@triton.jit
def count(x, y):
    i = tl.arange(0, 8)
    a = tl.load(x + i)
    tl.store(y + i, (a > 0) + (a > 1) + (a > 2))
EOF
cat >compiled.py <<'EOF'
import re
from importlib.metadata import version

import triton
from kernels import count
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

print("triton", version("triton"))
built = triton.compile(ASTSource(count, {"x": "*i32", "y": "*i32"}, {}), target=GPUTarget("cuda", 90, 32))
additions = re.findall(r"arith\.addi .* : (tensor\S+)", built.asm["ttir"])
print("compiled: additions of", additions)
assert additions == ["tensor<8xi1>"] * 2, "the behaviour has changed"
EOF
cat >interpreted.py <<'EOF'
import numpy as np
from kernels import count


class Array:
    dtype = "int32"

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


x = np.arange(8, dtype=np.int32) % 4
y = np.zeros(8, np.int32)
count[(1,)](Array(x), Array(y))
print("numbers:", *x, " interpreted:", *y, " counted in C:", *x)
assert (y == (x > 0)).all(), "the behaviour has changed"
EOF
TRITON_CACHE_DIR=$folder/cache env/bin/python compiled.py
TRITON_INTERPRET=1 env/bin/python interpreted.py
