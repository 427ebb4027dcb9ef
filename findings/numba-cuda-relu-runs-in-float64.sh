#!/bin/sh
# In a Numba kernel of float32, `max(x[i], 0)` compares in float64, `x[i] * n` with an int32 argument multiplies in float64, and so do `0.1 * x[i]`,
# `x[i] ** 0.5` and `cuda.fma(x[i], a, 1.0)`: the PTX converts to f64 and back. `2 * x[i]` and `1 / x[i]` are computed in float32. One would expect
# float32 throughout, as in CUDA C for all of these but 0.1. `max(x[i], np.float32(0))` and `x[i] * np.float32(n)` give it.
# Packages: numba 0.68.1, numba-cuda 0.30.4 with NVRTC and libNVVM 13.0.88, without a GPU.
# GPUs for graphics run float64 at 1/64 of the rate of float32: the literal of a ReLU decides a time more than any tuning parameter.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numba==0.68.1' 'numba-cuda==0.30.4' 'nvidia-cuda-nvrtc==13.0.88' \
    'nvidia-cuda-nvcc==13.0.88' 'nvidia-nvvm==13.0.88' 'numpy==2.4.6'
cat >kernels.py <<'EOF'
import numpy as np
from numba import cuda


def relu(y, x, n):
    y[0] = max(x[0], 0)


def by_argument(y, x, n):
    y[0] = x[0] * n


def by_literal(y, x, n):
    y[0] = 0.1 * x[0]


def root(y, x, n):
    y[0] = x[0] ** 0.5


def fused(y, x, n):
    y[0] = cuda.fma(x[0], x[1], 1.0)


def doubled(y, x, n):
    y[0] = 2 * x[0]


def inverse(y, x, n):
    y[0] = 1 / x[0]


def relu_of_float32(y, x, n):
    y[0] = max(x[0], np.float32(0))


def by_float32(y, x, n):
    y[0] = x[0] * np.float32(n)
EOF
cat >check.py <<'EOF'
import re
from importlib.metadata import version

import kernels
from numba import cuda, types

print("numba", version("numba"), "numba-cuda", version("numba-cuda"))
array = types.float32[::1]
found = {}
for name in ("relu", "by_argument", "by_literal", "root", "fused", "doubled", "inverse", "relu_of_float32", "by_float32"):
    ptx = cuda.compile_ptx(getattr(kernels, name), (array, array, types.int32), cc=(9, 0))[0]
    words = re.findall(r"^\s*((?:mul|add|max|setp|fma|rcp|cvt)\.\S*f(?:32|64)\S*)", ptx, re.MULTILINE)
    found[name] = "cvt.f64.f32" in words
    print(f"{name}: {'float64' if found[name] else 'float32'} {' '.join(words[:4])}")
wide = [name for name, is_wide in found.items() if is_wide]
assert wide == ["relu", "by_argument", "by_literal", "root", "fused"], "the behaviour has changed"
EOF
env/bin/python check.py
