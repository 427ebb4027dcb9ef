#!/bin/sh
# In a Triton kernel of float64, `x * 0.1` multiplies by 0.1, but `tl.maximum(x, 0.1)`, `tl.fma(x, 0.1, 1.0)`, `tl.cast(0.1, tl.float64)`
# and a variable, `s = 0.1; s += 0.1; x * s`, use 0.1 rounded to float32, which is 1.5e-9 more. No warning is given.
# One would expect one value of one literal, and the nearest float64, as the first one and `tl.full((), 0.1, tl.float64)` have it.
# Package: triton 3.6.0, compiling for compute capability 9.0 without a GPU; the constants are read from the PTX.
# A verified float64 kernel fails at tolerances below 1e-8, and which spelling of a constant is exact has to be known by heart.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0'
cat >check.py <<'EOF'
import re
import struct
from importlib.metadata import version

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def literal(x, y):
    i = tl.arange(0, 32)
    tl.store(y + i, tl.load(x + i) * 0.1)


@triton.jit
def full(x, y):
    i = tl.arange(0, 32)
    tl.store(y + i, tl.load(x + i) * tl.full((), 0.1, tl.float64))


@triton.jit
def maximum(x, y):
    i = tl.arange(0, 32)
    tl.store(y + i, tl.maximum(tl.load(x + i), 0.1))


@triton.jit
def fma(x, y):
    i = tl.arange(0, 32)
    tl.store(y + i, tl.fma(tl.load(x + i), 0.1, 1.0))


@triton.jit
def cast(x, y):
    i = tl.arange(0, 32)
    tl.store(y + i, tl.load(x + i) * tl.cast(0.1, tl.float64))


@triton.jit
def variable(x, y):
    i = tl.arange(0, 32)
    factor = 0.0
    factor += 0.1
    tl.store(y + i, tl.load(x + i) * factor)


def tenth(kernel):
    source = ASTSource(kernel, {"x": "*fp64", "y": "*fp64"}, {})
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    constants = [struct.unpack(">d", bytes.fromhex(code))[0] for code in re.findall("0d([0-9A-F]{16})", ptx)]
    return next(value for value in constants if abs(value - 0.1) < 0.01)


print("triton", version("triton"))
found = {kernel.fn.__name__: tenth(kernel) for kernel in (literal, full, maximum, fma, cast, variable)}
for name, value in found.items():
    print(f"{name}: 0.1 is {value!r}")
rounded = struct.unpack("f", struct.pack("f", 0.1))[0]
exact = dict.fromkeys(("literal", "full"), 0.1)
assert found == exact | dict.fromkeys(("maximum", "fma", "cast", "variable"), rounded), "the behaviour has changed"
EOF
TRITON_CACHE_DIR=$folder/cache env/bin/python check.py
