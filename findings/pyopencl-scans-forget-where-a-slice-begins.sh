#!/bin/sh
# `pyopencl.array.cumsum(x[4:8])` adds the elements 0 to 3: the scans of PyOpenCL start where the whole array begins, whatever the slice. Of 0, 1,
# ..., 11 it returns 0, 1, 3, 6 in place of 4, 9, 15, 22. `copy_if`, `unique` and `RadixSort` are scans and do the same. The sum and
# the maximum of the same slice are right, and of a slice with a step, sums are refused. No error and no warning is given.
# One would expect the slice, or the error that `x[4:8].data` is: that arrays which start at an offset are not supported.
# Package: pyopencl 2026.1.4, scan.py. Seen with PoCL; no GPU is needed.
# Stream compaction and prefix sums of a part of an array are usual: the offsets that follow are plausible, of the right number, and wrong.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pocl-binary-distribution==3.0' 'pyopencl==2026.1.4' \
    'numpy==2.4.6' 'siphash24==1.9' 'mako==1.3.10'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
import pyopencl as cl
import pyopencl.array as array
from pyopencl.algorithm import RadixSort, copy_if, unique

device = cl.get_platforms()[0].get_devices()[0]
print("pyopencl", version("pyopencl"), device.version)
context = cl.Context([device])
queue = cl.CommandQueue(context)
numbers = np.arange(12, dtype=np.int32)
whole = array.to_device(queue, numbers)
part = whole[4:8]
own = array.to_device(queue, numbers[4:8])


def chosen(result):
    values, count, *_ = result
    return values.get()[: int(count.get())].tolist()


sort = RadixSort(context, "int *ary", key_expr="ary[i]", sort_arg_names=["ary"])
found = {
    "cumsum": lambda x: array.cumsum(x).get().tolist(),
    "copy_if > 5": lambda x: chosen(copy_if(x, "ary[i] > 5")),
    "unique": lambda x: chosen(unique(x)),
    "RadixSort": lambda x: sort(x)[0][0].get().tolist(),
}
for name, of in found.items():
    slice_, copy, first = of(part), of(own), of(array.to_device(queue, numbers[:4]))
    print(f"{name}: of 4 to 7 as a slice {slice_}, as an array of its own {copy}, of 0 to 3 {first}")
    assert slice_ == first != copy, "the behaviour has changed"
total = int(array.sum(part).get())
print("sum of the slice:", total)
assert total == 22, "sums know the slice"
try:
    part.data
except array.ArrayHasOffsetError as error:
    print("part.data:", error)
EOF
env/bin/python check.py
