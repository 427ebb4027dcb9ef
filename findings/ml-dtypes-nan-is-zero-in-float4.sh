#!/bin/sh
# NaN becomes -0 in float4_e2m1fn, float6_e2m3fn and float6_e3m2fn of ml_dtypes, the elements of MXFP4, NVFP4 and MXFP6, which have no NaN. CUDA's
# headers (cuda_fp4.h, cuda_fp6.h) convert it to the largest number, 6, 7.5 and 28, as ml_dtypes converts infinity. Neither warns. All other
# numbers tried are equal. One would expect one answer, since a NaN that turns into 0 hides: in a sum, nothing is left of it.
# Package: ml_dtypes 0.6.0. Seen with nvcc 13.0, whose host code needs no GPU; without nvcc, CUDA's half is left out.
# A quantised reference in NumPy and the kernel that converts on the GPU differ where the input has a NaN, and the reference looks healthy.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'ml_dtypes==0.6.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
import sys
from importlib.metadata import version

import ml_dtypes
import numpy as np

print("ml_dtypes", version("ml_dtypes"))
kinds = ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn
inputs = np.array([np.nan, np.inf, -np.inf, 7, 0.2, 0.75, 2.5, 5, -0.1], np.float32)
ours = np.stack([inputs.astype(kind).astype(np.float32) for kind in kinds], axis=1)
print("NaN, infinity in ml_dtypes:", *ours[:2].tolist())
assert ours[0].tolist() == [0, 0, 0] and np.signbit(ours[0]).all(), "the behaviour has changed"
assert ours[1].tolist() == [6, 7.5, 28], "the behaviour has changed"
if len(sys.argv) > 1:
    cuda = np.loadtxt(sys.argv[1])
    print("NaN, infinity in CUDA:", *cuda[:2].tolist())
    assert cuda[0].tolist() == [6, 7.5, 28] and (cuda[1:] == ours[1:]).all(), "the behaviour has changed"
EOF
cat >convert.cu <<'EOF'
#include <cmath>
#include <cstdio>
#include <cuda_fp4.h>
#include <cuda_fp6.h>

int main() {
    for (float x : {NAN, INFINITY, -INFINITY, 7.f, 0.2f, 0.75f, 2.5f, 5.f, -0.1f})
        printf("%g %g %g\n", (float)__nv_fp4_e2m1(x), (float)__nv_fp6_e2m3(x), (float)__nv_fp6_e3m2(x));
}
EOF
if command -v nvcc >/dev/null; then
    nvcc --version | tail -n 1
    nvcc -o convert convert.cu
    ./convert >cuda.txt
    env/bin/python check.py cuda.txt
else
    env/bin/python check.py
fi
