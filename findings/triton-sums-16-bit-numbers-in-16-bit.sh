#!/bin/sh
# `tl.sum` of float16 adds in float16 and `tl.sum` of bfloat16 adds in bfloat16, while `tl.cumsum` of bfloat16 adds in float32 and that of
# float16 does not; `tl.sum` of int8 adds in int32. One would expect float32 for both, as `tl.dot`, PyTorch and NumPy's float16 have it.
# Package: triton 3.6.0, compiling for compute capability 9.0 without a GPU; the additions are counted in the PTX.
# The order of additions follows from num_warps and the layout, so two configurations of one kernel differ in the third digit, and a
# reference in float32 rejects both, until `dtype=tl.float32` is passed or the operand is cast.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0'
cat >check.py <<'EOF'
import re
from collections import Counter
from importlib.metadata import version

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def total(x, y):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, 256))))


@triton.jit
def total_in_float32(x, y):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, 256)), dtype=tl.float32))


@triton.jit
def running(x, y):
    i = tl.arange(0, 256)
    tl.store(y + i, tl.cumsum(tl.load(x + i), 0))


def additions(kernel, kind):
    source = ASTSource(kernel, {"x": f"*{kind}", "y": f"*{kind}"}, {})
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm["ptx"]
    return Counter(re.findall(r"add\.(?:rn\.)?(f16x?2?|bf16x?2?|f32)\b", ptx))


print("triton", version("triton"))
found = {}
for kernel in (total, total_in_float32, running):
    for kind in ("fp16", "bf16"):
        found[kernel.fn.__name__, kind] = counts = additions(kernel, kind)
        print(f"{kernel.fn.__name__} of {kind}: additions by type {dict(counts)}")
types = {key: set(counts) for key, counts in found.items()}
assert types["total", "fp16"] == {"f16"} and types["total", "bf16"] == {"bf16"}, "the behaviour has changed"
assert types["running", "fp16"] == {"f16"} and types["running", "bf16"] == {"f32"}, "the behaviour has changed"
assert types["total_in_float32", "fp16"] == types["total_in_float32", "bf16"] == {"f32"}, "the behaviour has changed"
EOF
TRITON_CACHE_DIR=$folder/cache env/bin/python check.py
