#!/bin/sh
# A scale of e8m0, the powers of two that MXFP8 and MXFP4 have for each block of 32 numbers: 0 becomes NaN in ml_dtypes and 2^-127 in CUDA
# (cuda_fp8.h), and 1.4 becomes 1 in ml_dtypes, which rounds to the nearest, and 2 in CUDA's class, which rounds up. -1 is NaN and 1,
# infinity NaN and 2^127. One would expect one meaning of a type that a standard defines; below 0, a number or NaN in both.
# Packages: nvidia-cuda-runtime 13.0.96 (host functions of its header, no GPU), ml_dtypes 0.6.0. Needs a C++ compiler.
# A block of zeros, such as padding or pruned weights, is zero in the kernel and NaN in a reference that scales it by NumPy's e8m0, and a
# quantised block differs by a factor of two wherever the largest number's rounding does.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6' 'ml_dtypes==0.6.0' 'nvidia-cuda-runtime==13.0.96' \
    'nvidia-cuda-cccl==13.0.85' 'nvidia-cuda-crt==13.0.88'
cat >check.py <<'EOF'
import pathlib
import subprocess
from importlib.metadata import version

import ml_dtypes
import numpy as np

PROGRAM = """
#include <cuda_fp8.h>
#include <cstdio>
int main() {
    float value;
    while (fread(&value, 4, 1, stdin) == 1) {
        __nv_fp8_e8m0 scale(value);
        fwrite(&scale, 1, 1, stdout);
    }
}"""
print(*(f"{name} {version(name)}" for name in ("ml_dtypes", "nvidia-cuda-runtime")))
includes = sorted({path.parents[0] for path in pathlib.Path("env").rglob("cuda_fp8.h")})
includes += [path.parents[1] for path in pathlib.Path("env").rglob("nv/target")]
pathlib.Path("convert.cpp").write_text(PROGRAM)
subprocess.run(["c++", "-std=c++17", *(f"-I{folder}" for folder in includes), "convert.cpp", "-o", "convert"], check=True)


def by_cuda(values):
    done = subprocess.run(["./convert"], input=values.tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.uint8).view(ml_dtypes.float8_e8m0fnu)


def shown(scales):
    return [f"{value:.3g}" for value in scales.astype(np.float64)]


values = np.array([0, 1, 1.4, 1.6, -1, np.inf], np.float32)
with np.errstate(all="ignore"):
    cuda, numpy = shown(by_cuda(values)), shown(values.astype(ml_dtypes.float8_e8m0fnu))
    random = np.exp2(np.random.default_rng(0).uniform(-100, 100, 100_000)).astype(np.float32)
    differ = np.mean(by_cuda(random).view(np.uint8) != random.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8))
    block = np.zeros(32, np.float32)
    quotient = block / np.abs(block).max(keepdims=True).astype(ml_dtypes.float8_e8m0fnu).astype(np.float32)
print("numbers:  ", *values)
print("CUDA:     ", *cuda)
print("ml_dtypes:", *numpy)
print(f"random numbers whose scales differ: {differ:.0%}; a block of zeros, scaled by ml_dtypes: {quotient[0]}")
assert cuda == ["5.88e-39", "1", "2", "2", "1", "1.7e+38"], "the behaviour has changed"
assert numpy == ["nan", "1", "1", "2", "nan", "nan"], "the behaviour has changed"
assert 0.4 < differ < 0.7 and np.isnan(quotient).all()
EOF
env/bin/python check.py
