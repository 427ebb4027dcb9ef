#!/bin/sh
# `a - b` of two pyopencl arrays of equal shape pairs elements by their place in memory: if one is in C order and the other in Fortran
# order, equal arrays have differences of up to 6, and `a == b` says False of equal elements. No error and no warning is given.
# One would expect NumPy's result, or an error as there is for other strides. A reference that NumPy computed is often in Fortran order,
# for example a transpose or what `np.linalg` returns, and `to_device` keeps that order.
# Package: pyopencl 2026.1.4, array.py. Seen with PoCL; no GPU is needed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pyopencl==2026.1.4' 'pocl-binary-distribution==3.0' \
    'numpy==2.4.6' 'siphash24==1.9'
cat >check.py <<'EOF'
import numpy as np
import pyopencl as cl
import pyopencl.array as arrays

print("pyopencl", cl.VERSION_TEXT)
queue = cl.CommandQueue(cl.create_some_context(interactive=False))
numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
a, b = arrays.to_device(queue, numbers), arrays.to_device(queue, np.asfortranarray(numbers))
print("read back, the arrays are equal:", np.array_equal(a.get(), b.get()))
difference, same = np.abs((a - b).get()).max(), (a == b).get().astype(bool).all()
print("a - b has differences of up to", difference, "- a == b everywhere:", same)
assert np.array_equal(a.get(), b.get()) and difference > 0 and not same, "the behaviour has changed"
EOF
env/bin/python check.py
