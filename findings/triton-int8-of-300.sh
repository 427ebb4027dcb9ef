#!/bin/sh
# `x.to(tl.int8)` of 300.7 is 300 in Triton, which no int8 can be: converted to float32 again, it is 300; stored to memory, it is 44. Triton
# converts to 16 bits, and what follows in the kernel takes all of these; so 300.7 as uint8 is 300 as well, and -300.7 is -300 as int8. Triton's
# interpreter, like NumPy, gives 44 in both places. No warning is given.
# One would expect a value of the type, whichever: C leaves open which one it is, but not that it is outside of the type.
# Package: triton 3.6.0, compiling for compute capability 9.0 without a GPU, read from the PTX. An H200 gave 300 and -300, in November 2026.
# A kernel that quantises and goes on with what it has quantised (scales, errors, fake quantisation) differs from one that reads the stored
# bytes, and which of both runs may depend on a tuning parameter that splits the kernel. Clamp first.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0'
cat >check.py <<'EOF'
import re
from importlib.metadata import version

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def there_and_back(x, y):
    tl.store(y, tl.load(x).to(tl.int8).to(tl.float32))


@triton.jit
def stored(x, y):
    tl.store(y, tl.load(x).to(tl.int8))


def operations(kernel, result):
    """What the kernel does between loading the number and storing it."""
    source = ASTSource(kernel, {"x": "*fp32", "y": result}, {})
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm["ptx"]
    return re.findall(r"\b(?:cvt|bfe|shl|shr|min|max|prmt|st\.global)\.\S+", ptx)


print("triton", version("triton"))
back, kept = operations(there_and_back, "*fp32"), operations(stored, "*i8")
print("x.to(tl.int8).to(tl.float32):", back)
print("x.to(tl.int8), stored:", kept)
print("to 16 bits and back, 300.7 is", float(int(300.7)), "; its last 8 bits are", (int(300.7) + 128) % 256 - 128)
assert back[:2] == ["cvt.rzi.s16.f32", "cvt.rn.f32.s16"], "the behaviour has changed"
assert kept == ["cvt.rzi.s16.f32", "st.global.b8"], "the behaviour has changed"
EOF
TRITON_CACHE_DIR=$folder/cache env/bin/python check.py
