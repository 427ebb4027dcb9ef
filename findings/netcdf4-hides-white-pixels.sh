#!/bin/sh
# netCDF4 masks 255 in an array of uint8 that it wrote itself: of 255, 1, 2, 3 it reads [--, 1, 2, 3], whose sum is 6 and whose mean is 2. -127 of int8, -32767 of
# int16 and 4294967295 of uint32 vanish as well: each type has a fill value, which stands for "never written", though all elements were.
# `set_auto_mask(False)` on the file gives all numbers. One would expect a mask only where a fill value was asked for. No warning is given.
# Packages: netCDF4 1.7.5.1.post1.
# Inputs and expected outputs of scientific kernels are such files: a reference that reads one leaves out white pixels and the ends of types.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'netCDF4==1.7.5.1.post1' 'numpy==2.4.6'
cat >check.py <<'END'
import netCDF4
import numpy as np

print("netCDF4", netCDF4.__version__)
ARRAYS = {name: np.array([end, 1, 2, 3], name) for name, end in (("uint8", 255), ("int8", -127), ("int16", -32767), ("uint32", 2**32 - 1))}
with netCDF4.Dataset("arrays.nc", "w") as file:
    file.createDimension("n", 4)
    for name, array in ARRAYS.items():
        file.createVariable(name, array.dtype, ("n",))[:] = array
with netCDF4.Dataset("arrays.nc") as file:
    for name, array in ARRAYS.items():
        file.set_auto_mask(True)
        masked = file[name][:]
        file.set_auto_mask(False)
        print(name, "written:", array, "read:", masked, "sum:", masked.sum(), "mean:", masked.mean(), "without masks:", file[name][:])
        assert masked.sum() == 6 and masked.mean() == 2 and np.array_equal(file[name][:], array), "the behaviour has changed"
END
env/bin/python check.py
