#!/bin/sh
# One NaN among the elements makes `tl.sort` return others in place of some of them: of 0, 1, 2, NaN, 4, 5, 6, 7, the result is 0, 1, 0, 1,
# 4, 5, 6, 7, and of NaN, 1, 2, 3 it is four times NaN. Each of two elements that are compared decides by itself whether to take the
# other's value, and every comparison with NaN is false, so both take the same one.
# One would expect a permutation of the input with NaN at one end, as `np.sort`, `torch.sort` and CUB's radix sort return it.
# Package: triton 3.6.0, in its interpreter, without torch: the class Array has what the interpreter asks of a tensor. Compiled code gave
# the same on an H200, in November 2026: 4 twice and no NaN for 0 to 31 with NaN in the place of 5.
# A kernel that sorts (top-k, sampling, a median) invents elements as soon as one score is NaN, and no NaN in the output shows it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
import triton
import triton.language as tl


@triton.jit
def sort(x, y, COUNT: tl.constexpr):
    i = tl.arange(0, COUNT)
    tl.store(y + i, tl.sort(tl.load(x + i)))


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


def by_triton(values):
    x = np.array(values, np.float32)
    y = np.zeros_like(x)
    sort[(1,)](Array(x), Array(y), len(x))
    return y


print("triton", version("triton"))
nan = float("nan")
found = []
for values in ([7, 6, 5, 4, 3, 2, 1, 0], [0, 1, 2, nan, 4, 5, 6, 7], [nan, 1, 2, 3], [nan if i == 5 else i for i in range(32)]):
    found.append(by_triton(values))
    print("np.sort:", *np.sort(values).astype(np.float32), "\ntl.sort:", *found[-1])
assert list(found[0]) == list(range(8))
assert list(found[1]) == [0, 1, 0, 1, 4, 5, 6, 7], "the behaviour has changed"
assert np.isnan(found[2]).all(), "the behaviour has changed"
assert list(found[3]) == [*range(5), 4, *range(6, 32)], "the behaviour has changed"
EOF
TRITON_INTERPRET=1 env/bin/python check.py
