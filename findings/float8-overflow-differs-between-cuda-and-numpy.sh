#!/bin/sh
# 1000.0 as float8 e4m3 is 448 in CUDA (cuda_fp8.h saturates by default, infinities too) and NaN in ml_dtypes; as e5m2, 70000.0 is
# 57344 in CUDA and inf in ml_dtypes. Below the largest number both agree on all of 300,000 random values.
# One would expect one meaning of a standard conversion. Packages: nvidia-cuda-runtime 13.0.96 (host functions of its header, no GPU),
# ml_dtypes 0.6.0. A reference in NumPy and a kernel disagree wherever a value overflows. Needs a C++ compiler.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6' 'ml_dtypes==0.6.0' 'nvidia-cuda-runtime==13.0.96' 'nvidia-cuda-cccl==13.0.85' 'nvidia-cuda-crt==13.0.88'
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
        __nv_fp8_e4m3 small(value);
        __nv_fp8_e5m2 wide(value);
        fwrite(&small, 1, 1, stdout);
        fwrite(&wide, 1, 1, stdout);
    }
}"""
print(*(f"{name} {version(name)}" for name in ("ml_dtypes", "nvidia-cuda-runtime")))
includes = sorted({path.parents[0] for path in pathlib.Path("env").rglob("cuda_fp8.h")})
includes += [path.parents[1] for path in pathlib.Path("env").rglob("nv/target")]
pathlib.Path("convert.cpp").write_text(PROGRAM)
subprocess.run(["c++", "-std=c++17", *(f"-I{folder}" for folder in includes), "convert.cpp", "-o", "convert"], check=True)


def by_cuda(values):
    done = subprocess.run(["./convert"], input=values.tobytes(), capture_output=True, check=True)
    codes = np.frombuffer(done.stdout, np.uint8).reshape(-1, 2)
    return codes[:, 0].view(ml_dtypes.float8_e4m3fn), codes[:, 1].view(ml_dtypes.float8_e5m2)


with np.errstate(all="ignore"):
    random = np.random.default_rng(0).uniform(-440, 440, 300_000).astype(np.float32)
    small, wide = by_cuda(random)
    assert (small.view(np.uint8) == random.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)).all()
    assert (wide.view(np.uint8) == random.astype(ml_dtypes.float8_e5m2).view(np.uint8)).all()
    large = np.array([1000.0, 70000.0, np.inf], np.float32)
    cuda = [list(map(float, codes)) for codes in by_cuda(large)]
    numpy = [list(map(float, large.astype(kind))) for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)]
print("e4m3 of 1000, 70000, inf: CUDA", cuda[0], "ml_dtypes", numpy[0])
print("e5m2 of 1000, 70000, inf: CUDA", cuda[1], "ml_dtypes", numpy[1])
assert str(cuda) == "[[448.0, 448.0, 448.0], [1024.0, 57344.0, 57344.0]]", "the behaviour has changed"
assert str(numpy) == "[[nan, nan, nan], [1024.0, inf, inf]]", "the behaviour has changed"
EOF
env/bin/python check.py
