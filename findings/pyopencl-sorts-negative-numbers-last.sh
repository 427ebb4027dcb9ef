#!/bin/sh
# pyopencl's RadixSort of int32 puts negative numbers behind all others: of 5, -1, 3, -7, 0, 2 it makes 0, 2, 3, 5, -7, -1, because it sorts the
# bits; there is no warning, and its page asks for "an integer-valued C expression" alone. And BitonicSort of float32 with a NaN returns
# another element twice in place of it: of 3, NaN, 1, 2, 7, 5, 4, 6 it makes 1, 2, 3, 3, 4, 5, 6, 7.
# One would expect ascending order and the same elements, as np.sort, CUB's and Thrust's sorts return them; the key "ary[i] ^ 0x80000000" helps.
# Package: pyopencl 2026.1.4 with pocl-binary-distribution 3.0; no GPU is needed.
# These are what a sort kernel is compared with in OpenCL, for its answer and for its speed, and what comes before a scan or a search.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pyopencl==2026.1.4' 'pocl-binary-distribution==3.0' 'mako==1.4.3' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
import pyopencl
import pyopencl.array
from pyopencl.algorithm import RadixSort
from pyopencl.bitonic_sort import BitonicSort

print("pyopencl", version("pyopencl"), "numpy", version("numpy"))
queue = pyopencl.CommandQueue(pyopencl.create_some_context(interactive=False))


def by_radix(values, key):
    sort = RadixSort(queue.context, "__global const int *ary", key, ["ary"], key_dtype=np.dtype(np.int32))
    (result,), _ = sort(pyopencl.array.to_device(queue, np.array(values, np.int32)))
    return result.get().tolist()


def bitonic(values):
    result, _ = BitonicSort(queue.context)(pyopencl.array.to_device(queue, np.array(values, np.float32)), queue=queue)
    queue.finish()
    return result.get().tolist()


integers = [5, -1, 3, -7, 0, 2]
plain, flipped = by_radix(integers, "ary[i]"), by_radix(integers, "ary[i] ^ 0x80000000")
print("RadixSort of", integers, "is", plain, "; with the sign bit flipped:", flipped)
numbers = [3, float("nan"), 1, 2, 7, 5, 4, 6]
found = bitonic(numbers)
print("BitonicSort of", numbers, "is", found)
assert plain == [0, 2, 3, 5, -7, -1] and flipped == sorted(integers), "the behaviour has changed"
assert sorted(found) == [1, 2, 3, 3, 4, 5, 6, 7], "the behaviour has changed"
EOF
PYOPENCL_CTX=0 env/bin/python check.py
