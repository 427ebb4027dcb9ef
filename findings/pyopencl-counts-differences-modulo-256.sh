#!/bin/sh
# `pyopencl.array.sum(a != b)` of arrays that differ in 256 elements is 0: a comparison gives int8, and the sum of int8 is computed in int8.
# 1,000 ones of uint8 add up to 232, and `dot` does the same. NumPy adds small integers in 64 bit. No warning is given.
# One would expect 256: a kernel that computes one block of 256 elements wrongly passes a test for no differences.
# Package: pyopencl 2026.1.4, array.py, sum; `dtype=numpy.int64` gives 256. Seen with PoCL; no GPU is needed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pyopencl==2026.1.4' 'pocl-binary-distribution==3.0' \
    'numpy==2.4.6' 'siphash24==1.9' 'Mako==1.4.3'
cat >check.py <<'EOF'
import numpy as np
import pyopencl as cl
import pyopencl.array as arrays

print("pyopencl", cl.VERSION_TEXT)
queue = cl.CommandQueue(cl.create_some_context(interactive=False))
expected = arrays.zeros(queue, 1024, np.float32)
found = expected.copy()
found[:256] = 1
number = int(arrays.sum(found != expected).get())
right = int(arrays.sum(found != expected, dtype=np.int64).get())
in_numpy = int(np.sum(found.get() != expected.get()))
ones = int(arrays.sum(arrays.to_device(queue, np.ones(1000, np.uint8))).get())
print("differences:", number, "- with dtype:", right, "- in NumPy:", in_numpy, "- sum of 1,000 ones of uint8:", ones)
assert (number, right, in_numpy, ones) == (0, 256, 256, 232), "the behaviour has changed"
EOF
env/bin/python check.py
