#!/bin/sh
# An integer beside a float takes the type of the float in Triton, and a literal is float32: `n * 2.5` and `n / d` of int64 are computed in float32,
# where 2^24 + 1 is 2^24, also if the result is stored as float64; `i + h` of int32 and float16 is float16, where 2049 is 2048 and 70000 is
# infinite. `/` of two integers is `div.full`, an approximation. NumPy computes all three in float64, CUDA C the first in double.
# One would expect 64-bit integers to keep more than 24 bits beside a literal.
# Package: triton 3.6.0 (3.9.0 gives the same), read from its PTX, without a GPU.
# Indices that are scaled and rounded, such as tl.ceil(n / BLOCK) or tl.floor(i * 0.5), are wrong from 16 million elements on.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0'
cat >kernels.py <<'EOF'
import triton
import triton.language as tl


@triton.jit
def scaled(x, y, z):
    i = tl.arange(0, 32)
    tl.store(z + i, tl.load(x + i) * 2.5)


@triton.jit
def quotient(x, y, z):
    i = tl.arange(0, 32)
    tl.store(z + i, tl.load(x + i) / tl.load(y + i))


@triton.jit
def total(x, y, z):
    i = tl.arange(0, 32)
    tl.store(z + i, tl.load(x + i) + tl.load(y + i))
EOF
cat >check.py <<'EOF'
import re
from importlib.metadata import version

import kernels
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

print("triton", version("triton"))
CASES = (
    (kernels.scaled, ("i64", "i64", "fp64"), ["cvt.rn.f32.s64", "mul.f32", "cvt.f64.f32"]),
    (kernels.quotient, ("i64", "i64", "fp64"), ["cvt.rn.f32.s64", "cvt.rn.f32.s64", "div.full.f32", "cvt.f64.f32"]),
    (kernels.total, ("i32", "fp16", "fp32"), ["cvt.rn.f16.s32", "add.f16", "cvt.f32.f16"]),
)
for kernel, kinds, expected in CASES:
    source = ASTSource(kernel, {name: f"*{kind}" for name, kind in zip("xyz", kinds)}, {})
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm["ptx"]
    found = re.findall(r"^\s*((?:cvt\.(?:rn\.)?f|mul\.f|add\.f|div\.)\S+)", ptx, re.MULTILINE)
    print(f"{kernel.fn.__name__} of {', '.join(kinds[:2])} to {kinds[2]}: {found}")
    assert found == expected, "the behaviour has changed"
EOF
TRITON_CACHE_DIR=$folder/cache env/bin/python check.py
