#!/bin/sh
# `x ** 2` of an int64 is rounded to float64 by Numba's CUDA target: it multiplies in int64, converts the product to float64 and back, so that
# 94906267 ** 2 is 9007199515875288 where 9007199515875289 is right. So are `x ** 3` and both of int32, where the result is over 2 ** 53.
# Numba's own compiler for processors keeps every digit, and `x * x` does on both. The type is int64 everywhere, and no warning is given.
# One would expect what the same function gives on the processor.
# Packages: numba-cuda 0.30.4, numba 0.68.1, compiling for compute capability 9.0 without a GPU; the conversions are read from the PTX.
# Hashes, modular arithmetic (`x ** 2 % p`), random numbers and sums of squared distances have such powers: the kernel differs from the same
# code on the host, its reference, and pays two conversions with double that are slow on most GPUs.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numba-cuda==0.30.4' 'numba==0.68.1' 'nvidia-cuda-nvrtc==13.0.88' \
    'nvidia-cuda-nvcc==13.0.88' 'nvidia-nvvm==13.0.88' 'numpy==2.4.6'
cat >check.py <<'EOF'
import re
from importlib.metadata import version

import numpy as np
from numba import cuda, int32, int64, njit

print(*(f"{name} {version(name)}" for name in ("numba-cuda", "numba")))


def square(y, x):
    y[0] = x**2


def cube(y, x):
    y[0] = x**3


def product(y, x):
    y[0] = x * x


found = {}
for function in (square, cube, product):
    for kind in (int32, int64):
        ptx, _ = cuda.compile_ptx(function, (kind[:], kind), cc=(9, 0), device=False)
        found[function.__name__, str(kind)] = re.findall(r"\b(?:cvt|mul|fma)\.[\w.]*f64[\w.]*|\bmul\.lo\.\w+", ptx)
        print(f"{function.__name__} of {kind}: {found[function.__name__, str(kind)]}")
y, x = np.zeros(1, np.int64), 94906267
njit(square)(y, x)
print(f"{x} ** 2 is {y[0]} on the processor; by way of float64 it is {int(float(y[0]))}")
assert y[0] == x**2 != int(float(y[0]))
for kind in ("int32", "int64"):
    assert any("f64" in each for each in found["square", kind]), "the behaviour has changed"
    assert any("f64" in each for each in found["cube", kind]), "the behaviour has changed"
    assert not any("f64" in each for each in found["product", kind])
EOF
env/bin/python check.py
